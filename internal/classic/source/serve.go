package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// ensureServed creates the objects that serve a catalog, and sets its address in the status. It
// removes them if the catalog is only an address.
func (r *reconciler) ensureServed(ctx context.Context, catalog *v1alpha1.CatalogSource) error {
	c, err := r.newCatalog(ctx, catalog)
	if err != nil {
		return newRegistryError(err)
	}

	service := catalog.Status.RegistryServiceStatus
	if !c.IsServed() {
		if err := r.removeServingObjects(ctx, c); err != nil {
			return newRegistryError(err)
		}
		if service == nil || service.ServiceName != "" {
			catalog.Status.RegistryServiceStatus = &v1alpha1.RegistryServiceStatus{Protocol: registryProtocol, CreatedAt: r.currentTimestamp()}
		}
		return nil
	}

	if err := r.ensureObjects(ctx, c); err != nil {
		return newRegistryError(err)
	}

	since, err := r.ensureServingPod(ctx, c)
	if err != nil {
		return newRegistryError(err)
	}

	want := v1alpha1.RegistryServiceStatus{
		Protocol: registryProtocol, ServiceName: c.ServiceName(), ServiceNamespace: c.Namespace, Port: strconv.Itoa(objects.Port),
		CreatedAt: since,
	}
	if service == nil || service.CreatedAt.Before(&since) || !isSameService(*service, want) {
		catalog.Status.RegistryServiceStatus = &want
	}

	return nil
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

// newCatalog returns the input for building the objects of a catalog.
func (r *reconciler) newCatalog(ctx context.Context, catalog *v1alpha1.CatalogSource) (*objects.Catalog, error) {
	c := &objects.Catalog{CatalogSource: catalog, Images: r.images, SetUserID: r.setUserID}
	if c.IsServed() && c.NameTooLong() {
		return nil, reconcile.Stop("", errors.New("the name of a catalog with a pod has at most 63 characters: create the catalog with a shorter name"))
	}
	if flag := c.MissingImage(); flag != "" {
		return nil, reconcile.Stop("", fmt.Errorf("catalog-operator is not configured for this type of catalog: start it with %s", flag))
	}
	if reference := catalog.Status.ConfigMapResource; reference != nil {
		c.ConfigMapVersion = reference.ResourceVersion
	}

	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.client.Get(ctx, client.ObjectKey{Name: catalog.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", catalog.Namespace, err)
	}

	c.NamespaceLabels = namespace.Labels
	return c, nil
}

// ensureObjects creates and repairs the objects of a catalog except its pod.
func (r *reconciler) ensureObjects(ctx context.Context, c *objects.Catalog) error {
	service, err := c.Service()
	if err != nil {
		return err
	}

	errs := []error{ensureObject(ctx, r, r.client, c.ServiceAccount(), &corev1.ServiceAccount{}, objects.FixAccount)}
	if c.IsConfigMap() {
		// These are used rarely, so Roles are not cached.
		errs = append(errs,
			ensureObject(ctx, r, r.apiReader, c.Role(), &rbacv1.Role{}, objects.FixRole),
			ensureObject(ctx, r, r.apiReader, c.RoleBinding(), &rbacv1.RoleBinding{}, objects.FixRoleBinding))
	}

	for _, policy := range c.NetworkPolicies() {
		errs = append(errs, ensureObject(ctx, r, r.client, policy, &networkingv1.NetworkPolicy{}, objects.FixNetworkPolicy))
	}

	return errors.Join(append(errs, ensureObject(ctx, r, r.client, service, &corev1.Service{}, objects.FixService))...)
}

// ensureObject creates an object or repairs the existing one. fix updates live and reports
// whether it has changed.
func ensureObject[T client.Object](ctx context.Context, r *reconciler, reader client.Reader, want, live T, fix func(live, want T) bool) error {
	key := client.ObjectKeyFromObject(want)
	owner := want.GetOwnerReferences()[0]
	err := reader.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		if err = r.createOwnedObject(ctx, want); err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", kindName(want), key, err)
		}
		err = r.apiReader.Get(ctx, key, live) // An object that has lost its labels is not in the cache.
	}

	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kindName(want), key, err)
	}
	if objects.IsForeign(live, owner) {
		return reconcile.Stop("", fmt.Errorf("%s %s already exists and does not belong to this catalog: delete it, or create the catalog with another name", kindName(want), key))
	}

	before := live.DeepCopyObject().(client.Object)
	if !fix(live, want) {
		return nil
	}
	if err := r.client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return fmt.Errorf("repairing %s %s: %w", kindName(want), key, err)
	}

	return nil
}

// createOwnedObject creates an object of a catalog. It ends the reconciliation if the catalog was
// deleted and the cache is outdated: its objects are missing because they were garbage
// collected.
func (r *reconciler) createOwnedObject(ctx context.Context, want client.Object) error {
	owner := want.GetOwnerReferences()[0]
	catalog := &metav1.PartialObjectMetadata{}
	catalog.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.CatalogSourceKind))
	err := r.apiReader.Get(ctx, client.ObjectKey{Namespace: want.GetNamespace(), Name: owner.Name}, catalog)
	if apierrors.IsNotFound(err) || (err == nil && (catalog.UID != owner.UID || !catalog.DeletionTimestamp.IsZero())) {
		return reconcile.ErrDone
	}
	if err != nil {
		return fmt.Errorf("reading CatalogSource %q: %w", owner.Name, err)
	}

	return r.client.Create(ctx, want, fieldOwner)
}

// removeServingObjects deletes the objects that served a catalog which is now only an address.
func (r *reconciler) removeServingObjects(ctx context.Context, c *objects.Catalog) error {
	for _, label := range []string{objects.LabelCatalog, objects.LabelUpdate} {
		pods, err := r.listOwnedPods(ctx, r.client, c, label)
		if err != nil {
			return err
		}
		if err := r.deletePods(ctx, replacedPodGraceSeconds, pods); err != nil {
			return err
		}
	}

	var obsolete []client.Object
	for _, policy := range c.NetworkPolicies() {
		obsolete = append(obsolete, policy)
	}

	service, err := c.Service()
	if err != nil {
		return err
	}

	owner := c.Owner()
	for _, object := range append(obsolete, service, c.ServiceAccount()) {
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

// kindName returns the kind of an object for messages.
func kindName(object client.Object) string {
	switch object.(type) {
	case *corev1.Service:
		return "Service"
	case *corev1.ServiceAccount:
		return "ServiceAccount"
	case *networkingv1.NetworkPolicy:
		return "NetworkPolicy"
	case *rbacv1.Role:
		return "Role"
	case *rbacv1.RoleBinding:
		return "RoleBinding"
	}

	return "object"
}
