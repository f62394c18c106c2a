package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// serverWriter writes the objects that serve catalogs.
type serverWriter struct {
	objectWriter
	pods        podWriter
	failedPolls *failedPolls
	clock       clock.PassiveClock
}

// ensureServed creates the objects that serve a catalog, and sets its address in the status. It
// removes them if the catalog is only an address.
func (r *serverWriter) ensureServed(ctx context.Context, c *objects.Catalog) error {
	service := c.Status.RegistryServiceStatus
	if !c.IsServed() {
		if err := r.removeServingObjects(ctx, c); err != nil {
			return err
		}
		if service == nil || service.ServiceName != "" {
			c.Status.RegistryServiceStatus = &v1alpha1.RegistryServiceStatus{Protocol: registryProtocol, CreatedAt: timestampOf(r.clock)}
		}
		return nil
	}

	if err := r.ensureObjects(ctx, c); err != nil {
		return err
	}

	since, err := r.ensureServingPod(ctx, c)
	if err != nil {
		return err
	}

	want := v1alpha1.RegistryServiceStatus{
		Protocol: registryProtocol, ServiceName: c.ServiceName(), ServiceNamespace: c.Namespace, Port: strconv.Itoa(objects.Port),
		CreatedAt: since,
	}
	if service == nil || service.CreatedAt.Before(&since) || !isSameService(*service, want) {
		c.Status.RegistryServiceStatus = &want
	}

	return nil
}

// ensureServingPod ensures that one pod serves a catalog. It returns the creation time of the pod.
func (r *serverWriter) ensureServingPod(ctx context.Context, c *objects.Catalog) (metav1.Time, error) {
	want, err := c.Pod()
	if err != nil {
		return metav1.Time{}, err
	}

	pods, err := r.pods.listOwnedPods(ctx, r.client, c, objects.LabelCatalog)
	if err != nil {
		return metav1.Time{}, err
	}

	plan := planPodChanges(pods, want)
	if plan.isComplete() {
		return plan.keep.CreationTimestamp, nil
	}
	// The cache may not contain a pod that was just created.
	if pods, err = r.pods.listOwnedPods(ctx, r.apiReader, c, objects.LabelCatalog); err != nil {
		return metav1.Time{}, err
	}

	plan = planPodChanges(pods, want)
	if err := r.pods.deletePods(ctx, failedPodGraceSeconds, plan.remove); err != nil {
		return metav1.Time{}, err
	}
	if err := r.pods.deletePods(ctx, replacedPodGraceSeconds, plan.replace); err != nil {
		return metav1.Time{}, err
	}

	if plan.keep == nil {
		if err := r.createOwnedObject(ctx, want); err != nil {
			return metav1.Time{}, fmt.Errorf("creating the pod: %w", err)
		}
		r.failedPolls.remove(client.ObjectKeyFromObject(c.CatalogSource)) // They belong to the previous pod.
		plan.keep = want
	}

	return plan.keep.CreationTimestamp, nil
}

func isSameService(a, b v1alpha1.RegistryServiceStatus) bool {
	a.CreatedAt, b.CreatedAt = metav1.Time{}, metav1.Time{}
	return a == b
}

// registryProtocol is the protocol of registry servers.
const registryProtocol = "grpc"

// registryErrorPrefix is the start of errors about the objects that serve a catalog.
const registryErrorPrefix = "couldn't ensure registry server - "

// newRegistryError returns an error about the objects that serve a catalog.
func newRegistryError(err error) error {
	text := fmt.Errorf("%s%w", registryErrorPrefix, err)
	if reconcile.IsStop(err) {
		return reconcile.Stop(v1alpha1.CatalogSourceRegistryServerError, text)
	}
	return reconcile.Retry(v1alpha1.CatalogSourceRegistryServerError, text)
}

// ensureObjects creates and repairs the objects of a catalog except its pod.
func (r *serverWriter) ensureObjects(ctx context.Context, c *objects.Catalog) error {
	service, err := c.Service()
	if err != nil {
		return err
	}

	errs := []error{ensureObject(ctx, r.objectWriter, r.client, c.ServiceAccount(), &corev1.ServiceAccount{}, objects.FixAccount)}
	if c.IsConfigMap() {
		// These are used rarely, so Roles are not cached.
		errs = append(errs,
			ensureObject(ctx, r.objectWriter, r.apiReader, c.Role(), &rbacv1.Role{}, objects.FixRole),
			ensureObject(ctx, r.objectWriter, r.apiReader, c.RoleBinding(), &rbacv1.RoleBinding{}, objects.FixRoleBinding))
	}

	for _, policy := range c.NetworkPolicies() {
		errs = append(errs, ensureObject(ctx, r.objectWriter, r.client, policy, &networkingv1.NetworkPolicy{}, objects.FixNetworkPolicy))
	}

	return errors.Join(append(errs, ensureObject(ctx, r.objectWriter, r.client, service, &corev1.Service{}, objects.FixService))...)
}

// removeServingObjects deletes the objects that served a catalog which is now only an address.
func (r *serverWriter) removeServingObjects(ctx context.Context, c *objects.Catalog) error {
	service, err := c.Service()
	if err != nil {
		return err
	}

	obsolete := []client.Object{service, c.ServiceAccount()}
	for _, policy := range c.NetworkPolicies() {
		obsolete = append(obsolete, policy)
	}
	return r.removeObjects(ctx, c, obsolete)
}

// removeObjects deletes the pods of a catalog, and those of other objects that the catalog owns.
func (r *serverWriter) removeObjects(ctx context.Context, c *objects.Catalog, obsolete []client.Object) error {
	for _, label := range []string{objects.LabelCatalog, objects.LabelUpdate} {
		pods, err := r.pods.listOwnedPods(ctx, r.client, c, label)
		if err != nil {
			return err
		}
		if err := r.pods.deletePods(ctx, replacedPodGraceSeconds, pods); err != nil {
			return err
		}
	}

	owner := c.Owner()
	for _, object := range obsolete {
		err := r.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && objects.IsOwnedBy(object, owner) && object.GetDeletionTimestamp().IsZero() {
			err = r.client.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing %s %q: %w", kindName(object), object.GetName(), err)
		}
	}

	return nil
}
