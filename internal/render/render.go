// Package render makes the Kubernetes objects of a registry+v1 bundle: what its CSV
// asks for (Deployments, ServiceAccounts, RBAC, webhooks) and what its manifests hold.
// It says which bundles cannot be rendered and why, which namespaces an extension
// watches, and what its configuration may be.
//
// It is pure: a bundle and options in, objects out, the same in the same order each
// time. Reading bundles is internal/bundle's job; putting objects into phases and on a
// cluster is that of the components. Names and contents of the objects are those that
// OLM v1 gives them, so that an installation can move between implementations.
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

// Options say where a bundle is installed and how.
type Options struct {
	// InstallNamespace is where its namespaced objects go. Required.
	InstallNamespace string
	// WatchNamespace is the one namespace that it watches; empty means all.
	WatchNamespace string
	// DeploymentConfig changes its Deployments. Nil changes nothing.
	DeploymentConfig *v1alpha1.SubscriptionConfig
	// Issuer of the certificates of webhooks. Empty means the built-in one.
	Issuer Issuer
	// AccessRoles adds ClusterRoles for users of the APIs that the bundle defines, which
	// are aggregated to view, edit and admin.
	AccessRoles bool
}

// Render makes the objects of a bundle, sorted by group, kind, namespace and name. No
// two have the same.
//
// The error is a *RefusedError when the bundle cannot be rendered whatever the options
// say, and a *ConfigError when the options do not fit the bundle. The bundle is not
// changed.
func Render(b *bundle.Bundle, opts Options) ([]unstructured.Unstructured, error) {
	if opts.InstallNamespace == "" {
		return nil, errors.New("rendering a bundle needs an install namespace")
	}
	if err := opts.Issuer.check(); err != nil {
		return nil, err
	}
	if err := Validate(b); err != nil {
		return nil, err
	}

	targets, err := TargetNamespaces(b.InstallModes(), opts.InstallNamespace, opts.WatchNamespace)
	if err != nil {
		return nil, err
	}

	deployments, err := deployments(b, opts, targets)
	if err != nil {
		return nil, err
	}

	var access []runtime.Object
	if opts.AccessRoles {
		access = accessRoles(b)
	}

	made, err := toUnstructured(slices.Concat(
		access,
		permissions(b, opts.InstallNamespace, targets),
		deployments,
		services(b, opts.InstallNamespace, opts.Issuer),
		opts.Issuer.certificates(b, opts.InstallNamespace),
		webhookConfigurations(b, opts, targets),
	))
	if err != nil {
		return nil, fmt.Errorf("rendering bundle %q: %w", b.Name(), err)
	}

	shipped := shipped(b, opts.InstallNamespace)
	addConversion(b, opts, shipped)
	return merge(b.Name(), shipped, made)
}

// toUnstructured takes the status out, which is not for us to write.
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

func identify(object unstructured.Unstructured) identity {
	return identity{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

// merge puts the objects that a bundle ships and those made for it together and sorts
// them. Where both have a ServiceAccount the shipped one stays: it can carry more,
// such as pull secrets. An object that is made twice alike is kept once, for a CSV may
// state one permission twice.
func merge(bundleName string, shipped, made []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	index := map[identity]unstructured.Unstructured{}
	for _, object := range shipped {
		index[identify(object)] = object
	}

	result := slices.Clone(shipped)
	for _, object := range made {
		id := identify(object)
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
		x, y := identify(a), identify(b)
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
	})
	return result, nil
}
