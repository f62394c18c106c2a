package serving

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Objects of earlier names are looked up by name and deleted one by one.

// +kubebuilder:rbac:groups="",resources=services;secrets,verbs=get;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings;clusterrolebindings,verbs=get;delete

// listLegacyObjects returns the kinds and names of the objects that early releases of OLM Classic created for an owned
// API. Their names are those of the API instead of the Deployment.
func listLegacyObjects(csv *v1alpha1.ClusterServiceVersion, api v1alpha1.APIServiceDescription) []*metav1.PartialObjectMetadata {
	name := csvinfo.APIServiceName(api)
	service, secret := strings.ReplaceAll(name, ".", "-"), name+"-cert"
	newObject := func(version schema.GroupVersion, kind, namespace, name string) *metav1.PartialObjectMetadata {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		object.SetGroupVersionKind(version.WithKind(kind))
		return object
	}

	core, rbac := schema.GroupVersion{Version: "v1"}, rbacv1.SchemeGroupVersion
	return []*metav1.PartialObjectMetadata{
		newObject(core, "Service", csv.Namespace, service),
		newObject(core, "Secret", csv.Namespace, secret),
		newObject(rbac, "RoleBinding", csv.Namespace, secret),
		newObject(rbac, "Role", csv.Namespace, secret),
		newObject(rbac, "ClusterRoleBinding", "", service+"-"+authDelegator),
		newObject(rbac, "RoleBinding", authNamespace, service+"-auth-reader"),
	}
}

// RemoveLegacy deletes the objects that early releases of OLM Classic created for the owned APIs, if owner labels name
// the ClusterServiceVersion. The APIServices must not refer to them any more.
func (s *Server) RemoveLegacy(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	for _, api := range csv.Spec.APIServiceDefinitions.Owned {
		for _, object := range listLegacyObjects(csv, api) {
			if err := s.removeLegacyObject(ctx, csv, object); err != nil {
				return fmt.Errorf("deleting %s %s of an earlier OLM: %w", object.Kind, client.ObjectKeyFromObject(object), err)
			}
		}
	}
	return nil
}

func (s *Server) removeLegacyObject(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, object *metav1.PartialObjectMetadata) error {
	err := s.Reader.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !csvinfo.HasLabels(object.Labels, csvinfo.OwnerLabels(csv.Namespace, csv.Name)) || isCurrentName(csv, object) {
		return nil
	}
	return client.IgnoreNotFound(s.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID}))
}

// isCurrentName reports whether an object of an earlier name is needed, because a Deployment has the name of an API.
func isCurrentName(csv *v1alpha1.ClusterServiceVersion, object *metav1.PartialObjectMetadata) bool {
	for _, e := range csvinfo.Endpoints(csv) {
		service, secret := csvinfo.ServiceName(e.Deployment.Name), csvinfo.SecretName(e.Deployment.Name)
		switch object.Name {
		case service, secret, service + "-" + authDelegator, service + "-auth-reader":
			return true
		}
	}
	return false
}
