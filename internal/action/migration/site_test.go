package migration_test

import (
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// startSite simulates the controllers of a cluster: Deployments become available, and
// objects that are deleted as orphans lose the finalizer of the garbage collector.
func (f *fixture) startSite() {
	f.RunOnChanges(f.runDeployments, appsv1.SchemeGroupVersion.WithKind("Deployment"))
	f.RunOnChanges(f.collectGarbage, v1alpha1.GroupVersion.WithKind("ClusterServiceVersion"), v1alpha1.GroupVersion.WithKind("Subscription"))
	f.RunOnChanges(f.collectCopiedBindings, v1alpha1.GroupVersion.WithKind("ClusterServiceVersion"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
}

// runDeployments makes Deployments available, and records their pod templates.
func (f *fixture) runDeployments(ctx context.Context) error {
	var list appsv1.DeploymentList
	if err := f.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
		return err
	}
	f.recordTemplates(list.Items)
	return f.MakeDeploymentsAvailable(ctx, client.InNamespace(f.namespace))
}

// recordTemplates records the pod templates that Deployments did not have before.
func (f *fixture) recordTemplates(deployments []appsv1.Deployment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range deployments {
		d := &deployments[i]
		seen := f.templates[d.Name]
		if len(seen) == 0 || !equality.Semantic.DeepEqual(seen[len(seen)-1], d.Spec.Template) {
			f.templates[d.Name] = append(seen, d.Spec.Template)
		}
	}
}

// collectGarbage removes the finalizer of objects that are deleted as orphans.
func (f *fixture) collectGarbage(ctx context.Context) error {
	var csvs v1alpha1.ClusterServiceVersionList
	var subscriptions v1alpha1.SubscriptionList
	if err := errors.Join(f.List(ctx, &csvs, client.InNamespace(f.namespace)), f.List(ctx, &subscriptions, client.InNamespace(f.namespace))); err != nil {
		return err
	}

	var objects []client.Object
	for i := range csvs.Items {
		objects = append(objects, &csvs.Items[i])
	}
	for i := range subscriptions.Items {
		objects = append(objects, &subscriptions.Items[i])
	}

	var errs []error
	for _, object := range objects {
		if !object.GetDeletionTimestamp().IsZero() && slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents) {
			before := object.DeepCopyObject().(client.Object)
			object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(name string) bool { return name == metav1.FinalizerOrphanDependents }))
			errs = append(errs, client.IgnoreNotFound(f.Patch(ctx, object, client.MergeFrom(before))))
		}
	}

	return errors.Join(errs...)
}

// collectCopiedBindings deletes the bindings of copied CSVs that are deleted.
func (f *fixture) collectCopiedBindings(ctx context.Context) error {
	var bindings rbacv1.RoleBindingList
	if err := f.List(ctx, &bindings, client.MatchingLabels{csvinfo.LabelCopiedFrom: f.namespace}); err != nil {
		return err
	}

	var errs []error
	for i := range bindings.Items {
		for _, reference := range bindings.Items[i].OwnerReferences {
			csv := &v1alpha1.ClusterServiceVersion{}
			err := f.Get(ctx, client.ObjectKey{Namespace: bindings.Items[i].Namespace, Name: reference.Name}, csv)
			if apierrors.IsNotFound(err) || err == nil && csv.UID != reference.UID {
				err = f.Delete(ctx, &bindings.Items[i])
			}
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}

	return errors.Join(errs...)
}

// templatesOf returns how many pod templates a Deployment has had.
func (f *fixture) templatesOf(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.templates[name])
}
