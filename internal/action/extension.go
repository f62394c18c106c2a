package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Choice selects a bundle of a package. A nil field keeps the current value or the default
// of the API.
type Choice struct {
	// Version is a version or a range. Empty means any version.
	Version *string
	// Channels limits the choice to bundles of these channels. Empty means all channels.
	Channels *[]string
	// CatalogSelector is a label selector in the syntax of kubectl. Empty means all
	// catalogs.
	CatalogSelector *string
	// SelfCertified allows updates outside of the upgrade edges of the catalog.
	SelfCertified *bool
	// CRDUpgradeSafety is Strict if changes of CRDs are checked, and None if they are not,
	// so that data can be lost.
	CRDUpgradeSafety *olmv1.CRDUpgradeSafetyEnforcement
	// Config is the configuration of the bundle. An empty one removes it. It is for changes: a new
	// extension has it in ExtensionInstall.
	Config *map[string]any
}

// applyToSpec writes the choice into the spec of an extension from a catalog.
func (c Choice) applyToSpec(spec *olmv1.ClusterExtensionSpec) error {
	if c.CRDUpgradeSafety != nil {
		if spec.Install == nil {
			spec.Install = &olmv1.ClusterExtensionInstallConfig{}
		}
		spec.Install.Preflight = &olmv1.PreflightConfig{
			CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: *c.CRDUpgradeSafety},
		}
	}

	if c.Config != nil {
		config, err := newInlineConfig(*c.Config)
		if err != nil {
			return err
		}
		spec.Config = config
	}

	filter := spec.Source.Catalog
	if c.Version != nil {
		filter.Version = *c.Version
	}
	if c.Channels != nil {
		filter.Channels = slices.DeleteFunc(slices.Clone(*c.Channels), func(name string) bool { return name == "" })
	}

	if c.CatalogSelector != nil {
		filter.Selector = nil
		if *c.CatalogSelector != "" {
			selector, err := metav1.ParseToLabelSelector(*c.CatalogSelector)
			if err != nil {
				return fmt.Errorf("catalog selector %q: %w", *c.CatalogSelector, err)
			}
			filter.Selector = selector
		}
	}

	if c.SelfCertified != nil {
		filter.UpgradeConstraintPolicy = olmv1.UpgradeConstraintPolicyCatalogProvided
		if *c.SelfCertified {
			filter.UpgradeConstraintPolicy = olmv1.UpgradeConstraintPolicySelfCertified
		}
	}

	return nil
}

// isEmpty reports whether the choice changes nothing.
func (c Choice) isEmpty() bool { return c == Choice{} }

// ExtensionInstall installs a package from a catalog.
type ExtensionInstall struct {
	Client   client.Client
	Progress report.Progress

	// Base has the fields of the ClusterExtension that no other field sets, such as labels. Nil means none.
	Base *olmv1.ClusterExtension
	// Package is the name of the package.
	Package string
	// Name is the name of the ClusterExtension. Empty means the name of the package.
	Name string
	// Namespace is the namespace for the namespaced objects of the bundle. Empty means the
	// name of the extension.
	Namespace string
	// CreateNamespace creates the namespace if it does not exist.
	CreateNamespace bool
	// ServiceAccount is the service account in Namespace that is impersonated to write the
	// objects. Empty means the service account of operator-controller.
	ServiceAccount string
	// Account are the objects of the service account, such as those of package
	// leastprivilege. They are created before the extension, and removed again if the
	// extension is refused. Nil means that the service account exists.
	Account []client.Object
	// WatchNamespace is the single namespace that the extension watches. Empty means all
	// namespaces if the bundle supports that.
	WatchNamespace string
	// Config is the configuration of the bundle without WatchNamespace. Nil means none.
	Config map[string]any
	// Dependencies is the policy for missing packages and APIs. Empty means the default of
	// the API, Block.
	Dependencies olmv1.DependencyPolicy
	// Rollback is the policy for updates that exceed the progress deadline. Empty means the
	// default, Never. OnDeadline requires ProgressDeadlineMinutes.
	Rollback olmv1.RollbackPolicy
	// AccessRoles selects the roles that are created for the APIs of the bundle. Empty
	// means the default, None.
	AccessRoles olmv1.AccessRoles
	// ProgressDeadlineMinutes is the progress deadline of a rollout. Zero means none.
	ProgressDeadlineMinutes int32
	Choice                  Choice
	// Check, if not nil, makes Run check the plan before it creates anything.
	Check *PlanCheck
	// Wait, if not nil, makes Run wait until the extension is installed.
	Wait *Wait
}

// extensionName returns the name of the ClusterExtension.
func (a *ExtensionInstall) extensionName() string {
	if a.Name != "" {
		return a.Name
	}
	return a.Package
}

// installNamespace returns the namespace of the extension.
func (a *ExtensionInstall) installNamespace() string {
	if a.Namespace != "" {
		return a.Namespace
	}
	return a.extensionName()
}

// Objects returns the objects that Run creates in order: the namespace if requested, those
// of the service account, and the ClusterExtension last.
func (a *ExtensionInstall) Objects() ([]client.Object, error) {
	extension := a.newExtension()
	config, err := a.newConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		extension.Spec.Config = config
	}
	if install := a.newInstallConfig(); install != nil {
		extension.Spec.Install = install
	}
	if err := a.Choice.applyToSpec(&extension.Spec); err != nil {
		return nil, &report.Error{Object: describeExtension(a.extensionName()), Err: err, Advice: "write the selector in the syntax of kubectl: 'key=value,other in (a,b)'"}
	}

	var objects []client.Object
	if a.CreateNamespace {
		objects = append(objects, a.newNamespace())
	}
	objects = append(objects, a.Account...)
	return append(objects, extension), nil
}

// newExtension returns the ClusterExtension without its configuration, install settings and choice.
func (a *ExtensionInstall) newExtension() *olmv1.ClusterExtension {
	extension := &olmv1.ClusterExtension{}
	if a.Base != nil {
		extension.Labels = maps.Clone(a.Base.Labels)
		extension.Annotations = maps.Clone(a.Base.Annotations)
		a.Base.Spec.DeepCopyInto(&extension.Spec)
	}

	extension.APIVersion = olmv1.GroupVersion.String()
	extension.Kind = olmv1.ClusterExtensionKind
	extension.Name = a.extensionName()
	spec := &extension.Spec
	spec.Namespace = a.installNamespace()
	spec.Source.SourceType = olmv1.ExtensionSourceTypeCatalog
	if spec.Source.Catalog == nil {
		spec.Source.Catalog = &olmv1.CatalogFilter{}
	}
	spec.Source.Catalog.PackageName = a.Package
	if a.ServiceAccount != "" {
		spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: a.ServiceAccount}
	}
	if a.ProgressDeadlineMinutes != 0 {
		spec.ProgressDeadlineMinutes = &a.ProgressDeadlineMinutes
	}
	return extension
}

// newNamespace returns the namespace of the extension.
func (a *ExtensionInstall) newNamespace() *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: a.installNamespace()},
	}
}

// newConfig returns the configuration of the bundle, or nil if it is empty.
func (a *ExtensionInstall) newConfig() (*olmv1.ClusterExtensionConfig, error) {
	config := maps.Clone(a.Config)
	if a.WatchNamespace != "" {
		if config == nil {
			config = map[string]any{}
		}
		config["watchNamespace"] = a.WatchNamespace
	}
	return newInlineConfig(config)
}

// newInlineConfig returns a configuration as it is in the spec, or nil if it is empty.
func newInlineConfig(config map[string]any) (*olmv1.ClusterExtensionConfig, error) {
	if len(config) == 0 {
		return nil, nil
	}

	inline, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: inline}}, nil
}

// newInstallConfig returns the values that differ from the defaults of the API, or nil if
// none does.
func (a *ExtensionInstall) newInstallConfig() *olmv1.ClusterExtensionInstallConfig {
	config := olmv1.ClusterExtensionInstallConfig{AccessRoles: a.AccessRoles}
	if a.Dependencies != "" {
		config.Dependencies = &olmv1.DependenciesConfig{Policy: a.Dependencies}
	}
	if a.Rollback != "" {
		config.Rollback = &olmv1.RollbackConfig{Policy: a.Rollback}
	}
	if config == (olmv1.ClusterExtensionInstallConfig{}) {
		return nil
	}

	return &config
}

// Run creates the ClusterExtension and waits if requested. With a Check, it first requests
// a plan from the controller and creates nothing if the plan is refused. It returns the
// current extension, also together with an error of the wait.
func (a *ExtensionInstall) Run(ctx context.Context) (*olmv1.ClusterExtension, error) {
	objects, err := a.Objects()
	if err != nil {
		return nil, err
	}

	extension := objects[len(objects)-1].(*olmv1.ClusterExtension)
	exists, err := a.checkNamespace(ctx)
	if err != nil {
		return nil, err
	}

	creation := &extensionCreation{ExtensionInstall: a, extension: extension, needsNamespace: !exists}
	if err := creation.createObjects(ctx); err != nil {
		return nil, err
	}

	if a.Wait == nil {
		return extension, nil
	}

	report.OrQuiet(a.Progress).Done(describeExtension(a.extensionName()) + " created")
	return extension, waitForExtension(ctx, a.Client, a.Wait, a.Progress, extension, "")
}

// newExistsError returns the error for an extension that exists already.
func (a *ExtensionInstall) newExistsError(cause error) error {
	return &report.Error{
		Object: describeExtension(a.extensionName()), Err: &report.Reworded{Text: "it exists already", Cause: cause},
		Advice: fmt.Sprintf("change it with 'mainstay extension upgrade %s', or choose another name with --name", a.extensionName()),
	}
}

// checkAbsent returns an error if the extension exists already.
func (a *ExtensionInstall) checkAbsent(ctx context.Context) error {
	err := a.Client.Get(ctx, client.ObjectKey{Name: a.extensionName()}, &olmv1.ClusterExtension{})
	if err == nil {
		return a.newExistsError(apierrors.NewAlreadyExists(olmv1.GroupVersion.WithResource("clusterextensions").GroupResource(), a.extensionName()))
	}
	return NewServerError(describeExtension(a.extensionName()), client.IgnoreNotFound(err))
}

// checkNamespace reports whether the namespace exists. It returns an error if the namespace
// is missing and CreateNamespace is not set, because the extension would wait for it
// forever.
func (a *ExtensionInstall) checkNamespace(ctx context.Context) (bool, error) {
	object := fmt.Sprintf("namespace %q", a.installNamespace())
	err := a.Client.Get(ctx, client.ObjectKey{Name: a.installNamespace()}, &corev1.Namespace{})
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsForbidden(err) && !a.CreateNamespace:
		// A user without permission to read it may still install. The controller reports a
		// missing namespace.
		return true, nil
	case !apierrors.IsNotFound(err):
		return false, NewServerError(object, err)
	case !a.CreateNamespace:
		return false, &report.Error{Object: object, Err: &report.Reworded{Text: "not found", Cause: err}, Advice: "create it, add --create-namespace, or choose another with --namespace"}
	}

	return false, nil
}

// ExtensionUpgrade changes the bundle that an extension requests.
type ExtensionUpgrade struct {
	Client   client.Client
	Progress report.Progress

	Name   string
	Choice Choice
	// Generation is the generation of the extension that the choice was made for. Another
	// generation is refused. Zero means any.
	Generation int64
	// Check, if not nil, makes Run check the plan before it changes anything.
	Check *PlanCheck
	// Wait, if not nil, makes Run wait until the requested bundle is installed.
	Wait *Wait
}

// Validate returns an error if no change is requested.
func (a *ExtensionUpgrade) Validate() error {
	if a.Choice.isEmpty() {
		return &report.Error{
			Object: describeExtension(a.Name), Err: errors.New("nothing to change"),
			Advice: "specify --version, --channel, --catalog-selector, --self-certified or --crd-upgrade-safety; updates within the current choice happen automatically",
		}
	}
	return nil
}

// readExtension returns the extension, which must come from a catalog.
func (a *ExtensionUpgrade) readExtension(ctx context.Context) (*olmv1.ClusterExtension, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}

	extension := &olmv1.ClusterExtension{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, extension); err != nil {
		return nil, NewNotFoundError(describeExtension(a.Name), "mainstay extension list", err)
	}
	if extension.Spec.Source.Catalog == nil {
		return nil, &report.Error{Object: describeExtension(a.Name), Err: errors.New("it does not come from a catalog")}
	}

	return extension, CheckGeneration(describeExtension(a.Name), extension, a.Generation)
}

// Run changes the extension unless the plan is refused, and waits if requested. It returns
// the current extension and whether it was changed, also together with an error of the
// wait.
func (a *ExtensionUpgrade) Run(ctx context.Context) (extension *olmv1.ClusterExtension, changed bool, err error) {
	extension, err = a.readExtension(ctx)
	if err != nil {
		return nil, false, err
	}

	before, err := patchExtensionChoice(ctx, a.Client, a.Progress, a.Check, extension, a.Choice)
	if err != nil {
		return nil, false, err
	}

	changed = extension.Generation != before.Generation
	if a.Wait == nil {
		return extension, changed, nil
	}

	return extension, changed, waitForExtension(ctx, a.Client, a.Wait, a.Progress, extension, "")
}

// ExtensionList lists the extensions of the cluster.
type ExtensionList struct {
	Client client.Client
	// Name limits the list to one extension. Empty means all.
	Name string
}

// Run returns the extensions, sorted by name.
func (a *ExtensionList) Run(ctx context.Context) ([]olmv1.ClusterExtension, error) {
	if a.Name != "" {
		var extension olmv1.ClusterExtension
		if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, &extension); err != nil {
			return nil, NewNotFoundError(describeExtension(a.Name), "mainstay extension list", err)
		}
		return []olmv1.ClusterExtension{extension}, nil
	}

	var list olmv1.ClusterExtensionList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, NewServerError("clusterextensions", err)
	}
	return list.Items, nil
}
