package csv

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// resourceVersionChanged is a predicate that drops the updates of a resync. It compares resource
// versions because objects of the watched kinds have no generation.
var resourceVersionChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
	},
}

func newRequest(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// enqueueOwnerCSV is a map function that returns the ClusterServiceVersion for which an object was
// created, by its labels or its owner references.
func enqueueOwnerCSV(_ context.Context, object client.Object) []ctrl.Request {
	if namespace, name, ok := csvinfo.OwnedByLabels(object.GetLabels()); ok {
		return []ctrl.Request{newRequest(namespace, name)}
	}

	var requests []ctrl.Request
	for _, o := range object.GetOwnerReferences() {
		if o.Kind == v1alpha1.ClusterServiceVersionKind {
			requests = append(requests, newRequest(object.GetNamespace(), o.Name))
		}
	}
	return requests
}

// enqueuer returns the ClusterServiceVersions that a change of another object concerns.
type enqueuer struct {
	client client.Reader
	// shared has the ClusterServiceVersions that use rights not created for them.
	shared *sharedRights
}

// succeededCollectInterval is how long changes of the objects of an operator that has succeeded are collected before it
// is checked again. Labels are added to all of them after an installation.
const succeededCollectInterval = 250 * time.Millisecond

// collectForSucceeded returns a handler that enqueues what a map function returns: at once, except for
// ClusterServiceVersions that have succeeded.
func (e *enqueuer) collectForSucceeded(requests handler.MapFunc) handler.EventHandler {
	return reconcile.CollectFor(func(ctx context.Context, request ctrl.Request) time.Duration {
		var csv v1alpha1.ClusterServiceVersion
		if err := e.client.Get(ctx, request.NamespacedName, &csv, &client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true)}); err != nil || csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return 0
		}
		return succeededCollectInterval
	}, requests)
}

// listRequests returns requests for the ClusterServiceVersions that options and matches select. It
// leaves out copied CSVs.
func (e *enqueuer) listRequests(ctx context.Context, matches func(*v1alpha1.ClusterServiceVersion) bool, options ...client.ListOption) []ctrl.Request {
	var list v1alpha1.ClusterServiceVersionList
	if err := e.client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "Listing the ClusterServiceVersions to enqueue")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		if csv := &list.Items[i]; !csvinfo.IsCopied(csv) && matches(csv) {
			requests = append(requests, newRequest(csv.Namespace, csv.Name))
		}
	}

	return requests
}

// enqueueRelatedCSVs is a map function that returns related ClusterServiceVersions of the namespace.
// These are the replaced one, its replacements, those with an owner conflict, and those being
// replaced.
func (e *enqueuer) enqueueRelatedCSVs(ctx context.Context, object client.Object) []ctrl.Request {
	csv, ok := object.(*v1alpha1.ClusterServiceVersion)
	if !ok || csvinfo.IsCopied(csv) {
		return nil
	}
	return e.listRequests(ctx, func(other *v1alpha1.ClusterServiceVersion) bool {
		return other.Name != csv.Name &&
			(other.Name == csv.Spec.Replaces || other.Spec.Replaces == csv.Name || other.Status.Reason == v1alpha1.CSVReasonOwnerConflict ||
				other.Status.Phase == v1alpha1.CSVPhaseReplacing)
	}, client.InNamespace(csv.Namespace))
}

// enqueueCSVsForOperatorCondition is a map function that returns the ClusterServiceVersion of an
// OperatorCondition and those that replace it.
func (e *enqueuer) enqueueCSVsForOperatorCondition(ctx context.Context, object client.Object) []ctrl.Request {
	return e.listRequests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Name == object.GetName() || csv.Spec.Replaces == object.GetName()
	}, client.InNamespace(object.GetNamespace()))
}

// enqueueCSVsForDefinition is a map function for CRDs and APIServices. It returns the
// ClusterServiceVersions that own or require the object, those that require a native API of its group,
// and those that wait for any native API.
func (e *enqueuer) enqueueCSVsForDefinition(ctx context.Context, object client.Object) []ctrl.Request {
	requests := enqueueOwnerCSV(ctx, object)
	named := func(csv *v1alpha1.ClusterServiceVersion) bool {
		crds, apis := csv.Spec.CustomResourceDefinitions, csv.Spec.APIServiceDefinitions
		return slices.ContainsFunc(slices.Concat(crds.Owned, crds.Required), func(d v1alpha1.CRDDescription) bool { return d.Name == object.GetName() }) ||
			slices.ContainsFunc(slices.Concat(apis.Owned, apis.Required), func(d v1alpha1.APIServiceDescription) bool {
				return csvinfo.APIServiceName(d) == object.GetName()
			}) ||
			len(csv.Spec.NativeAPIs) > 0 && isWaitingForChange(csv) ||
			slices.ContainsFunc(csv.Spec.NativeAPIs, func(api metav1.GroupVersionKind) bool {
				return api.Group != "" && strings.HasSuffix(object.GetName(), "."+api.Group)
			})
	}

	return append(requests, e.listRequests(ctx, named)...)
}

// enqueueCSVsForRights is a map function for service accounts, roles and bindings. It always returns
// the owner of the object. For a namespaced object it adds all ClusterServiceVersions of the namespace
// that are not being replaced. For a cluster-scoped object it adds those without a phase, those with unmet requirements
// and those that rely on rights that were not created for them.
func (e *enqueuer) enqueueCSVsForRights(ctx context.Context, object client.Object) []ctrl.Request {
	if object.GetNamespace() != "" {
		return append(enqueueOwnerCSV(ctx, object), e.listRequests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
			return csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || isWaitingForChange(csv)
		}, client.InNamespace(object.GetNamespace()))...)
	}
	return append(enqueueOwnerCSV(ctx, object), e.listRequests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Status.Phase == v1alpha1.CSVPhaseNone || csv.Status.Reason == v1alpha1.CSVReasonRequirementsNotMet || e.shared.has(client.ObjectKeyFromObject(csv))
	})...)
}

// enqueueInstalledCSVs is a map function that returns all installed ClusterServiceVersions, because
// the proxy settings of all their pods changed.
func (e *enqueuer) enqueueInstalledCSVs(ctx context.Context, _ client.Object) []ctrl.Request {
	return e.listRequests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || isWaitingForChange(csv)
	})
}

// enqueueCSVsForGroup is a map function that returns the ClusterServiceVersions in the namespace of an OperatorGroup,
// and all those that provide an API in its list. API conflicts with the latter may begin or end.
func (e *enqueuer) enqueueCSVsForGroup(ctx context.Context, object client.Object) []ctrl.Request {
	group, ok := object.(*operatorsv1.OperatorGroup)
	if !ok {
		return nil
	}

	all := func(*v1alpha1.ClusterServiceVersion) bool { return true }
	requests := e.listRequests(ctx, all, client.InNamespace(group.Namespace))
	for api := range membership.ListedAPIs(group) {
		requests = append(requests, e.listRequests(ctx, all, client.MatchingLabels{csvinfo.APILabel(api): csvinfo.APIProvided})...)
	}

	return requests
}
