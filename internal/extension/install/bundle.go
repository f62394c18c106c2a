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

// renderedBundle is a bundle rendered for an extension.
type renderedBundle struct {
	// dependencies is the bundle with what it provides and requires.
	dependencies *dependency.Bundle
	// statedProperties are the properties that the author of the bundle states.
	statedProperties []fbc.Property
	objects          []unstructured.Unstructured
}

// renderBundle renders the chosen bundle for the extension. An error of the bundle or of the
// configuration stops the reconciliation: it stays until another bundle is chosen or the spec
// changes.
func renderBundle(ext *olmv1.ClusterExtension, chosen selection, on platform, image *BundleImage) (*renderedBundle, error) {
	loaded, err := image.Files.Load(image.Labels)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}
	if err := checkMinKubeVersion(loaded, on.kubernetesVersion); err != nil {
		return nil, err
	}

	config, err := parseBundleConfig(ext, loaded)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonInvalidConfiguration, err)
	}

	objects, err := render.Render(loaded, render.Options{
		InstallNamespace: ext.Spec.Namespace, WatchNamespace: config.WatchNamespace, DeploymentConfig: config.DeploymentConfig,
		Issuer: issuerForBundle(loaded, on.issuer), AccessRoles: wantsAccessRoles(ext),
	})
	var configErr *render.ConfigError
	switch {
	case errors.As(err, &configErr):
		return nil, reconcile.Stop(olmv1.ReasonInvalidConfiguration, err)
	case err != nil:
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}

	dependencies, err := newDependencyBundle(ext.Spec.Source.Catalog.PackageName, chosen, loaded.Properties)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}

	return &renderedBundle{dependencies: dependencies, statedProperties: loaded.AuthorProperties, objects: objects}, nil
}

// issuerForBundle returns the issuer of the certificates of a bundle's webhooks. cert-manager
// cannot issue its own: its webhook would have to run already.
func issuerForBundle(loaded *bundle.Bundle, issuer render.Issuer) render.Issuer {
	isCertManager := slices.ContainsFunc(loaded.CRDs, func(crd unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		return group == certManagerGroup
	})
	if isCertManager && issuer == render.IssuerCertManager {
		return render.IssuerBuiltIn
	}
	return issuer
}

// platform is what rendering needs to know of the cluster.
type platform struct {
	// kubernetesVersion is the version of the API server. It is empty if it is not known.
	kubernetesVersion string
	// issuer issues the certificates of webhooks.
	issuer render.Issuer
}

// parseBundleConfig returns the configuration from spec.config, and from the annotation that preceded
// it.
func parseBundleConfig(ext *olmv1.ClusterExtension, loaded *bundle.Bundle) (render.Config, error) {
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
