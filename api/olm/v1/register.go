package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of this group.
const (
	ClusterCatalogKind   = "ClusterCatalog"
	ClusterExtensionKind = "ClusterExtension"
	ClusterObjectSetKind = "ClusterObjectSet"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "olm.operatorframework.io", Version: "v1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ClusterCatalog{}, &ClusterCatalogList{},
		&ClusterExtension{}, &ClusterExtensionList{},
		&ClusterObjectSet{}, &ClusterObjectSetList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
