package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// Options are the choices of the user.
type Options struct {
	// Extension is the name of the ClusterExtension. Empty means the name of the Subscription.
	Extension string
	// ServiceAccount is the service account of the ClusterExtension. Empty means none.
	ServiceAccount string
	// Acknowledged are the findings that the user accepts.
	Acknowledged []Acknowledgement
}

// GroupBinding is a binding to a ClusterRole of an OperatorGroup.
type GroupBinding struct {
	Kind, Namespace, Name string
	// Role is the name of the ClusterRole.
	Role string
}

// Facts are what a cluster and a bundle are like before a migration.
type Facts struct {
	// Subscription is the Subscription to migrate.
	Subscription *v1alpha1.Subscription
	// Subscriptions are those of the whole cluster.
	Subscriptions []v1alpha1.Subscription
	// CSV is the installed ClusterServiceVersion. It is nil if it does not exist.
	CSV *v1alpha1.ClusterServiceVersion
	// CSVs are those of the whole cluster, without copied ones.
	CSVs []v1alpha1.ClusterServiceVersion
	// CopiedCSVs are the names of the copied CSVs of the installed one, as namespace/name.
	CopiedCSVs []string
	// OperatorGroups are those of the namespace.
	OperatorGroups []operatorsv1.OperatorGroup
	// GroupBindings are the bindings to ClusterRoles of these OperatorGroups.
	GroupBindings []GroupBinding
	// GroupBindingsErr is why the user may not read them.
	GroupBindingsErr error
	// InstallPlans are those of the namespace.
	InstallPlans []v1alpha1.InstallPlan
	// CatalogSource is the catalog of the Subscription. It is nil if it does not exist.
	CatalogSource *v1alpha1.CatalogSource
	// Condition is the OperatorCondition of the CSV. It is nil if it does not exist.
	Condition *operatorsv2.OperatorCondition

	// Offers are the ClusterCatalogs that serve the installed bundle, the best first.
	Offers []Offer
	// Bundle is the installed bundle as the first offer contains it. It is nil if BundleError is
	// set, or if there is no offer.
	Bundle *bundle.Bundle
	// BundleError is why the bundle cannot be read.
	BundleError error
	// Issuer issues the certificates of webhooks.
	Issuer render.Issuer

	// Extensions are all ClusterExtensions.
	Extensions []olmv1.ClusterExtension
	// Revisions are all ClusterObjectSets.
	Revisions []olmv1.ClusterObjectSet
	// Live are the objects of the cluster that have the keys of rendered objects.
	Live map[apply.Key]*unstructured.Unstructured
	// Owned are the objects of the cluster that belong to the CSV, by owner labels or references.
	Owned []unstructured.Unstructured
	// Policy are the roles and bindings of the cluster. It is nil if no service account is named.
	Policy *rbac.Policy
	// HasServiceAccount reports whether the named service account exists.
	HasServiceAccount bool
}

// Offer is a ClusterCatalog that serves the installed bundle.
type Offer struct {
	// Catalog is the name of the ClusterCatalog.
	Catalog string
	// Priority of the ClusterCatalog. The highest wins.
	Priority int32
	// Image is the bundle image.
	Image string
	// DefaultChannel is the default channel of the package.
	DefaultChannel string
	// Channels are the channels that contain the bundle.
	Channels []string
}

// operatorGroup returns the OperatorGroup of the namespace, or nil if there is not exactly one.
func (f *Facts) operatorGroup() *operatorsv1.OperatorGroup {
	if len(f.OperatorGroups) != 1 {
		return nil
	}
	return &f.OperatorGroups[0]
}

// targetNamespaces returns the namespaces that the operator watches. A single empty name means all.
func (f *Facts) targetNamespaces() []string {
	if g := f.operatorGroup(); g != nil {
		return slices.Clone(g.Status.Namespaces)
	}
	return nil
}

func (f *Facts) installNamespace() string { return f.Subscription.Namespace }

// extensionName returns the name of the ClusterExtension.
func extensionName(f *Facts, o Options) string {
	if o.Extension != "" {
		return o.Extension
	}
	return f.Subscription.Name
}

// bestOffer returns the best catalog, or nil if none serves the bundle.
func (f *Facts) bestOffer() *Offer {
	if len(f.Offers) == 0 {
		return nil
	}
	return &f.Offers[0]
}
