package group

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// EnqueueCSVsForGroup returns a map function for the controller of ClusterServiceVersions, which watches OperatorGroups. It returns
// the ClusterServiceVersions in the namespace of the group, and all those that provide an API in the group's list. API
// conflicts with the latter may begin or end.
func EnqueueCSVsForGroup(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []ctrl.Request {
		group, ok := object.(*operatorsv1.OperatorGroup)
		if !ok {
			return nil
		}

		selections := [][]client.ListOption{{client.InNamespace(group.Namespace)}}
		for api := range ListedAPIs(group) {
			selections = append(selections, []client.ListOption{client.MatchingLabels{csvinfo.APILabel(api): csvinfo.APIProvided}})
		}

		var requests []ctrl.Request
		for _, selection := range selections {
			var list v1alpha1.ClusterServiceVersionList
			if err := c.List(ctx, &list, append(selection, client.UnsafeDisableDeepCopy)...); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to enqueue")
				return nil
			}
			for i := range list.Items {
				if csv := &list.Items[i]; !csvinfo.IsCopied(csv) {
					requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
				}
			}
		}

		return requests
	}
}
