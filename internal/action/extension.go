package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Choice says which bundle of a package is wanted. A nil field leaves things as they
// are, or as the API's default has them.
type Choice struct {
	// Version is a version or a range; "" is every version.
	Version *string
	// Channels limits the choice to bundles of these; empty is every channel.
	Channels *[]string
	// CatalogSelector is a label selector in the syntax of kubectl; "" is every catalog.
	CatalogSelector *string
	// SelfCertified allows updates beside the upgrade edges of the catalog.
	SelfCertified *bool
	// CRDUpgradeSafety is None when changes of CRDs are not checked, so that data can be
	// lost, and Strict when they are.
	CRDUpgradeSafety *olmv1.CRDUpgradeSafetyEnforcement
}

// apply writes the choice into the spec of an extension that comes from a catalog.
func (c Choice) apply(spec *olmv1.ClusterExtensionSpec) error {
	if c.CRDUpgradeSafety != nil {
		if spec.Install == nil {
			spec.Install = &olmv1.ClusterExtensionInstallConfig{}
		}
		spec.Install.Preflight = &olmv1.PreflightConfig{
			CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: *c.CRDUpgradeSafety},
		}
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

// empty reports whether the choice changes nothing.
func (c Choice) empty() bool { return c == Choice{} }

// ExtensionInstall installs a package of a catalog.
type ExtensionInstall struct {
	Client   client.Client
	Progress report.Progress

	// Package is the package to install.
	Package string
	// Name of the ClusterExtension. Empty means that of the package.
	Name string
	// Namespace is where the namespaced objects of the bundle go. Empty means the name
	// of the extension.
	Namespace string
	// CreateNamespace makes the namespace if it does not exist.
	CreateNamespace bool
	// ServiceAccount in Namespace that the objects are written as. Empty means the
	// operator-controller's own account.
	ServiceAccount string
	// WatchNamespace is the one namespace that the extension watches. Empty means all,
	// where the bundle can.
	WatchNamespace string
	// Dependencies says what happens when other packages or APIs are missing. Empty means
	// the default of the API, Block.
	Dependencies olmv1.DependencyPolicy
	// Rollback says what happens to an update that is late. Empty means the default, Never;
	// OnDeadline needs ProgressDeadlineMinutes.
	Rollback olmv1.RollbackPolicy
	// AccessRoles says which roles users get for the APIs of the bundle. Empty means the
	// default, None.
	AccessRoles olmv1.AccessRoles
	// ProgressDeadlineMinutes is how long a roll-out may take before it is late. Zero means
	// that it never is.
	ProgressDeadlineMinutes int32
	Choice                  Choice
	// Check, when not nil, has Run look at the plan before it creates anything.
	Check *PlanCheck
	// Wait, when not nil, has Run wait until the extension is installed.
	Wait *Wait
}

func (a *ExtensionInstall) name() string {
	if a.Name != "" {
		return a.Name
	}
	return a.Package
}

func (a *ExtensionInstall) namespace() string {
	if a.Namespace != "" {
		return a.Namespace
	}
	return a.name()
}

// Objects returns what Run creates, in that order: the namespace if it is asked for, and
// the ClusterExtension last.
func (a *ExtensionInstall) Objects() ([]client.Object, error) {
	extension := &olmv1.ClusterExtension{
		TypeMeta:   metav1.TypeMeta{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterExtensionKind},
		ObjectMeta: metav1.ObjectMeta{Name: a.name()},
		Spec: olmv1.ClusterExtensionSpec{
			Namespace: a.namespace(),
			Source: olmv1.SourceConfig{
				SourceType: olmv1.ExtensionSourceTypeCatalog,
				Catalog:    &olmv1.CatalogFilter{PackageName: a.Package},
			},
		},
	}
	if a.ServiceAccount != "" {
		extension.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: a.ServiceAccount}
	}

	if a.WatchNamespace != "" {
		inline, err := json.Marshal(map[string]string{"watchNamespace": a.WatchNamespace})
		if err != nil {
			return nil, fmt.Errorf("writing the configuration: %w", err)
		}
		extension.Spec.Config = &olmv1.ClusterExtensionConfig{
			ConfigType: olmv1.ExtensionConfigTypeInline,
			Inline:     &apiextensionsv1.JSON{Raw: inline},
		}
	}

	if a.ProgressDeadlineMinutes != 0 {
		extension.Spec.ProgressDeadlineMinutes = &a.ProgressDeadlineMinutes
	}

	extension.Spec.Install = a.installConfig()
	if err := a.Choice.apply(&extension.Spec); err != nil {
		return nil, &report.Error{Object: extensionName(a.name()), Err: err, Advice: "write the selector as kubectl has it: 'key=value,other in (a,b)'"}
	}
	if !a.CreateNamespace {
		return []client.Object{extension}, nil
	}

	return []client.Object{&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: a.namespace()},
	}, extension}, nil
}

// installConfig returns what differs from the API's defaults; nil when nothing does.
func (a *ExtensionInstall) installConfig() *olmv1.ClusterExtensionInstallConfig {
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

// Run creates the ClusterExtension and, if asked to, waits until it is installed. With a
// Check, it first has the controller plan the installation, and creates nothing when the plan
// is refused. It returns the extension as it is then, also beside an error of the wait.
func (a *ExtensionInstall) Run(ctx context.Context) (*olmv1.ClusterExtension, error) {
	objects, err := a.Objects()
	if err != nil {
		return nil, err
	}

	extension := objects[len(objects)-1].(*olmv1.ClusterExtension)
	exists, err := a.hasNamespace(ctx)
	if err != nil {
		return nil, err
	}

	if a.Check == nil {
		if err := a.createNamespace(ctx, exists); err != nil {
			return nil, err
		}
		if err := a.create(ctx, extension); err != nil {
			return nil, err
		}
	} else if err := a.createPlanned(ctx, extension, exists); err != nil {
		return nil, err
	}

	if a.Wait == nil {
		return extension, nil
	}

	report.OrQuiet(a.Progress).Done(extensionName(a.name()) + " created")
	return extension, waitForExtension(ctx, a.Client, a.Wait, a.Progress, extension)
}

func (a *ExtensionInstall) create(ctx context.Context, extension *olmv1.ClusterExtension) error {
	err := a.Client.Create(ctx, extension)
	if apierrors.IsAlreadyExists(err) {
		return &report.Error{
			Object: extensionName(a.name()), Err: &report.Reworded{Text: "it exists already", Cause: err},
			Advice: fmt.Sprintf("change it with 'mainstay extension upgrade %s', or choose another name with --name", a.name()),
		}
	}

	return serverError(extensionName(a.name()), err)
}

// createPlanned creates the extension to be planned only. When nothing stands against the
// plan, the namespace is created if it is asked for, and the extension becomes a real one;
// else it is deleted again.
func (a *ExtensionInstall) createPlanned(ctx context.Context, extension *olmv1.ClusterExtension, namespaceExists bool) error {
	metav1.SetMetaDataAnnotation(&extension.ObjectMeta, olmv1.AnnotationPlan, olmv1.PlanOnly)
	if err := a.create(ctx, extension); err != nil {
		return err
	}

	plan := &ExtensionPlan{Client: a.Client, Progress: a.Progress, Install: *a, SystemNamespace: a.Check.SystemNamespace}
	err := a.Check.awaitPlan(ctx, plan, extension, func(p PlanProblem) bool { return !namespaceExists && p.isMissingNamespace() })
	if err == nil {
		err = a.createNamespace(ctx, namespaceExists)
	}

	if err != nil {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		return errors.Join(err, plan.remove(after, extension))
	}

	return plan.realize(ctx, extension)
}

// hasNamespace reports whether the namespace exists. It fails when it does not and is not to
// be created: the extension would wait for it without an end.
func (a *ExtensionInstall) hasNamespace(ctx context.Context) (bool, error) {
	object := fmt.Sprintf("namespace %q", a.namespace())
	err := a.Client.Get(ctx, client.ObjectKey{Name: a.namespace()}, &corev1.Namespace{})
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsForbidden(err) && !a.CreateNamespace:
		// Who may not look may still install: the controller reports a missing one.
		return true, nil
	case !apierrors.IsNotFound(err):
		return false, serverError(object, err)
	case !a.CreateNamespace:
		return false, &report.Error{Object: object, Err: &report.Reworded{Text: "not found", Cause: err}, Advice: "create it, add --create-namespace, or choose another with --namespace"}
	}

	return false, nil
}

// createNamespace creates the namespace unless it exists.
func (a *ExtensionInstall) createNamespace(ctx context.Context, exists bool) error {
	if exists {
		return nil
	}

	object := fmt.Sprintf("namespace %q", a.namespace())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace()}}
	if err := a.Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return serverError(object, err)
	}

	report.OrQuiet(a.Progress).Done(object + " created")
	return nil
}

// ExtensionUpgrade changes which bundle of its package an extension wants.
type ExtensionUpgrade struct {
	Client   client.Client
	Progress report.Progress

	Name   string
	Choice Choice
	// Check, when not nil, has Run look at the plan before it changes anything.
	Check *PlanCheck
	// Wait, when not nil, has Run wait until the extension is as it is wanted.
	Wait *Wait
}

// Run changes the extension, unless the plan for that is refused, and, if asked to, waits until
// the wanted bundle is installed. It gives the extension as it then stands, and whether anything changed,
// also beside an error of the wait.
func (a *ExtensionUpgrade) Run(ctx context.Context) (extension *olmv1.ClusterExtension, changed bool, err error) {
	if a.Choice.empty() {
		return nil, false, &report.Error{
			Object: extensionName(a.Name), Err: errors.New("nothing to change"),
			Advice: "say what is wanted with --version, --channel, --catalog-selector, --self-certified or --crd-upgrade-safety; updates within the present choice are made without a command",
		}
	}

	extension = &olmv1.ClusterExtension{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, extension); err != nil {
		return nil, false, missing(extensionName(a.Name), "mainstay extension list", err)
	}
	if extension.Spec.Source.Catalog == nil {
		return nil, false, &report.Error{Object: extensionName(a.Name), Err: errors.New("it does not come from a catalog")}
	}

	before, err := patchChoice(ctx, a.Client, a.Progress, a.Check, extension, a.Choice)
	if err != nil {
		return nil, false, err
	}

	changed = extension.Generation != before.Generation
	if a.Wait == nil {
		return extension, changed, nil
	}

	return extension, changed, waitForExtension(ctx, a.Client, a.Wait, a.Progress, extension)
}

// ExtensionList lists the extensions of the cluster.
type ExtensionList struct {
	Client client.Client
	// Name limits the list to one extension. Empty means all.
	Name string
}

// Run returns the extensions, by name.
func (a *ExtensionList) Run(ctx context.Context) ([]olmv1.ClusterExtension, error) {
	if a.Name != "" {
		var extension olmv1.ClusterExtension
		if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, &extension); err != nil {
			return nil, missing(extensionName(a.Name), "mainstay extension list", err)
		}
		return []olmv1.ClusterExtension{extension}, nil
	}

	var list olmv1.ClusterExtensionList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, serverError("clusterextensions", err)
	}
	return list.Items, nil
}
