// Package v2 contains the OperatorCondition of group operators.coreos.com, version v2: how an operator
// tells what state it is in.
//
// It describes data only: what is made of the kind is in internal/classic/condition.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v2
