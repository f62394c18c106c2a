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

// serve has the objects that serve a catalog be there, and says in the status where.
func (r *reconciler) serve(ctx context.Context, catalog *v1alpha1.CatalogSource) error {
	c, err := r.described(ctx, catalog)
	if err != nil {
		return registryError(err)
	}

	service := catalog.Status.RegistryServiceStatus
	if !c.IsServed() {
		if err := r.withdraw(ctx, c); err != nil {
			return registryError(err)
		}
		if service == nil || service.ServiceName != "" {
			catalog.Status.RegistryServiceStatus = &v1alpha1.RegistryServiceStatus{Protocol: protocol, CreatedAt: r.now()}
		}
		return nil
	}

	if err := r.ensureObjects(ctx, c); err != nil {
		return registryError(err)
	}

	since, err := r.ensurePod(ctx, c)
	if err != nil {
		return registryError(err)
	}

	want := v1alpha1.RegistryServiceStatus{
		Protocol: protocol, ServiceName: c.ServiceName(), ServiceNamespace: c.Namespace, Port: strconv.Itoa(objects.Port),
		CreatedAt: since,
	}
	if service == nil || service.CreatedAt.Before(&since) || !sameService(*service, want) {
		catalog.Status.RegistryServiceStatus = &want
	}

	return nil
}

func sameService(a, b v1alpha1.RegistryServiceStatus) bool {
	a.CreatedAt, b.CreatedAt = metav1.Time{}, metav1.Time{}
	return a == b
}

// protocol is how catalogs are spoken to.
const protocol = "grpc"

// notEnsured begins the message of an error of what serves a catalog.
const notEnsured = "couldn't ensure registry server - "

// registryError is an error of what serves a catalog.
func registryError(err error) error {
	text := fmt.Errorf("%s%w", notEnsured, err)
	if reconcile.IsStop(err) {
		return reconcile.Stop(v1alpha1.CatalogSourceRegistryServerError, text)
	}
	return reconcile.Retry(v1alpha1.CatalogSourceRegistryServerError, text)
}

// described gathers what the objects of a catalog depend on.
func (r *reconciler) described(ctx context.Context, catalog *v1alpha1.CatalogSource) (*objects.Catalog, error) {
	c := &objects.Catalog{CatalogSource: catalog, Images: r.images, SetUserID: r.setUserID}
	if c.IsServed() && c.NameTooLong() {
		return nil, reconcile.Stop("", errors.New("the name of a catalog with a pod has at most 63 characters: make the catalog by a shorter name"))
	}
	if flag := c.MissingImage(); flag != "" {
		return nil, reconcile.Stop("", fmt.Errorf("catalog-operator runs no such catalogs: start it with %s", flag))
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

// ensureObjects makes and repairs the objects of a catalog beside its pod.
func (r *reconciler) ensureObjects(ctx context.Context, c *objects.Catalog) error {
	service, err := c.Service()
	if err != nil {
		return err
	}

	errs := []error{ensure(ctx, r, r.client, c.ServiceAccount(), &corev1.ServiceAccount{}, objects.FixAccount)}
	if c.IsConfigMap() {
		// Seldom used, so not worth holding all Roles of a cluster for.
		errs = append(errs,
			ensure(ctx, r, r.reader, c.Role(), &rbacv1.Role{}, objects.FixRole),
			ensure(ctx, r, r.reader, c.RoleBinding(), &rbacv1.RoleBinding{}, objects.FixRoleBinding))
	}

	for _, policy := range c.NetworkPolicies() {
		errs = append(errs, ensure(ctx, r, r.client, policy, &networkingv1.NetworkPolicy{}, objects.FixNetworkPolicy))
	}

	return errors.Join(append(errs, ensure(ctx, r, r.client, service, &corev1.Service{}, objects.FixService))...)
}

// ensure makes an object, or repairs the one that is there.
func ensure[T client.Object](ctx context.Context, r *reconciler, reader client.Reader, want, live T, fix func(live, want T) bool) error {
	key := client.ObjectKeyFromObject(want)
	owner := want.GetOwnerReferences()[0]
	err := reader.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		if err = r.create(ctx, want); err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making %s %s: %w", kindOf(want), key, err)
		}
		err = r.reader.Get(ctx, key, live) // The watch does not show what has lost its labels.
	}

	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kindOf(want), key, err)
	}
	if objects.IsForeign(live, owner) {
		return reconcile.Stop("", fmt.Errorf("%s %s is there already and is not of this catalog: delete it, or make the catalog by another name", kindOf(want), key))
	}

	before := live.DeepCopyObject().(client.Object)
	if !fix(live, want) {
		return nil
	}
	if err := r.client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return fmt.Errorf("repairing %s %s: %w", kindOf(want), key, err)
	}

	return nil
}

// create makes an object of a catalog. It ends the pass when the catalog is gone and the cache does not
// know yet: its objects are missing because they went with it.
func (r *reconciler) create(ctx context.Context, want client.Object) error {
	owner := want.GetOwnerReferences()[0]
	catalog := &metav1.PartialObjectMetadata{}
	catalog.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.CatalogSourceKind))
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: want.GetNamespace(), Name: owner.Name}, catalog)
	if apierrors.IsNotFound(err) || (err == nil && (catalog.UID != owner.UID || !catalog.DeletionTimestamp.IsZero())) {
		return reconcile.ErrDone
	}
	if err != nil {
		return fmt.Errorf("reading CatalogSource %q: %w", owner.Name, err)
	}

	return r.client.Create(ctx, want, fieldOwner)
}

// withdraw removes what served a catalog that is only an address by now.
func (r *reconciler) withdraw(ctx context.Context, c *objects.Catalog) error {
	for _, label := range []string{objects.LabelCatalog, objects.LabelUpdate} {
		pods, err := r.pods(ctx, r.client, c, label)
		if err != nil {
			return err
		}
		if err := r.deletePods(ctx, graceReplaced, pods); err != nil {
			return err
		}
	}

	var left []client.Object
	for _, policy := range c.NetworkPolicies() {
		left = append(left, policy)
	}

	service, err := c.Service()
	if err != nil {
		return err
	}

	owner := c.Owner()
	for _, object := range append(left, service, c.ServiceAccount()) {
		err := r.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && objects.IsOwnedBy(object, owner) && object.GetDeletionTimestamp().IsZero() {
			err = r.client.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing %s %q: %w", kindOf(object), object.GetName(), err)
		}
	}

	return nil
}

// kindOf names the kind of an object for a person.
func kindOf(object client.Object) string {
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
