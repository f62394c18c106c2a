// Package v1 contains the kind MachineConfiguration of group operator.openshift.io, version v1: what
// changes of nodes' configurations ask of the nodes.
//
// It describes data only: what a change asks for is decided in internal/node/config. Of a cluster
// that has the kind already, its definition there holds, not the one of this project.
//
// +kubebuilder:object:generate=true
// +groupName=operator.openshift.io
package v1
