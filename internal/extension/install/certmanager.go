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

// certManagerAPI is the APIService by which an API server says that it serves
// cert-manager.io/v1. The server makes it, and takes it away, by itself as the CRDs come
// and go; so one small object that can be watched tells of both.
const certManagerAPI = "v1." + certManagerGroup

const certManagerGroup = "cert-manager.io"

var apiServiceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1.cert-manager.io,verbs=list;watch

// watchCertManager returns a cache of nothing but the metadata of cert-manager's API.
func watchCertManager(mgr ctrl.Manager) (cache.Cache, error) {
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

func apiService() *metav1.PartialObjectMetadata {
	api := &metav1.PartialObjectMetadata{}
	api.SetGroupVersionKind(apiServiceKind)
	return api
}

// cameOrWent leaves out what an API server notes of an API that it serves.
var cameOrWent = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// issuer is who issues the certificates of webhooks: cert-manager where the cluster
// serves it, else the built-in issuer.
func (c *Controller) issuer(ctx context.Context) (render.Issuer, error) {
	if c.apis == nil {
		return render.IssuerBuiltIn, nil
	}

	err := c.apis.Get(ctx, client.ObjectKey{Name: certManagerAPI}, apiService())
	switch {
	case apierrors.IsNotFound(err):
		return render.IssuerBuiltIn, nil
	case err != nil:
		return "", fmt.Errorf("looking for cert-manager: %w", err)
	}

	return render.IssuerCertManager, nil
}
