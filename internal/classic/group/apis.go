package group

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// apiRoles creates the ClusterRoles that grant access to the APIs of operators.
type apiRoles struct {
	client client.Client
	// cached reads the metadata of APIServices, and crds CRDs, from caches.
	cached, crds client.Reader
	roles        roleWriter
}

// newReconciler returns the reconciler of the ClusterRoles for the APIs of installed ClusterServiceVersions. It never
// deletes them: each has the API that it grants access to as its owner.
func (r *apiRoles) newReconciler() *reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, apiUIDs, []rbacv1.ClusterRole] {
	return &reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, apiUIDs, []rbacv1.ClusterRole]{
		Client: r.client, New: newCSV, Gather: r.gatherUIDs, Decide: decideAPIRoles,
		Execute: func(ctx context.Context, _ *v1alpha1.ClusterServiceVersion, _ apiUIDs, wanted []rbacv1.ClusterRole) error {
			return r.roles.ensureRoles(ctx, wanted)
		},
	}
}

// apiUIDs are the UIDs of the existing APIs that an operator owns.
type apiUIDs map[apiObject]types.UID

// apiObject is the kind and the name of a CRD or an APIService.
type apiObject struct{ kind, name string }

// gatherUIDs reads the UIDs of the APIs that an installed ClusterServiceVersion owns.
func (r *apiRoles) gatherUIDs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (apiUIDs, error) {
	uids := apiUIDs{}
	if !hasAPIRoles(csv) {
		return uids, nil
	}

	for _, owned := range listOwnedAPIs(csv) {
		var err error
		if uids[owned], err = r.getUID(ctx, owned.kind, owned.name); err != nil {
			return uids, err
		}
	}

	return uids, nil
}

// listOwnedAPIs returns the CRDs and APIServices that a ClusterServiceVersion owns.
func listOwnedAPIs(csv *v1alpha1.ClusterServiceVersion) []apiObject {
	var apis []apiObject
	for _, d := range csv.Spec.CustomResourceDefinitions.Owned {
		apis = append(apis, apiObject{kindCRD, d.Name})
	}
	for _, d := range csv.Spec.APIServiceDefinitions.Owned {
		apis = append(apis, apiObject{kindAPIService, csvinfo.APIServiceName(d)})
	}
	return apis
}

// hasAPIRoles reports whether there are ClusterRoles for the APIs of a ClusterServiceVersion.
func hasAPIRoles(csv *v1alpha1.ClusterServiceVersion) bool {
	return !csvinfo.IsCopied(csv) && csv.Status.Phase == v1alpha1.CSVPhaseSucceeded
}

// decideAPIRoles returns the ClusterRoles for the APIs of a ClusterServiceVersion.
func decideAPIRoles(csv *v1alpha1.ClusterServiceVersion, uids apiUIDs) []rbacv1.ClusterRole {
	if !hasAPIRoles(csv) {
		return nil
	}
	return newAPIRoles(csv, func(kind, name string) types.UID { return uids[apiObject{kind, name}] })
}

// getUID returns the UID of a CRD or an APIService; empty when it does not exist.
func (r *apiRoles) getUID(ctx context.Context, kind, name string) (types.UID, error) {
	if kind == kindCRD {
		crd := &crdinfo.Definition{}
		err := r.crds.Get(ctx, client.ObjectKey{Name: name}, crd)
		return crd.UID, client.IgnoreNotFound(err)
	}

	service := newPartialMetadata(apiServiceKind)
	err := r.cached.Get(ctx, client.ObjectKey{Name: name}, service)
	return service.UID, client.IgnoreNotFound(err)
}

// enqueueOwnersOfAPI returns a map function that returns the ClusterServiceVersions that own an API of a kind.
func (r *apiRoles) enqueueOwnersOfAPI(kind string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []ctrl.Request {
		return r.listOwners(ctx, kind, object.GetName())
	}
}

// enqueueOwnersOfRole is a map function that returns the ClusterServiceVersions that own the API of a ClusterRole.
func (r *apiRoles) enqueueOwnersOfRole(ctx context.Context, role client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, o := range role.GetOwnerReferences() {
		if o.Kind == kindCRD || o.Kind == kindAPIService {
			requests = append(requests, r.listOwners(ctx, o.Kind, o.Name)...)
		}
	}
	return requests
}

func (r *apiRoles) listOwners(ctx context.Context, kind, name string) []ctrl.Request {
	var list v1alpha1.ClusterServiceVersionList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ClusterServiceVersions to enqueue")
		return nil
	}

	var requests []ctrl.Request
	for i := range list.Items {
		csv := &list.Items[i]
		owns := slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool {
			return kind == kindCRD && d.Name == name
		}) || slices.ContainsFunc(csv.Spec.APIServiceDefinitions.Owned, func(d v1alpha1.APIServiceDescription) bool {
			return kind == kindAPIService && csvinfo.APIServiceName(d) == name
		})
		if owns && !csvinfo.IsCopied(csv) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
		}
	}

	return requests
}
