package subscription

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
)

// Facts are the objects that tell the state of a Subscription.
type Facts struct {
	Subscription *v1alpha1.Subscription
	// Siblings are the other Subscriptions of the namespace. OLM resolves them together.
	Siblings []v1alpha1.Subscription
	// Groups are the OperatorGroups of the namespace.
	Groups []operatorsv1.OperatorGroup
	// Catalog is the CatalogSource of the Subscription. It is nil if it does not exist or could not
	// be read.
	Catalog *v1alpha1.CatalogSource
	// Package is the package in that catalog. It is nil if it does not exist or could not be read.
	Package *packagesv1.PackageManifest
	// Plan is the InstallPlan that the Subscription refers to. It is nil if there is none.
	Plan *v1alpha1.InstallPlan
	// CSV is the ClusterServiceVersion that the Subscription installs. It is nil if there is none.
	CSV *v1alpha1.ClusterServiceVersion
	// Unread are sentences about objects that could not be read, for example because of missing
	// permissions.
	Unread []string

	isCatalogUnread, arePackagesUnread, areGroupsUnread bool
}

// describe returns how errors name a Subscription.
func describeSubscription(namespace, name string) string {
	return fmt.Sprintf("subscription %q in namespace %q", name, namespace)
}

// listCommand lists the Subscriptions of a namespace.
func listCommand(namespace string) string { return "mainstay subscription list -n " + namespace }

// getSubscription reads a Subscription by its name. Without one of that name, it returns the only
// Subscription of the namespace to a package of that name.
func getSubscription(ctx context.Context, c client.Client, namespace, name string) (*v1alpha1.Subscription, error) {
	subscription := &v1alpha1.Subscription{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, subscription)
	if err == nil {
		return subscription, nil
	}

	failure := action.NewNotFoundError(describeSubscription(namespace, name), listCommand(namespace), err)
	if !apierrors.IsNotFound(err) || action.IsUnknownKind(err) {
		return nil, failure
	}

	var list v1alpha1.SubscriptionList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, failure
	}
	matches := slices.DeleteFunc(list.Items, func(s v1alpha1.Subscription) bool { return s.Spec.Package != name })
	if len(matches) != 1 {
		return nil, failure
	}

	return &matches[0], nil
}

// readFacts reads the facts about a Subscription. What the user may not read is listed in Unread.
func readFacts(ctx context.Context, c client.Client, subscription *v1alpha1.Subscription) (Facts, error) {
	f := Facts{Subscription: subscription}
	r := factReader{client: c, facts: &f}
	namespace := subscription.Namespace

	var siblings v1alpha1.SubscriptionList
	r.recordResult("the other Subscriptions of the namespace", c.List(ctx, &siblings, client.InNamespace(namespace)))
	f.Siblings = slices.DeleteFunc(siblings.Items, func(s v1alpha1.Subscription) bool { return s.Name == subscription.Name })

	var groups operatorsv1.OperatorGroupList
	f.areGroupsUnread = !r.recordResult("the OperatorGroups of the namespace", c.List(ctx, &groups, client.InNamespace(namespace)))
	f.Groups = groups.Items

	catalog := &v1alpha1.CatalogSource{}
	key := client.ObjectKey{Namespace: subscription.Spec.CatalogSourceNamespace, Name: subscription.Spec.CatalogSource}
	found, isRead := r.readObject(ctx, key, catalog, "the catalog")
	f.isCatalogUnread = !isRead
	if found {
		f.Catalog = catalog
	}

	plan := &v1alpha1.InstallPlan{}
	if ref := subscription.Status.InstallPlanRef; ref != nil {
		if found, _ := r.readObject(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, plan, "the InstallPlan"); found {
			f.Plan = plan
		}
	}

	csv := &v1alpha1.ClusterServiceVersion{}
	if name := csvName(subscription); name != "" {
		if found, _ := r.readObject(ctx, client.ObjectKey{Namespace: namespace, Name: name}, csv, "the ClusterServiceVersion"); found {
			f.CSV = csv
		}
	}

	packages, err := listPackages(ctx, c, namespace, subscription.Spec.Package)
	f.arePackagesUnread = !r.recordResult("the packages of the catalogs", err)
	for i := range packages {
		if s := packages[i].Status; s.CatalogSource == key.Name && s.CatalogSourceNamespace == key.Namespace {
			f.Package = &packages[i]
		}
	}

	return f, r.err
}

// csvName returns the ClusterServiceVersion that a Subscription has installed or is installing.
// It is empty if there is none.
func csvName(subscription *v1alpha1.Subscription) string {
	if subscription.Status.InstalledCSV != "" {
		return subscription.Status.InstalledCSV
	}
	return subscription.Status.CurrentCSV
}

// factReader collects what could not be read.
type factReader struct {
	client client.Client
	facts  *Facts
	err    error
}

// recordResult records the error of a request, and reports whether it succeeded. What a user may not read,
// or the cluster does not serve, is missing from the facts and no error.
func (r *factReader) recordResult(what string, err error) bool {
	switch {
	case err == nil:
		return true
	case apierrors.IsForbidden(err):
		r.facts.Unread = append(r.facts.Unread, "You are not allowed to read "+what+".")
	case action.IsUnknownKind(err) || apierrors.IsServiceUnavailable(err):
		r.facts.Unread = append(r.facts.Unread, fmt.Sprintf("The cluster does not serve %s: %s.", what, strings.TrimSuffix(err.Error(), ".")))
	case r.err == nil:
		r.err = fmt.Errorf("reading %s: %w", what, err)
	}

	return false
}

// readObject reads an object. It reports whether the object exists, and whether that is known.
func (r *factReader) readObject(ctx context.Context, key client.ObjectKey, object client.Object, what string) (found, isRead bool) {
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) && !action.IsUnknownKind(err) {
		return false, true
	}
	isRead = r.recordResult(what, err)
	return isRead, isRead
}

// listPackages returns the packages of a name in all catalogs that a namespace sees.
func listPackages(ctx context.Context, c client.Client, namespace, name string) ([]packagesv1.PackageManifest, error) {
	var list packagesv1.PackageManifestList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p packagesv1.PackageManifest) bool { return p.Name != name }), nil
}
