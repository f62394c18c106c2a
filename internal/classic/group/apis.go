package group

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// apis makes the ClusterRoles that give access to the APIs of operators.
type apis struct {
	client client.Client
	roles  roles
}

// Reconcile makes the ClusterRoles of the APIs of one ClusterServiceVersion, once it is installed. They
// are never removed here: each goes with the API that it gives access to.
func (r *apis) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := r.client.Get(ctx, req.NamespacedName, csv); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if csvinfo.IsCopied(csv) || csv.Status.Phase != v1alpha1.CSVPhaseSucceeded || !csv.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	var failed error
	uids := func(kind, name string) types.UID {
		uid, err := r.uid(ctx, kind, name)
		if err != nil {
			failed = err
		}
		return uid
	}

	wanted := apiRoles(csv, uids)
	if failed != nil {
		return ctrl.Result{}, failed
	}

	for i := range wanted {
		if err := r.roles.ensure(ctx, &wanted[i]); err != nil {
			return ctrl.Result{}, err
		}
	}

	return ctrl.Result{}, nil
}

// uid returns the UID of a CRD or an APIService; empty when it is not there.
func (r *apis) uid(ctx context.Context, kind, name string) (types.UID, error) {
	gvk := crdKind
	if kind == kindAPIService {
		gvk = apiServiceKind
	}
	object := metadataOf(gvk)
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, object)
	return object.UID, client.IgnoreNotFound(err)
}

// ownersOfAPI wakes the ClusterServiceVersions that own a CRD or an APIService.
func (r *apis) ownersOfAPI(ctx context.Context, object client.Object) []ctrl.Request {
	return r.owners(ctx, object.GetObjectKind().GroupVersionKind(), object.GetName())
}

// ownersOfRole wakes the ClusterServiceVersions of whose APIs a ClusterRole is.
func (r *apis) ownersOfRole(ctx context.Context, role client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, o := range role.GetOwnerReferences() {
		if o.Kind == kindCRD || o.Kind == kindAPIService {
			requests = append(requests, r.owners(ctx, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), o.Name)...)
		}
	}
	return requests
}

func (r *apis) owners(ctx context.Context, kind schema.GroupVersionKind, name string) []ctrl.Request {
	var list v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to be woken")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		csv := &list.Items[i]
		owns := slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool {
			return kind.Kind == kindCRD && d.Name == name
		}) || slices.ContainsFunc(csv.Spec.APIServiceDefinitions.Owned, func(d v1alpha1.APIServiceDescription) bool {
			return kind.Kind == kindAPIService && csvinfo.APIServiceName(d) == name
		})
		if owns && !csvinfo.IsCopied(csv) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
		}
	}

	return requests
}
