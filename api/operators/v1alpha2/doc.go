// Package v1alpha2 contains the OperatorGroup of group operators.coreos.com as it was before v1. It is
// served for those who still write it; what is stored is v1.
//
// It describes data only: what is made of the kind is in internal/classic.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v1alpha2
