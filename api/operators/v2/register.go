package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OperatorConditionKind is the kind of this group and version.
const OperatorConditionKind = "OperatorCondition"

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "operators.coreos.com", Version: "v2"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &OperatorCondition{}, &OperatorConditionList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
