package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ImageContentSourcePolicyKind is the kind of this group.
const ImageContentSourcePolicyKind = "ImageContentSourcePolicy"

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "operator.openshift.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ImageContentSourcePolicy{}, &ImageContentSourcePolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
