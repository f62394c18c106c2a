// Package render renders the Kubernetes objects of a registry+v1 bundle: those that its
// CSV requires (Deployments, ServiceAccounts, RBAC, webhooks) and those in its manifests.
// It reports which bundles cannot be rendered and why, which namespaces an extension
// watches, and which configuration is valid.
//
// It is pure and deterministic: a bundle and options in, objects out. Package bundle reads
// bundles. The components group objects into phases and apply them. Names and contents of
// the objects match those of OLM v1, so that an installation can move between
// implementations.
package render

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Options are the options of Render.
type Options struct {
	// InstallNamespace is the namespace of the namespaced objects. Required.
	InstallNamespace string
	// WatchNamespace is the one namespace that the extension watches. Empty means all.
	WatchNamespace string
	// DeploymentConfig changes its Deployments. Nil changes nothing.
	DeploymentConfig *v1alpha1.SubscriptionConfig
	// Issuer issues the certificates of webhooks. Empty means the built-in one.
	Issuer Issuer
	// AccessRoles adds ClusterRoles for users of the APIs that the bundle defines. They are
	// aggregated to view, edit and admin.
	AccessRoles bool
}

// Render returns the objects of a bundle, sorted by group, kind, namespace and name, without
// duplicates.
//
// The error is a *RefusedError if the bundle cannot be rendered with any options, and a
// *ConfigError if the options do not match the bundle. The bundle is not changed.
func Render(b *bundle.Bundle, opts Options) ([]unstructured.Unstructured, error) {
	if opts.InstallNamespace == "" {
		return nil, errors.New("rendering a bundle needs an install namespace")
	}
	if err := opts.Issuer.validate(); err != nil {
		return nil, err
	}
	if err := Validate(b); err != nil {
		return nil, err
	}

	targets, err := TargetNamespaces(b.InstallModes(), opts.InstallNamespace, opts.WatchNamespace)
	if err != nil {
		return nil, err
	}

	deployments, err := renderDeployments(b, opts, targets)
	if err != nil {
		return nil, err
	}

	var access []runtime.Object
	if opts.AccessRoles {
		access = renderAccessRoles(b)
	}

	generated, err := toUnstructured(slices.Concat(
		access,
		renderPermissions(b, opts.InstallNamespace, targets),
		deployments,
		renderServices(b, opts.InstallNamespace, opts.Issuer),
		opts.Issuer.renderCertificates(b, opts.InstallNamespace),
		renderWebhookConfigurations(b, opts, targets),
	))
	if err != nil {
		return nil, fmt.Errorf("rendering bundle %q: %w", b.Name(), err)
	}

	shipped := shippedObjects(b, opts.InstallNamespace)
	addConversionWebhooks(b, opts, shipped)
	return mergeObjects(b.Name(), shipped, generated)
}

// toUnstructured converts objects without their status, which other controllers write.
func toUnstructured(objects []runtime.Object) ([]unstructured.Unstructured, error) {
	result := make([]unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("%T: %w", object, err)
		}
		delete(content, "status")
		result = append(result, unstructured.Unstructured{Object: content})
	}

	return result, nil
}

type identity struct {
	schema.GroupKind
	namespace, name string
}

func identityOf(object unstructured.Unstructured) identity {
	return identity{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

// mergeObjects merges the objects that a bundle ships and those generated for it, and sorts them.
// If both have a ServiceAccount the shipped one is used, because it can have more fields, such as
// pull secrets. Identical generated objects are merged, because a CSV may state a permission
// twice.
func mergeObjects(bundleName string, shipped, generated []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	index := map[identity]unstructured.Unstructured{}
	for _, object := range shipped {
		index[identityOf(object)] = object
	}

	result := slices.Clone(shipped)
	for _, object := range generated {
		id := identityOf(object)
		first, taken := index[id]
		switch {
		case !taken:
			index[id] = object
			result = append(result, object)
		case id.Kind != kindServiceAccount && !reflect.DeepEqual(first, object):
			return nil, &RefusedError{Bundle: bundleName, Reasons: []string{
				fmt.Sprintf("%s %q is shipped by the bundle and also follows from its ClusterServiceVersion", id.Kind, id.name),
			}}
		}
	}

	slices.SortFunc(result, func(a, b unstructured.Unstructured) int {
		x, y := identityOf(a), identityOf(b)
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
	})
	return result, nil
}
