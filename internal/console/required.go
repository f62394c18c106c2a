package console

import (
	"cmp"
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// RequiredResource is a kind of which the author of an operator requires an object after the installation.
type RequiredResource struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Plural  string `json:"plural"`
	Kind    string `json:"kind"`
	// Namespace is where the object belongs. It is empty for a kind without namespaces.
	Namespace string `json:"namespace,omitempty"`
}

// annotationInitialization has the object that an operator requires, as JSON.
const annotationInitialization = "operatorframework.io/initialization-resource"

// findMissingResource returns what an operator requires, as long as there is no object of the kind. It returns nil if nothing is
// missing, if the user may not look, if the annotation is malformed, and before the API server offers the kind.
func findMissingResource(ctx context.Context, user *session.Session, csv *v1alpha1.ClusterServiceVersion) *RequiredResource {
	required := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(csv.Annotations[annotationInitialization]), required); err != nil {
		return nil
	}

	kind := required.GroupVersionKind()
	mapping, err := user.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil
	}
	missing := &RequiredResource{Group: kind.Group, Version: kind.Version, Plural: mapping.Resource.Resource, Kind: kind.Kind}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		missing.Namespace = cmp.Or(required.GetNamespace(), csv.Namespace)
	}

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := user.Client.List(ctx, list, client.InNamespace(missing.Namespace), client.Limit(1)); err != nil || len(list.Items) > 0 {
		return nil
	}
	return missing
}
