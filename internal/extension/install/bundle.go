package install

import (
	"errors"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// objectsOf renders a bundle as the extension's spec asks. A bundle that cannot be
// rendered stays so until another one is chosen or the spec changes.
func objectsOf(ext *olmv1.ClusterExtension, files fs.FS) ([]unstructured.Unstructured, error) {
	loaded, err := bundle.Load(files)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}
	config, err := configOf(ext, loaded)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonInvalidConfiguration, err)
	}
	objects, err := render.Render(loaded, render.Options{
		InstallNamespace: ext.Spec.Namespace, WatchNamespace: config.WatchNamespace, DeploymentConfig: config.DeploymentConfig,
	})
	var misfit *render.ConfigError
	switch {
	case errors.As(err, &misfit):
		return nil, reconcile.Stop(olmv1.ReasonInvalidConfiguration, err)
	case err != nil:
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}
	return objects, nil
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
