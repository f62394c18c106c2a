package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// ExtensionConfig reads which configuration a bundle accepts, and checks a configuration. It changes
// nothing.
type ExtensionConfig struct {
	Client client.Client
	// Cluster returns the configuration of the cluster, which is needed to read its catalogs.
	Cluster func() (*rest.Config, error)
	// Registry pulls the bundle.
	Registry catalogs.Registry
	// SystemNamespace is the namespace of catalogd. Empty means DefaultSystemNamespace.
	SystemNamespace string

	// Name is the name of an existing extension. Its installed bundle, namespace and
	// configuration are used instead of Package, Namespace and Choice. Empty means an extension
	// that does not exist yet.
	Name string
	// Package, Namespace and Choice are those of an extension that does not exist yet.
	Package, Namespace string
	Choice             Choice
	// Config is the configuration to check. Nil means the present one of the existing extension, or
	// none.
	Config map[string]any
}

// BundleConfig is what a bundle accepts as configuration.
type BundleConfig struct {
	// Generation is the generation of the existing extension. It is zero if there is none.
	Generation int64 `json:"generation,omitempty"`
	// Config is the configuration that was checked. It is nil if it is empty.
	Config map[string]any `json:"config,omitempty"`
	// Bundle is the name of the bundle that has the schema.
	Bundle string `json:"bundle,omitempty"`
	// Schema is the JSON schema of the configuration. It is nil if it is unknown.
	Schema map[string]any `json:"schema,omitempty"`
	// Faults are the problems of the configuration, in the words of operator-controller.
	Faults []BundleConfigFault `json:"faults"`
	// Unknown states why the schema is unknown, so that nothing was checked. It is nil if the
	// schema is known.
	Unknown error `json:"-"`
}

// BundleConfigFault is a problem of a configuration at a field.
type BundleConfigFault struct {
	// Path is the way to the field: names, and indexes of lists as decimal numbers. It is empty for
	// the whole configuration.
	Path    []string `json:"path"`
	Message string   `json:"message"`
}

// Run reads the bundle and checks the configuration. A bundle that cannot be read is no error,
// because operator-controller can still install it: Unknown then has the reason. The error is that
// of reading the existing extension.
func (a *ExtensionConfig) Run(ctx context.Context) (*BundleConfig, error) {
	result := &BundleConfig{Config: a.Config, Faults: []BundleConfigFault{}}
	namespace, filter, err := a.findTarget(ctx, result)
	if err != nil {
		return nil, err
	}

	loaded, err := a.loadBundle(ctx, filter)
	if err != nil {
		result.Unknown = err
		return result, nil //nolint:nilerr // the result has the error
	}

	result.Bundle = loaded.Name()
	return result, result.checkConfig(loaded, namespace)
}

// findTarget returns the namespace of the extension and the filter that selects its bundle. It sets
// what the result repeats of an existing extension.
func (a *ExtensionConfig) findTarget(ctx context.Context, result *BundleConfig) (string, *olmv1.CatalogFilter, error) {
	if a.Name == "" {
		filter := &olmv1.CatalogFilter{PackageName: a.Package}
		return a.Namespace, filter, a.Choice.applyToSpec(&olmv1.ClusterExtensionSpec{Source: olmv1.SourceConfig{Catalog: filter}})
	}

	extension, err := a.readExtension(ctx)
	if err != nil {
		return "", nil, err
	}

	result.Generation = extension.Generation
	if a.Config == nil {
		result.Config, err = inlineConfig(extension)
	}
	return extension.Spec.Namespace, installedBundleFilter(extension), err
}

// checkConfig sets the schema of a bundle and the faults of the configuration.
func (c *BundleConfig) checkConfig(b *bundle.Bundle, namespace string) error {
	schema, err := json.Marshal(render.ConfigSchema(b))
	if err != nil {
		return fmt.Errorf("writing the configuration schema: %w", err)
	}
	if err := json.Unmarshal(schema, &c.Schema); err != nil {
		return fmt.Errorf("reading the configuration schema: %w", err)
	}

	var inline []byte
	if c.Config != nil {
		if inline, err = json.Marshal(c.Config); err != nil {
			return fmt.Errorf("writing the configuration: %w", err)
		}
	}
	for _, fault := range render.CheckConfig(b, namespace, inline) {
		c.Faults = append(c.Faults, BundleConfigFault{Path: append([]string{}, fault.Path...), Message: fault.Message})
	}
	return nil
}

// readExtension returns the existing extension, which must come from a catalog.
func (a *ExtensionConfig) readExtension(ctx context.Context) (*olmv1.ClusterExtension, error) {
	extension := &olmv1.ClusterExtension{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, extension); err != nil {
		return nil, NewNotFoundError(describeExtension(a.Name), "mainstay extension list", err)
	}
	if extension.Spec.Source.Catalog == nil {
		return nil, &report.Error{Object: describeExtension(a.Name), Err: errors.New("it does not come from a catalog")}
	}
	return extension, nil
}

// installedBundleFilter returns the filter that selects the installed bundle of an extension in its
// catalogs, or the filter of its spec if nothing is installed.
func installedBundleFilter(extension *olmv1.ClusterExtension) *olmv1.CatalogFilter {
	filter := extension.Spec.Source.Catalog.DeepCopy()
	if extension.Status.Install != nil {
		filter.Version, filter.Channels = extension.Status.Install.Bundle.Version, nil
	}
	return filter
}

// inlineConfig returns the configuration in the spec of an extension, or nil if it has none.
func inlineConfig(extension *olmv1.ClusterExtension) (map[string]any, error) {
	if extension.Spec.Config == nil || extension.Spec.Config.Inline == nil {
		return nil, nil
	}

	var config map[string]any
	if err := json.Unmarshal(extension.Spec.Config.Inline.Raw, &config); err != nil {
		return nil, &report.Error{Object: describeExtension(extension.Name), Err: fmt.Errorf("spec.config.inline: %w", err)}
	}
	return config, nil
}

// loadBundle loads the bundle that a filter selects.
func (a *ExtensionConfig) loadBundle(ctx context.Context, filter *olmv1.CatalogFilter) (*bundle.Bundle, error) {
	reader := &catalogContentReader{Client: a.Client, Cluster: a.Cluster, SystemNamespace: a.SystemNamespace}
	contents, err := reader.readSelectedCatalogs(ctx, filter)
	if err != nil {
		return nil, err
	}

	request := resolve.Request{Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels, RunsOn: a.satisfiesMinKubeVersion}
	result, err := resolve.Resolve(request, contents.catalogs)
	if err != nil {
		return nil, &report.Error{Object: fmt.Sprintf("package %q", filter.PackageName), Err: err, Advice: strings.Join(resolve.Hints(err), "; ")}
	}

	open := catalogs.OpenBundle{Registry: a.Registry, Ref: result.Bundle.Image, IsImage: true}
	loaded, err := open.Load(ctx)
	if err != nil {
		return nil, &report.Error{Object: fmt.Sprintf("bundle %q", result.Bundle.Name), Err: err, Advice: report.AdviceOf(err)}
	}
	return loaded, nil
}

// satisfiesMinKubeVersion reports whether the cluster satisfies a minKubeVersion. It returns true
// if the version of the cluster is unknown.
func (a *ExtensionConfig) satisfiesMinKubeVersion(least string) bool {
	config, err := a.Cluster()
	if err != nil {
		return true
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return true
	}
	version, err := discoveryClient.ServerVersion()
	if err != nil {
		return true
	}

	suffices, err := resolve.Suffices(version.GitVersion, least)
	return suffices || err != nil
}
