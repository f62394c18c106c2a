package csv

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// contentChanged lets through what comes or goes, and what is another than before. Objects of the
// watched kinds have no generation.
var contentChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
	},
}

func request(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// owner wakes the ClusterServiceVersion that something was made for.
func owner(_ context.Context, object client.Object) []ctrl.Request {
	if namespace, name, ok := csvinfo.OwnedByLabels(object.GetLabels()); ok {
		return []ctrl.Request{request(namespace, name)}
	}

	var requests []ctrl.Request
	for _, o := range object.GetOwnerReferences() {
		if o.Kind == v1alpha1.ClusterServiceVersionKind {
			requests = append(requests, request(object.GetNamespace(), o.Name))
		}
	}
	return requests
}

// find returns requests for the ClusterServiceVersions that are no copies, among those that options
// select.
func (r *Reconciler) find(ctx context.Context, which func(*v1alpha1.ClusterServiceVersion) bool, options ...client.ListOption) []ctrl.Request {
	var list v1alpha1.ClusterServiceVersionList
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "Listing the ClusterServiceVersions to be woken")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		if csv := &list.Items[i]; !csvinfo.IsCopied(csv) && which(csv) {
			requests = append(requests, request(csv.Namespace, csv.Name))
		}
	}

	return requests
}

// relatives wakes the one that a ClusterServiceVersion replaces, those that replace it, and, when
// it owns definitions, those that may have been in its way.
func (r *Reconciler) relatives(ctx context.Context, object client.Object) []ctrl.Request {
	csv, ok := object.(*v1alpha1.ClusterServiceVersion)
	if !ok || csvinfo.IsCopied(csv) {
		return nil
	}
	return r.find(ctx, func(other *v1alpha1.ClusterServiceVersion) bool {
		return other.Name != csv.Name &&
			(other.Name == csv.Spec.Replaces || other.Spec.Replaces == csv.Name || other.Status.Reason == v1alpha1.CSVReasonOwnerConflict ||
				other.Status.Phase == v1alpha1.CSVPhaseReplacing)
	}, client.InNamespace(csv.Namespace))
}

// ofCondition wakes the one whose operator said something, and those that replace it.
func (r *Reconciler) ofCondition(ctx context.Context, object client.Object) []ctrl.Request {
	return r.find(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Name == object.GetName() || csv.Spec.Replaces == object.GetName()
	}, client.InNamespace(object.GetNamespace()))
}

// ofDefinition wakes those that provide or require what a CRD or an APIService defines, those that
// require a native API of its group, and those that wait for any.
func (r *Reconciler) ofDefinition(ctx context.Context, object client.Object) []ctrl.Request {
	requests := owner(ctx, object)
	named := func(csv *v1alpha1.ClusterServiceVersion) bool {
		crds, apis := csv.Spec.CustomResourceDefinitions, csv.Spec.APIServiceDefinitions
		return slices.ContainsFunc(slices.Concat(crds.Owned, crds.Required), func(d v1alpha1.CRDDescription) bool { return d.Name == object.GetName() }) ||
			slices.ContainsFunc(slices.Concat(apis.Owned, apis.Required), func(d v1alpha1.APIServiceDescription) bool {
				return csvinfo.APIServiceName(d) == object.GetName()
			}) ||
			len(csv.Spec.NativeAPIs) > 0 && unsettled(csv) ||
			slices.ContainsFunc(csv.Spec.NativeAPIs, func(api metav1.GroupVersionKind) bool {
				return api.Group != "" && strings.HasSuffix(object.GetName(), "."+api.Group)
			})
	}

	return append(requests, r.find(ctx, named)...)
}

// waiting wakes those that an account or a right is for: the one that it was made for, in its namespace
// all that are not on their way out, and for that of the whole cluster those that lack something and
// those that have rights by what was not made for them.
func (r *Reconciler) waiting(ctx context.Context, object client.Object) []ctrl.Request {
	if object.GetNamespace() != "" {
		return append(owner(ctx, object), r.find(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
			return csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || unsettled(csv)
		}, client.InNamespace(object.GetNamespace()))...)
	}
	return append(owner(ctx, object), r.find(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Status.Reason == v1alpha1.CSVReasonRequirementsNotMet || r.borrowers.has(client.ObjectKeyFromObject(csv))
	})...)
}

// all wakes every one that is installed: what all pods are told has changed.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.find(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || unsettled(csv)
	})
}
