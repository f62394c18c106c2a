package csv

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// +kubebuilder:rbac:groups=operators.coreos.com,resources=subscriptions,verbs=list;watch

// subscriptionKind holds what people configure for Deployments, on clusters that have it.
var subscriptionKind = v1alpha1.GroupVersion.WithKind(v1alpha1.SubscriptionKind)

// Lighten takes away what the controllers of this package do not ask of an object that the cache is
// to hold: all of a Subscription but its name, its configuration and the ClusterServiceVersions that
// its status names. Other kinds stay as they are. It is a transformation of a cache.
func Lighten(object any) (any, error) {
	if s, ok := object.(*v1alpha1.Subscription); ok {
		s.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion, Generation: s.Generation}
		s.Spec = v1alpha1.SubscriptionSpec{Config: s.Spec.Config}
		s.Status = v1alpha1.SubscriptionStatus{InstalledCSV: s.Status.InstalledCSV, CurrentCSV: s.Status.CurrentCSV}
	}
	return object, nil
}

// config reads what a person configured for the Deployments of a ClusterServiceVersion; nil is
// nothing.
func (r *Reconciler) config(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*v1alpha1.SubscriptionConfig, error) {
	if !r.Subscribed {
		return nil, nil
	}

	var list v1alpha1.SubscriptionList
	if err := r.Client.List(ctx, &list, client.InNamespace(csv.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Subscriptions of namespace %s: %w", csv.Namespace, err)
	}
	return Config(csv.Name, list.Items), nil
}

// Config chooses, among the Subscriptions of a namespace, what is configured for the
// ClusterServiceVersion of a name; nil is nothing. Of several that ask for the same one, the first by
// name counts.
//
// The Subscription that has it installed counts, and else the one that has chosen it: what is being
// installed begins with its configuration, and not only once its Subscription has seen it.
func Config(name string, subscriptions []v1alpha1.Subscription) *v1alpha1.SubscriptionConfig {
	sorted := slices.SortedFunc(slices.Values(subscriptions), func(a, b v1alpha1.Subscription) int { return cmp.Compare(a.Name, b.Name) })
	for _, names := range []func(v1alpha1.Subscription) bool{
		func(s v1alpha1.Subscription) bool { return s.Status.InstalledCSV == name },
		func(s v1alpha1.Subscription) bool { return s.Status.CurrentCSV == name },
	} {
		if i := slices.IndexFunc(sorted, names); i >= 0 {
			return sorted[i].Spec.Config
		}
	}

	return nil
}

// configured wakes those that a Subscription names.
func (r *Reconciler) configured(ctx context.Context, object client.Object) []ctrl.Request {
	s, ok := object.(*v1alpha1.Subscription)
	if !ok {
		return nil
	}
	return r.find(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Name == s.Status.InstalledCSV || csv.Name == s.Status.CurrentCSV
	}, client.InNamespace(s.Namespace))
}

// configChanged lets through Subscriptions that come or go, and of their changes those that give a
// ClusterServiceVersion another configuration.
var configChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Subscription)
		after, okAfter := e.ObjectNew.(*v1alpha1.Subscription)
		return ok && okAfter && (!equality.Semantic.DeepEqual(before.Spec.Config, after.Spec.Config) ||
			before.Status.InstalledCSV != after.Status.InstalledCSV || before.Status.CurrentCSV != after.Status.CurrentCSV)
	},
}
