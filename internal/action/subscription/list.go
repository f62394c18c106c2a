package subscription

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Summary is a Subscription with its state.
type Summary struct {
	Subscription *v1alpha1.Subscription
	State        State
	// Message states why the operator is not ready. It is empty if it is.
	Message string
}

// List lists Subscriptions.
type List struct {
	Client client.Client
	// Namespace limits the list. Empty means all namespaces.
	Namespace string
}

// Run returns the Subscriptions, sorted by namespace and name.
func (a *List) Run(ctx context.Context) ([]Summary, error) {
	in := client.InNamespace(a.Namespace)
	var subscriptions v1alpha1.SubscriptionList
	if err := a.Client.List(ctx, &subscriptions, in); err != nil {
		return nil, action.NewServerError("subscriptions", err)
	}

	notCopied, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}

	var csvs v1alpha1.ClusterServiceVersionList
	var plans v1alpha1.InstallPlanList
	var groups operatorsv1.OperatorGroupList
	for list, options := range map[client.ObjectList][]client.ListOption{
		&csvs: {in, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*notCopied)}}, &plans: {in}, &groups: {in},
	} {
		if err := a.Client.List(ctx, list, options...); err != nil {
			return nil, action.NewServerError("subscriptions", err)
		}
	}

	// Catalogs are in other namespaces, which the user of one namespace may not read.
	var catalogs v1alpha1.CatalogSourceList
	err = a.Client.List(ctx, &catalogs)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, action.NewServerError("catalogsources", err)
	}

	isCatalogUnread := err != nil
	var summaries []Summary
	for i := range subscriptions.Items {
		sub := &subscriptions.Items[i]
		f := Facts{Subscription: sub, Groups: filterByNamespace(groups.Items, sub.Namespace), arePackagesUnread: true, isCatalogUnread: isCatalogUnread}
		f.CSV = findObject(csvs.Items, sub.Namespace, csvName(sub))
		f.Catalog = findObject(catalogs.Items, sub.Spec.CatalogSourceNamespace, sub.Spec.CatalogSource)
		if ref := sub.Status.InstallPlanRef; ref != nil {
			f.Plan = findObject(plans.Items, sub.Namespace, ref.Name)
		}

		v := assessFacts(&f)
		summaries = append(summaries, Summary{Subscription: sub, State: v.state, Message: v.oneLineMessage()})
	}

	slices.SortFunc(summaries, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(a.Subscription.Namespace, b.Subscription.Namespace), cmp.Compare(a.Subscription.Name, b.Subscription.Name))
	})
	return summaries, nil
}

// objectPointer is a pointer to an API type.
type objectPointer[T any] interface {
	*T
	client.Object
}

// findObject returns the object of a name, or nil.
func findObject[T any, P objectPointer[T]](items []T, namespace, name string) P {
	for i := range items {
		if o := P(&items[i]); o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return nil
}

// filterByNamespace returns the objects of a namespace.
func filterByNamespace[T any, P objectPointer[T]](items []T, namespace string) []T {
	var found []T
	for i := range items {
		if P(&items[i]).GetNamespace() == namespace {
			found = append(found, items[i])
		}
	}
	return found
}
