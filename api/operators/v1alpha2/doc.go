// Package v1alpha2 contains an older version of the OperatorGroup of group operators.coreos.com. It is
// served for existing manifests; objects are stored as v1.
//
// It contains data types only. The controllers are in internal/classic.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v1alpha2
