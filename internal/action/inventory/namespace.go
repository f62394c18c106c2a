package inventory

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// listOperators returns the operators of OLM Classic. Those of a namespace include the operators of other namespaces that
// manage it.
func (a *List) listOperators(ctx context.Context) ([]Item, error) {
	if a.Namespace == "" {
		return a.listSubscriptions(ctx)
	}

	items, err := (&List{Client: a.Client}).listSubscriptions(ctx)
	if err == nil {
		return slices.DeleteFunc(items, func(item Item) bool { return !item.managesNamespace(a.Namespace) }), nil
	}
	if !apierrors.IsForbidden(err) {
		return nil, err
	}

	items, err = a.listSubscriptions(ctx)
	if err != nil {
		return nil, err
	}
	copies, err := a.listCopies(ctx)
	return append(items, copies...), err
}

// managesNamespace reports whether an operator is in a namespace or manages it.
func (i *Item) managesNamespace(namespace string) bool {
	return i.Namespace == namespace || i.WatchesAll || slices.Contains(i.Watches, namespace)
}

// sharedNamespace has the copied ClusterServiceVersions of operators that manage all namespaces, if the other namespaces have none.
// Every user may read it.
const sharedNamespace = "openshift"

// listCopies returns the operators of other namespaces that manage the namespace, for a user who may not read those namespaces. OLM
// copies their ClusterServiceVersions into the namespace, or only into a shared one.
func (a *List) listCopies(ctx context.Context) ([]Item, error) {
	for _, namespace := range []string{a.Namespace, sharedNamespace} {
		var list v1alpha1.ClusterServiceVersionList
		err := a.Client.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{csvinfo.LabelCopiedFrom})
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, action.NewServerError("clusterserviceversions", err)
		}
		if len(list.Items) == 0 {
			continue
		}

		var items []Item
		for i := range list.Items {
			items = append(items, newCopyItem(&list.Items[i]))
		}
		return items, nil
	}
	return nil, nil
}

// newCopyItem returns the item of a copied ClusterServiceVersion.
func newCopyItem(csv *v1alpha1.ClusterServiceVersion) Item {
	item := newCSVItem(csv)
	item.InstallNamespace = csv.Labels[csvinfo.LabelCopiedFrom]
	where := fmt.Sprintf("It is installed in namespace %s, and manages this one.", item.InstallNamespace)
	if csv.Status.Phase != v1alpha1.CSVPhaseSucceeded && item.Message != "" {
		where += " " + item.Message
	}
	item.Message = where
	return item
}
