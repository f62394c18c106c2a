// Package v1 contains kinds of group machineconfiguration.openshift.io, version v1. A MachineConfig
// configures the operating system of nodes. A MachineConfigPool selects nodes and
// MachineConfigs, and limits how many nodes are updated at once.
//
// It contains data types only. internal/node/config merges configurations, internal/node/pools
// chooses the nodes to update, and the rest of internal/node updates them. In a cluster that
// already has the kinds, the CRDs there apply, not those of this project.
//
// +kubebuilder:object:generate=true
// +groupName=machineconfiguration.openshift.io
package v1
