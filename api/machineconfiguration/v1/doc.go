// Package v1 contains kinds of group machineconfiguration.openshift.io, version v1: MachineConfig,
// which says what the operating system of nodes is to be like, and MachineConfigPool, which says
// which nodes that is said of and how many of them change at once.
//
// It describes data only: what configurations mean and how they are merged is decided in
// internal/node/config, which nodes change in internal/node/pools, and what is done about it in
// the rest of internal/node. Of a cluster that has the kinds already, their definitions there
// hold, not the ones of this project.
//
// +kubebuilder:object:generate=true
// +groupName=machineconfiguration.openshift.io
package v1
