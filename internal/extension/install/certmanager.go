package install

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-dev/mainstay/internal/render"
)

// certManagerAPI is the name of the APIService that represents cert-manager.io/v1. The API server
// creates and deletes it as the CRDs are installed and removed. One small object to watch thus
// shows both.
const certManagerAPI = "v1." + certManagerGroup

const certManagerGroup = "cert-manager.io"

var apiServiceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1.cert-manager.io,verbs=list;watch

// newCertManagerCache returns a cache that holds only the metadata of cert-manager's APIService.
// The manager runs it.
func newCertManagerCache(mgr ctrl.Manager) (cache.Cache, error) {
	apis, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", certManagerAPI),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of cert-manager's API: %w", err)
	}
	if err := mgr.Add(apis); err != nil {
		return nil, fmt.Errorf("adding the cache of cert-manager's API: %w", err)
	}
	return apis, nil
}

func newAPIServiceMetadata() *metav1.PartialObjectMetadata {
	api := &metav1.PartialObjectMetadata{}
	api.SetGroupVersionKind(apiServiceKind)
	return api
}

// createdOrDeleted is a predicate that ignores updates of the APIService.
var createdOrDeleted = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// detectCertificateIssuer returns the issuer of webhook certificates: cert-manager if the cluster
// serves it, otherwise the built-in issuer.
func (r *platformReader) detectCertificateIssuer(ctx context.Context) (render.Issuer, error) {
	if r.certManagerCache == nil {
		return render.IssuerBuiltIn, nil
	}

	err := r.certManagerCache.Get(ctx, client.ObjectKey{Name: certManagerAPI}, newAPIServiceMetadata())
	switch {
	case apierrors.IsNotFound(err):
		return render.IssuerBuiltIn, nil
	case err != nil:
		return "", fmt.Errorf("reading the APIService of cert-manager: %w", err)
	}

	return render.IssuerCertManager, nil
}
