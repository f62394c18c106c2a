// Package v2 contains the OperatorCondition of group operators.coreos.com, version v2, by which an
// operator reports its state.
//
// It contains data types only. The controllers are in internal/classic/condition.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v2
