package migration_test

import (
	"context"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// startSite starts what a cluster has beside its API server: Deployments become available, and
// objects that are deleted as orphans lose the finalizer of the garbage collector.
func (f *fixture) startSite() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			f.runDeployments(ctx)
			f.collectGarbage(ctx)
			f.collectCopiedBindings(ctx)
		}, 20*time.Millisecond)
	})
	f.t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

func (f *fixture) runDeployments(ctx context.Context) {
	var list appsv1.DeploymentList
	if f.List(ctx, &list, client.InNamespace(f.namespace)) != nil {
		return
	}
	for i := range list.Items {
		d := &list.Items[i]
		f.mu.Lock()
		seen := f.templates[d.Name]
		if len(seen) == 0 || !equality.Semantic.DeepEqual(seen[len(seen)-1], d.Spec.Template) {
			f.templates[d.Name] = append(seen, d.Spec.Template)
		}
		f.mu.Unlock()

		replicas := ptr.Deref(d.Spec.Replicas, 1)
		if d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == replicas {
			continue
		}
		before := d.DeepCopy()
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
		_ = f.Status().Patch(ctx, d, client.MergeFrom(before)) // tried again
	}
}

func (f *fixture) collectGarbage(ctx context.Context) {
	var csvs v1alpha1.ClusterServiceVersionList
	var subscriptions v1alpha1.SubscriptionList
	if f.List(ctx, &csvs, client.InNamespace(f.namespace)) != nil || f.List(ctx, &subscriptions, client.InNamespace(f.namespace)) != nil {
		return
	}

	var objects []client.Object
	for i := range csvs.Items {
		objects = append(objects, &csvs.Items[i])
	}
	for i := range subscriptions.Items {
		objects = append(objects, &subscriptions.Items[i])
	}
	for _, object := range objects {
		if !object.GetDeletionTimestamp().IsZero() && slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents) {
			before := object.DeepCopyObject().(client.Object)
			object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(name string) bool { return name == metav1.FinalizerOrphanDependents }))
			_ = f.Patch(ctx, object, client.MergeFrom(before)) // tried again
		}
	}
}

// collectCopiedBindings deletes the bindings of copied CSVs that are gone.
func (f *fixture) collectCopiedBindings(ctx context.Context) {
	var bindings rbacv1.RoleBindingList
	if f.List(ctx, &bindings, client.MatchingLabels{csvinfo.LabelCopiedFrom: f.namespace}) != nil {
		return
	}
	for i := range bindings.Items {
		for _, reference := range bindings.Items[i].OwnerReferences {
			csv := &v1alpha1.ClusterServiceVersion{}
			err := f.Get(ctx, client.ObjectKey{Namespace: bindings.Items[i].Namespace, Name: reference.Name}, csv)
			if apierrors.IsNotFound(err) || err == nil && csv.UID != reference.UID {
				_ = f.Delete(ctx, &bindings.Items[i]) // tried again
			}
		}
	}
}

// templatesOf returns how many pod templates a Deployment has had.
func (f *fixture) templatesOf(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.templates[name])
}
