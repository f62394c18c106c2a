package console

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// ExtensionConfigRequest is a configuration of an extension that does not exist yet.
type ExtensionConfigRequest struct {
	BundleChoice

	Package   string         `json:"package" minLength:"1" maxLength:"253"`
	Namespace string         `json:"namespace,omitempty" maxLength:"63" pattern:"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$" doc:"Namespace of the extension."`
	Config    map[string]any `json:"config,omitempty" doc:"Configuration to check."`
}

type extensionConfigInput struct{ Body ExtensionConfigRequest }

type installedConfigInput struct {
	ExtensionRef

	Body struct {
		Config map[string]any `json:"config,omitempty" doc:"Configuration to check. None checks the present one."`
	}
}

// ExtensionConfig is what the bundle of an extension accepts as configuration.
type ExtensionConfig struct {
	action.BundleConfig

	// Unknown states why the schema is unknown.
	Unknown *Refusal `json:"unknown,omitempty"`
}

// registerExtensionConfig adds the operations about the configuration of bundles. They pull the bundle.
func registerExtensionConfig(api huma.API, registry catalogs.Registry) {
	check := func(ctx context.Context, user *session.Session, config *action.ExtensionConfig) (ExtensionConfig, error) {
		config.Client, config.Cluster, config.Registry = user.Client, clusterOf(user), registry
		checked, err := config.Run(ctx)
		if err != nil {
			return ExtensionConfig{}, err
		}
		return ExtensionConfig{BundleConfig: *checked, Unknown: newRefusal(checked.Unknown)}, nil
	}

	postPlan(api, "checkExtensionConfig", "/extension-configs", "The configuration schema of the bundle that an installation selects, and the faults of a configuration",
		func(ctx context.Context, user *session.Session, input *extensionConfigInput) (ExtensionConfig, error) {
			b := &input.Body
			return check(ctx, user, &action.ExtensionConfig{Package: b.Package, Namespace: b.Namespace, Choice: b.toChoice(), Config: b.Config})
		})
	postPlan(api, "checkInstalledExtensionConfig", "/extensions/{name}/config-checks", "The configuration schema of the installed bundle, and the faults of a configuration",
		func(ctx context.Context, user *session.Session, input *installedConfigInput) (ExtensionConfig, error) {
			return check(ctx, user, &action.ExtensionConfig{Name: input.Name, Config: input.Body.Config})
		})
}
