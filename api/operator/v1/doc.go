// Package v1 contains the kind MachineConfiguration of group operator.openshift.io, version v1, which
// configures the disruptive actions after changes of nodes' configurations.
//
// It contains data types only. internal/node/config evaluates them. In a cluster that already has the
// kind, the CRD there applies, not that of this project.
//
// +kubebuilder:object:generate=true
// +groupName=operator.openshift.io
package v1
