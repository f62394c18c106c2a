package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of this group.
const (
	OperatorGroupKind     = "OperatorGroup"
	OLMConfigKind         = "OLMConfig"
	OperatorConditionKind = "OperatorCondition"
	OperatorKind          = "Operator"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "operators.coreos.com", Version: "v1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&OperatorGroup{}, &OperatorGroupList{},
		&OLMConfig{}, &OLMConfigList{},
		&OperatorCondition{}, &OperatorConditionList{},
		&Operator{}, &OperatorList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
