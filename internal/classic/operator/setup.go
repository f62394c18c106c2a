package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// Setup adds the controllers of Operators to a manager: one labels the components of Subscriptions,
// the other lists them in Operators. A cluster that does not serve Subscriptions has no Operators.
//
// They read Operators, ClusterServiceVersions, Deployments and the metadata of other kinds from the manager's
// cache. It needs all objects of the shared kinds, and of Deployments, Services and Secrets those
// that OLM created. Subscriptions, and the ConfigMaps that OLM created, are in a separate cache. crds is the cache that
// crdinfo.NewCache returns.
func Setup(mgr ctrl.Manager, crds cache.Cache) error {
	_, err := mgr.GetRESTMapper().RESTMapping(subscriptionKind.GroupKind(), subscriptionKind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the kind Subscription: %w", err)
	}

	own, err := newOwnCache(mgr)
	if err != nil {
		return err
	}

	r := &reporter{client: mgr.GetClient(), subscriptions: own}
	labelled, err := newLabelledObjects(mgr, r.operatorsOf)
	if err != nil {
		return err
	}
	r.components = newComponentReader(mgr, own, crds, labelled)

	if err := setupAdopter(mgr, own, crds, labelled); err != nil {
		return fmt.Errorf("setting up the controller that labels components: %w", err)
	}
	if err := setupReporter(mgr, own, crds, r); err != nil {
		return fmt.Errorf("setting up the controller of Operators: %w", err)
	}

	return nil
}

// newOwnCache returns a cache of Subscriptions and of the metadata of the ConfigMaps that OLM
// creates, and adds it to the manager.
func newOwnCache(mgr ctrl.Manager) (cache.Cache, error) {
	managed := labels.SelectorFromSet(labels.Set{csvinfo.LabelManaged: "true"})
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.Subscription{}: {Transform: keepRelations},
			&corev1.ConfigMap{}:      {Label: managed},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of Subscriptions: %w", err)
	}
	if err := mgr.Add(own); err != nil {
		return nil, fmt.Errorf("adding the cache of Subscriptions: %w", err)
	}

	return own, nil
}

// keepRelations is a cache transform function. Of a Subscription it keeps the package, what is
// installed for it, and the conditions.
func keepRelations(object any) (any, error) {
	if s, ok := object.(*v1alpha1.Subscription); ok {
		s.ObjectMeta = metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion, Labels: s.Labels, DeletionTimestamp: s.DeletionTimestamp,
		}
		s.Spec = v1alpha1.SubscriptionSpec{Package: s.Spec.Package}
		s.Status = v1alpha1.SubscriptionStatus{InstalledCSV: s.Status.InstalledCSV, InstallPlanRef: s.Status.InstallPlanRef, Conditions: s.Status.Conditions}
	}
	return object, nil
}

func setupAdopter(mgr ctrl.Manager, own, crds cache.Cache, labelled *labelledObjects) error {
	a := &adopter{client: mgr.GetClient(), labelled: labelled, shared: mgr.GetCache(), own: own, crds: crds}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("operator-adoption").
		WatchesRawSource(source.Kind[client.Object](own, &v1alpha1.Subscription{}, reconcile.Collect(collectInterval, reconcile.EnqueueObject), relationsChanged)).
		Watches(&v1alpha1.ClusterServiceVersion{}, reconcile.Collect(collectInterval, a.enqueueSubscriptionsOfCSV), builder.WithPredicates(labelsOrSpecChanged)).
		WatchesRawSource(source.Kind[client.Object](crds, &crdinfo.Definition{}, reconcile.Collect(collectInterval, a.enqueueSubscriptionsOfCRD), labelsOrAnnotationsChanged))

	for _, kind := range componentKinds {
		object := newCachedObject(kind.GroupVersionKind)
		switch {
		case !kind.isOwned:
		case kind.GroupVersionKind == configMapKind:
			b = b.WatchesRawSource(source.Kind[client.Object](own, object, reconcile.Collect(collectInterval, a.enqueueSubscriptionsOfOwner), labelsOrOwnersChanged))
		default:
			b = b.Watches(object, reconcile.Collect(collectInterval, a.enqueueSubscriptionsOfOwner), builder.WithPredicates(labelsOrOwnersChanged))
		}
	}

	return b.Complete(a.newReconciler())
}

func newComponentReader(mgr ctrl.Manager, own, crds cache.Cache, labelled *labelledObjects) *componentReader {
	return &componentReader{
		live: mgr.GetAPIReader(), shared: mgr.GetCache(), crds: crds, labelled: labelled, known: map[string]map[componentID]component{},
		caches: map[schema.GroupVersionKind]cachedKind{
			subscriptionKind: {own, func() client.Object { return &v1alpha1.Subscription{} }, func(o client.Object) any { return &o.(*v1alpha1.Subscription).Status }},
			csvKind: {mgr.GetClient(), func() client.Object { return &v1alpha1.ClusterServiceVersion{} }, func(o client.Object) any {
				return &o.(*v1alpha1.ClusterServiceVersion).Status
			}},
			crdKind: {crds, func() client.Object { return &crdinfo.Definition{} }, func(o client.Object) any { return &o.(*crdinfo.Definition).Status }},
			deploymentKind: {mgr.GetCache(), func() client.Object { return &appsv1.Deployment{} }, func(o client.Object) any {
				return &o.(*appsv1.Deployment).Status
			}},
			operatorConditionKind: {mgr.GetClient(), func() client.Object { return &operatorsv2.OperatorCondition{} }, func(o client.Object) any {
				return &o.(*operatorsv2.OperatorCondition).Status
			}},
		},
	}
}

func setupReporter(mgr ctrl.Manager, own, crds cache.Cache, r *reporter) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("operator").
		Watches(&operatorsv1.Operator{}, reconcile.Collect(reportInterval, reconcile.EnqueueObject), builder.WithPredicates(createdOrDeleted)).
		WatchesRawSource(source.Kind[client.Object](own, &v1alpha1.Subscription{}, reconcile.Collect(reportInterval, enqueueOperatorOfSubscription), relationsChanged)).
		WatchesRawSource(r.components.labelled)

	for _, kind := range componentKinds {
		switch {
		case kind.GroupVersionKind == crdKind:
			b = b.WatchesRawSource(source.Kind[client.Object](crds, &crdinfo.Definition{}, reconcile.Collect(reportInterval, r.enqueueOperatorsOfComponent), componentChanged))
		case kind.isShared:
			b = b.Watches(newCachedObject(kind.GroupVersionKind), reconcile.Collect(reportInterval, r.enqueueOperatorsOfComponent), builder.WithPredicates(componentChanged))
		}
	}

	return b.Complete(r.newReconciler())
}

var (
	// componentChanged is a predicate for all changes of objects that have or had the label of a
	// component.
	componentChanged = predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return hasComponentLabel(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return hasComponentLabel(e.ObjectOld) || hasComponentLabel(e.ObjectNew)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return hasComponentLabel(e.Object) },
	}
	// labelsOrSpecChanged is a predicate for creations, deletions and changes of labels or the
	// generation.
	labelsOrSpecChanged = predicate.Or(predicate.LabelChangedPredicate{}, predicate.GenerationChangedPredicate{})
	// labelsOrAnnotationsChanged is a predicate for creations, deletions and changes of labels or
	// annotations.
	labelsOrAnnotationsChanged = predicate.Or(predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	// createdOrDeleted is a predicate for creations and deletions.
	createdOrDeleted = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	// labelsOrOwnersChanged is a predicate for creations, deletions and changes of labels or owner
	// references.
	labelsOrOwnersChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			!equality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences())
	}}
	// relationsChanged is a predicate for creations, deletions and changes of what keepRelations
	// keeps, except conditions.
	relationsChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.DeepCopyObject().(client.Object), e.ObjectNew.DeepCopyObject().(client.Object)
		before.SetResourceVersion(after.GetResourceVersion())
		for _, object := range []client.Object{before, after} {
			if sub, ok := object.(*v1alpha1.Subscription); ok {
				sub.Status.Conditions = nil
			}
		}
		return !equality.Semantic.DeepEqual(before, after)
	}}
)

// enqueueSubscriptionsOfCSV is a map function that returns the Subscriptions for which a
// ClusterServiceVersion is installed.
func (a *adopter) enqueueSubscriptionsOfCSV(ctx context.Context, csv client.Object) []ctrl.Request {
	return a.enqueueSubscriptions(ctx, csv.GetNamespace(), csv.GetName())
}

// enqueueSubscriptionsOfOwner is a map function that returns the Subscriptions for whose
// ClusterServiceVersion an object was created.
func (a *adopter) enqueueSubscriptionsOfOwner(ctx context.Context, object client.Object) []ctrl.Request {
	if namespace, name, ok := csvinfo.OwnedByLabels(object.GetLabels()); ok {
		return a.enqueueSubscriptions(ctx, namespace, name)
	}

	var requests []ctrl.Request
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == v1alpha1.ClusterServiceVersionKind {
			requests = append(requests, a.enqueueSubscriptions(ctx, object.GetNamespace(), owner.Name)...)
		}
	}

	return requests
}

// enqueueSubscriptionsOfCRD is a map function that returns the Subscriptions for whose
// ClusterServiceVersions a CRD was installed.
func (a *adopter) enqueueSubscriptionsOfCRD(ctx context.Context, crd client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for key, value := range crd.GetAnnotations() {
		if namespace, name, ok := strings.Cut(value, "/"); ok && strings.HasPrefix(key, csvinfo.AnnotationInstalledAlongside) {
			requests = append(requests, a.enqueueSubscriptions(ctx, namespace, name)...)
		}
	}
	return requests
}

// enqueueSubscriptions returns the Subscriptions whose installed ClusterServiceVersion has a name.
func (a *adopter) enqueueSubscriptions(ctx context.Context, namespace, csv string) []ctrl.Request {
	var list v1alpha1.SubscriptionList
	if err := a.own.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The Subscriptions cannot be listed", "namespace", namespace)
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		if list.Items[i].Status.InstalledCSV == csv {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}

	return requests
}

// enqueueOperatorOfSubscription is a map function that returns the Operator of a Subscription. A
// package whose name cannot be part of the name of an object has no Operator.
func enqueueOperatorOfSubscription(_ context.Context, object client.Object) []ctrl.Request {
	sub, ok := object.(*v1alpha1.Subscription)
	if !ok || len(validation.IsDNS1123Subdomain(operatorOfSubscription(sub))) > 0 {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: operatorOfSubscription(sub)}}}
}

// enqueueOperatorsOfComponent is a map function that returns the Operators to which an object belongs.
func (r *reporter) enqueueOperatorsOfComponent(ctx context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, name := range r.operatorsOf(ctx, object.GetLabels()) {
		requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

// operatorsOf returns the names of the Operators to which an object with the given labels belongs:
// those that the labels name, and existing ones whose names are truncated in the labels.
func (r *reporter) operatorsOf(ctx context.Context, labels map[string]string) []string {
	names := slices.DeleteFunc(csvinfo.OperatorsOfLabels(labels), func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 })
	var existing operatorsv1.OperatorList
	if err := r.client.List(ctx, &existing, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The Operators cannot be listed")
		return names
	}

	for i := range existing.Items {
		name := existing.Items[i].Name
		key, _ := csvinfo.ComponentKey(name) // An invalid one is not in labels.
		if _, ok := labels[key]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	return names
}

// hasComponentLabel reports whether an object has the label of a component.
func hasComponentLabel(object client.Object) bool {
	return len(keepComponentMetadata(&metav1.ObjectMeta{Labels: object.GetLabels()}).Labels) > 0
}
