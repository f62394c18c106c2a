package csv

import (
	"cmp"
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// +kubebuilder:rbac:groups=operators.coreos.com,resources=subscriptions,verbs=list;watch

// subscriptionKind is the kind that configures Deployments, on clusters that serve it.
var subscriptionKind = v1alpha1.GroupVersion.WithKind(v1alpha1.SubscriptionKind)

// Transform is a cache transform function that removes the fields that the controllers of olm-operator do not read. Of a
// Subscription it keeps the name, the configuration and the ClusterServiceVersions in its status, and of a Deployment no
// containers and volumes. Other kinds stay unchanged.
func Transform(object any) (any, error) {
	switch o := object.(type) {
	case *v1alpha1.Subscription:
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation}
		o.Spec = v1alpha1.SubscriptionSpec{Config: o.Spec.Config}
		o.Status = v1alpha1.SubscriptionStatus{InstalledCSV: o.Status.InstalledCSV, CurrentCSV: o.Status.CurrentCSV}
	case *appsv1.Deployment:
		pod := &o.Spec.Template.Spec
		pod.Containers, pod.InitContainers, pod.Volumes = nil, nil, nil
	}
	return object, nil
}

// Config returns the configuration for a ClusterServiceVersion from the Subscriptions of its
// namespace; nil when there is none.
//
// It prefers the Subscription whose status has the name as installedCSV, then one that has it as
// currentCSV. The second rule applies the configuration from the first installation on, before the
// Subscription has observed it. Of several Subscriptions, the first by name counts.
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

// enqueueCSVsForSubscription is a map function that returns the ClusterServiceVersions in a
// Subscription's status.
func (e *enqueuer) enqueueCSVsForSubscription(ctx context.Context, object client.Object) []ctrl.Request {
	s, ok := object.(*v1alpha1.Subscription)
	if !ok {
		return nil
	}
	return e.listRequests(ctx, func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Name == s.Status.InstalledCSV || csv.Name == s.Status.CurrentCSV
	}, client.InNamespace(s.Namespace))
}

// subscriptionConfigChanged is a predicate for created and deleted Subscriptions, and for updates
// that change the configuration of a ClusterServiceVersion.
var subscriptionConfigChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Subscription)
		after, okAfter := e.ObjectNew.(*v1alpha1.Subscription)
		return ok && okAfter && (!equality.Semantic.DeepEqual(before.Spec.Config, after.Spec.Config) ||
			before.Status.InstalledCSV != after.Status.InstalledCSV || before.Status.CurrentCSV != after.Status.CurrentCSV)
	},
}
