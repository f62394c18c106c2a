package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of this group.
const (
	ClusterServiceVersionKind = "ClusterServiceVersion"
	CatalogSourceKind         = "CatalogSource"
	InstallPlanKind           = "InstallPlan"
	SubscriptionKind          = "Subscription"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "operators.coreos.com", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ClusterServiceVersion{}, &ClusterServiceVersionList{},
		&CatalogSource{}, &CatalogSourceList{},
		&InstallPlan{}, &InstallPlanList{},
		&Subscription{}, &SubscriptionList{},
	)

	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
