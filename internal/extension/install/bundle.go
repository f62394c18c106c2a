package install

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// renderedBundle is a bundle as an extension's spec asks for it.
type renderedBundle struct {
	// seen is the bundle as others see it.
	seen *dependency.Bundle
	// stated are the properties that its author states.
	stated  []fbc.Property
	objects []unstructured.Unstructured
}

// renderBundle renders the chosen bundle as the extension's spec asks. A bundle that cannot
// be rendered stays so until another one is chosen or the spec changes.
func renderBundle(ext *olmv1.ClusterExtension, chosen selection, on platform, image *BundleImage) (*renderedBundle, error) {
	loaded, err := image.Files.Load(image.Labels)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}
	if err := checkKubernetes(loaded, on.kubernetes); err != nil {
		return nil, err
	}

	config, err := configOf(ext, loaded)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonInvalidConfiguration, err)
	}

	objects, err := render.Render(loaded, render.Options{
		InstallNamespace: ext.Spec.Namespace, WatchNamespace: config.WatchNamespace, DeploymentConfig: config.DeploymentConfig,
		Issuer: issuerFor(loaded, on.issuer), AccessRoles: wantsAccessRoles(ext),
	})
	var misfit *render.ConfigError
	switch {
	case errors.As(err, &misfit):
		return nil, reconcile.Stop(olmv1.ReasonInvalidConfiguration, err)
	case err != nil:
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}

	seen, err := dependencyBundle(ext.Spec.Source.Catalog.PackageName, chosen, loaded.Properties)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}

	return &renderedBundle{seen: seen, stated: loaded.StatedProperties, objects: objects}, nil
}

// issuerFor is who issues the certificates of a bundle's webhooks. cert-manager cannot do
// so for itself: its own webhook would have to run already.
func issuerFor(loaded *bundle.Bundle, issuer render.Issuer) render.Issuer {
	brings := slices.ContainsFunc(loaded.CRDs, func(crd unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		return group == certManagerGroup
	})
	if brings {
		return render.IssuerBuiltIn
	}
	return issuer
}

// platform is what a cluster has that makes a difference to bundles.
type platform struct {
	// kubernetes is the version of the API server; empty when it is not known.
	kubernetes string
	// issuer of the certificates of webhooks.
	issuer render.Issuer
}

// configOf reads spec.config, and the annotation that did its job before.
func configOf(ext *olmv1.ClusterExtension, loaded *bundle.Bundle) (render.Config, error) {
	var config render.Config
	if ext.Spec.Config != nil && ext.Spec.Config.Inline != nil {
		parsed, err := render.ParseConfig(loaded, ext.Spec.Config.Inline.Raw)
		if err != nil {
			return config, err
		}
		config = parsed
	}

	annotated := ext.Annotations[olmv1.AnnotationWatchNamespace]
	switch {
	case annotated == "" || annotated == config.WatchNamespace:
	case config.WatchNamespace != "":
		return config, errors.New("the annotation " + olmv1.AnnotationWatchNamespace +
			" and spec.config.inline.watchNamespace name different namespaces: remove one of them")
	default:
		config.WatchNamespace = annotated
	}

	return config, nil
}
