// Package v1 contains kinds of OLM Classic, group operators.coreos.com, version v1: the
// OperatorGroup, the OLMConfig, the Operator, and an older version of the OperatorCondition.
//
// It contains data types only. Their controllers are in internal/classic.
//
// +kubebuilder:object:generate=true
// +groupName=operators.coreos.com
package v1
