package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of this group.
const (
	ImageDigestMirrorSetKind = "ImageDigestMirrorSet"
	ImageTagMirrorSetKind    = "ImageTagMirrorSet"
	ClusterOperatorKind      = "ClusterOperator"
	ClusterVersionKind       = "ClusterVersion"
	OperatorHubKind          = "OperatorHub"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "config.openshift.io", Version: "v1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ImageDigestMirrorSet{}, &ImageDigestMirrorSetList{},
		&ImageTagMirrorSet{}, &ImageTagMirrorSetList{},
		&ClusterOperator{}, &ClusterOperatorList{},
		&ClusterVersion{}, &ClusterVersionList{},
		&OperatorHub{}, &OperatorHubList{},
	)

	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
