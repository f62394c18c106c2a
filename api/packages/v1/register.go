package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What the kind of this group and version is called.
const (
	PackageManifestKind     = "PackageManifest"
	PackageManifestListKind = "PackageManifestList"
	PackageManifestResource = "packagemanifests"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "packages.operators.coreos.com", Version: "v1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PackageManifest{}, &PackageManifestList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
