// Package v1 contains kinds of OLM Classic, group operators.coreos.com, version v1: the
// OperatorGroup, the OLMConfig, and the OperatorCondition as it was before v2.
//
// It describes data only: what is made of the kinds is in internal/classic.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v1
