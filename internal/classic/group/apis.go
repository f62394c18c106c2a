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

// apiRoleReconciler creates the ClusterRoles that grant access to the APIs of operators.
type apiRoleReconciler struct {
	client client.Client
	roles  roleWriter
}

// Reconcile ensures the ClusterRoles for the APIs of one installed ClusterServiceVersion. It never deletes
// them: each has the API that it grants access to as its owner.
func (r *apiRoleReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := r.client.Get(ctx, req.NamespacedName, csv); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if csvinfo.IsCopied(csv) || csv.Status.Phase != v1alpha1.CSVPhaseSucceeded || !csv.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	var failed error
	uids := func(kind, name string) types.UID {
		uid, err := r.getUID(ctx, kind, name)
		if err != nil {
			failed = err
		}
		return uid
	}

	wanted := newAPIRoles(csv, uids)
	if failed != nil {
		return ctrl.Result{}, failed
	}

	for i := range wanted {
		if err := r.roles.ensureRole(ctx, &wanted[i]); err != nil {
			return ctrl.Result{}, err
		}
	}

	return ctrl.Result{}, nil
}

// getUID returns the UID of a CRD or an APIService; empty when it does not exist.
func (r *apiRoleReconciler) getUID(ctx context.Context, kind, name string) (types.UID, error) {
	gvk := crdKind
	if kind == kindAPIService {
		gvk = apiServiceKind
	}
	object := newPartialMetadata(gvk)
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, object)
	return object.UID, client.IgnoreNotFound(err)
}

// enqueueOwnersOfAPI is a map function that returns the ClusterServiceVersions that own a CRD or an APIService.
func (r *apiRoleReconciler) enqueueOwnersOfAPI(ctx context.Context, object client.Object) []ctrl.Request {
	return r.listOwners(ctx, object.GetObjectKind().GroupVersionKind(), object.GetName())
}

// enqueueOwnersOfRole is a map function that returns the ClusterServiceVersions that own the API of a ClusterRole.
func (r *apiRoleReconciler) enqueueOwnersOfRole(ctx context.Context, role client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, o := range role.GetOwnerReferences() {
		if o.Kind == kindCRD || o.Kind == kindAPIService {
			requests = append(requests, r.listOwners(ctx, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), o.Name)...)
		}
	}
	return requests
}

func (r *apiRoleReconciler) listOwners(ctx context.Context, kind schema.GroupVersionKind, name string) []ctrl.Request {
	var list v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to enqueue")
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
