package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Install subscribes to a package.
type Install struct {
	Client   client.Client
	Progress report.Progress

	// Package is the name of the package.
	Package string
	// Name is the name of the Subscription. Empty means the name of the package.
	Name string
	// Namespace is the namespace of the Subscription and the operator.
	Namespace string
	// CreateNamespace creates the namespace if it does not exist.
	CreateNamespace bool
	// ClusterMonitoring labels the created namespace for the monitoring of the cluster, and creates a Role and a RoleBinding
	// for its service account. It is refused unless the operator asks for it and the namespace is the recommended one.
	ClusterMonitoring bool
	// Catalog is the catalog, as NAME or NAMESPACE/NAME. Empty means the only one with the package.
	Catalog string
	// Channel is the channel. Empty means the default channel of the package.
	Channel string
	// StartingCSV is the version to install first. Empty means the newest one.
	StartingCSV string
	// Manual makes every install and upgrade wait for an approval.
	Manual bool
	// WatchNamespaces are the namespaces that the operator watches. Empty means all namespaces if
	// the operator supports that, and otherwise its own. They are set in the OperatorGroup, and
	// must be empty if the namespace has one already.
	WatchNamespaces []string
	// Config is the configuration of the operator's pods. Nil means none. The API server validates the
	// configuration before anything is created.
	Config *v1alpha1.SubscriptionConfig
	// Env are environment variables of the operator, such as those for short-lived credentials of a cloud. They are
	// added to those of Config.
	Env []corev1.EnvVar
	// Base has the metadata of the Subscription that no other field sets: labels, annotations, finalizers and owner
	// references. Nil means none. The API server validates them before anything is created.
	Base *v1alpha1.Subscription
	// Wait, if not nil, makes Run wait until the operator runs.
	Wait *action.Wait
}

func (a *Install) subscriptionName() string {
	if a.Name != "" {
		return a.Name
	}
	return a.Package
}

func (a *Install) describeTarget() string {
	return describeSubscription(a.Namespace, a.subscriptionName())
}

// Objects returns the objects that Run creates, in order: the namespace if it is missing, with the
// roles of cluster monitoring if it is requested, the OperatorGroup if the namespace has none, and the Subscription last. It reads the package and the
// OperatorGroups from the cluster, and writes nothing.
func (a *Install) Objects(ctx context.Context) ([]client.Object, error) {
	exists, err := a.checkNamespace(ctx)
	if err != nil {
		return nil, err
	}

	pkg, err := a.packageLookup().findPackage(ctx)
	if err != nil {
		return nil, err
	}
	channel, err := a.findChannel(pkg)
	if err != nil {
		return nil, err
	}

	if err := refuseModes(channel); err != nil {
		return nil, &report.Error{Object: a.describeTarget(), Err: err, Advice: "choose another channel with --channel: " + strings.Join(channelNames(pkg), ", ")}
	}

	if err := a.checkProviders(ctx, pkg, channel); err != nil {
		return nil, err
	}

	if a.ClusterMonitoring {
		if refusal := decideMonitoring(channel, a.Namespace, exists); refusal.reason != "" {
			return nil, &report.Error{Object: a.describeTarget(), Err: errors.New(refusal.reason), Advice: refusal.advice}
		}
	}

	var objects []client.Object
	if !exists {
		objects = newNamespaceObjects(a.Namespace, channel, a.ClusterMonitoring)
	}

	var groups operatorsv1.OperatorGroupList
	if err := a.Client.List(ctx, &groups, client.InNamespace(a.Namespace)); err != nil {
		return nil, action.NewServerError("operatorgroups of namespace "+a.Namespace, err)
	}

	group, err := a.decideGroup(groups.Items, channel)
	if err != nil {
		return nil, &report.Error{Object: a.describeTarget(), Err: err, Advice: groupAdvice(a.Namespace)}
	}
	if group != nil {
		objects = append(objects, group)
	}

	return append(objects, a.newSubscription(pkg, channel)), nil
}

func groupAdvice(namespace string) string {
	return fmt.Sprintf("choose another namespace with --namespace, or see the OperatorGroup with 'kubectl get operatorgroups -n %s -o yaml'", namespace)
}

// checkNamespace reports whether the namespace exists. A missing one is an error unless it is to
// be created.
func (a *Install) checkNamespace(ctx context.Context) (bool, error) {
	object := fmt.Sprintf("namespace %q", a.Namespace)
	err := a.Client.Get(ctx, client.ObjectKey{Name: a.Namespace}, &corev1.Namespace{})
	switch {
	case err == nil, apierrors.IsForbidden(err): // The user of one namespace may not read it, but may install.
		return true, nil
	case !apierrors.IsNotFound(err):
		return false, action.NewServerError(object, err)
	case !a.CreateNamespace:
		return false, &report.Error{Object: object, Err: &report.Reworded{Text: "not found", Cause: err}, Advice: "create it, add --create-namespace, or choose another with --namespace"}
	}
	return false, nil
}

// packageLookup returns the lookup of the package to install.
func (a *Install) packageLookup() packageLookup {
	return packageLookup{client: a.Client, namespace: a.Namespace, name: a.Package, catalog: a.Catalog}
}

// findChannel returns the channel that is chosen. The version to start with must be one of its
// entries.
func (a *Install) findChannel(p *packagesv1.PackageManifest) (*packagesv1.PackageChannel, error) {
	name := a.Channel
	if name == "" {
		name = p.Status.DefaultChannel
	}

	channel, err := channelOf(p, name)
	if err != nil {
		return nil, err
	}

	isStart := func(e packagesv1.ChannelEntry) bool { return e.Name == a.StartingCSV }
	if a.StartingCSV != "" && !slices.ContainsFunc(channel.Entries, isStart) {
		return nil, &report.Error{Object: fmt.Sprintf("package %q", p.Name), Err: fmt.Errorf("channel %q does not contain %s", name, a.StartingCSV),
			Advice: fmt.Sprintf("'mainstay subscription graph %s -n %s' lists the versions of each channel", p.Name, a.Namespace)}
	}

	return channel, nil
}

// decideGroup returns the OperatorGroup to create, or nil if the namespace has one. It returns an
// error if an operator of the channel cannot run in the namespace.
func (a *Install) decideGroup(groups []operatorsv1.OperatorGroup, channel *packagesv1.PackageChannel) (*operatorsv1.OperatorGroup, error) {
	modes := supportedModes(channel)
	switch {
	case len(groups) > 1:
		return nil, fmt.Errorf("namespace %s has %d OperatorGroups, but only one is allowed", a.Namespace, len(groups))
	case len(groups) == 1 && len(a.WatchNamespaces) > 0:
		return nil, fmt.Errorf("namespace %s has OperatorGroup %s, which states the watched namespaces already", a.Namespace, groups[0].Name)
	case len(groups) == 1:
		if mode := modeOf(&groups[0]); len(modes) > 0 && !slices.Contains(modes, mode) {
			return nil, fmt.Errorf("OperatorGroup %s asks for install mode %s, but %s supports only %s", groups[0].Name, mode, channel.CurrentCSV, joinModes(modes))
		}
		return nil, nil
	}

	targets := a.WatchNamespaces
	if len(targets) == 0 && len(modes) > 0 && !slices.Contains(modes, v1alpha1.InstallModeTypeAllNamespaces) {
		targets = []string{a.Namespace}
	}

	group := &operatorsv1.OperatorGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: operatorsv1.GroupVersion.String(), Kind: operatorsv1.OperatorGroupKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.subscriptionName()},
		Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: targets},
	}
	if mode := modeOf(group); len(modes) > 0 && !slices.Contains(modes, mode) {
		return nil, fmt.Errorf("watching %s needs install mode %s, but %s supports only %s", describeTargets(targets), mode, channel.CurrentCSV, joinModes(modes))
	}

	return group, nil
}

// modeOf returns the install mode that an OperatorGroup asks for.
func modeOf(group *operatorsv1.OperatorGroup) v1alpha1.InstallModeType {
	targets := group.Spec.TargetNamespaces
	switch {
	case len(targets) == 0 && group.Spec.Selector == nil:
		return v1alpha1.InstallModeTypeAllNamespaces
	case len(targets) == 1 && targets[0] == group.Namespace:
		return v1alpha1.InstallModeTypeOwnNamespace
	case len(targets) == 1:
		return v1alpha1.InstallModeTypeSingleNamespace
	default:
		return v1alpha1.InstallModeTypeMultiNamespace
	}
}

// supportedModes returns the install modes of the newest version of a channel.
func supportedModes(channel *packagesv1.PackageChannel) []v1alpha1.InstallModeType {
	var modes []v1alpha1.InstallModeType
	for _, m := range channel.CurrentCSVDesc.InstallModes {
		if m.Supported {
			modes = append(modes, m.Type)
		}
	}
	return modes
}

// refuseModes returns an error if the newest version of a channel declares its install modes, and supports
// none of them.
func refuseModes(channel *packagesv1.PackageChannel) error {
	if len(channel.CurrentCSVDesc.InstallModes) == 0 || len(supportedModes(channel)) > 0 {
		return nil
	}
	return fmt.Errorf("%s supports no install mode", channel.CurrentCSV)
}

// checkProviders returns an error if another operator of the namespace provides an API of the newest
// version of a channel. OLM would install nothing then. A ClusterServiceVersion of the package itself is
// adopted, and copies belong to other namespaces.
func (a *Install) checkProviders(ctx context.Context, pkg *packagesv1.PackageManifest, channel *packagesv1.PackageChannel) error {
	notCopied, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil)
	if err != nil {
		return err
	}

	var csvs v1alpha1.ClusterServiceVersionList
	err = a.Client.List(ctx, &csvs, client.InNamespace(a.Namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*notCopied)})
	switch {
	case apierrors.IsForbidden(err):
		return nil // OLM reports it later
	case err != nil:
		return action.NewServerError("clusterserviceversions of namespace "+a.Namespace, err)
	}

	for i := range csvs.Items {
		csv := &csvs.Items[i]
		kinds := sharedKinds(csv, channel)
		if len(kinds) == 0 || isEntry(pkg, csv.Name) {
			continue
		}
		return &report.Error{
			Object: a.describeTarget(), Err: fmt.Errorf("%s of namespace %s provides %s already", csv.Name, a.Namespace, strings.Join(kinds, ", ")),
			Advice: "choose another namespace with --namespace, or uninstall the other operator",
		}
	}
	return nil
}

// sharedKinds returns the kinds of CRDs that both a ClusterServiceVersion and the newest version of a
// channel own.
func sharedKinds(csv *v1alpha1.ClusterServiceVersion, channel *packagesv1.PackageChannel) []string {
	var kinds []string
	for _, own := range csv.Spec.CustomResourceDefinitions.Owned {
		isSame := func(offered v1alpha1.CRDDescription) bool { return offered.Name == own.Name }
		if slices.ContainsFunc(channel.CurrentCSVDesc.CustomResourceDefinitions.Owned, isSame) && !slices.Contains(kinds, own.Kind) {
			kinds = append(kinds, own.Kind)
		}
	}
	return kinds
}

// isEntry reports whether a ClusterServiceVersion is an entry of a package.
func isEntry(pkg *packagesv1.PackageManifest, name string) bool {
	return slices.ContainsFunc(pkg.Status.Channels, func(c packagesv1.PackageChannel) bool {
		return slices.ContainsFunc(c.Entries, func(e packagesv1.ChannelEntry) bool { return e.Name == name })
	})
}

func joinModes(modes []v1alpha1.InstallModeType) string {
	var names []string
	for _, m := range modes {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func describeTargets(targets []string) string {
	if len(targets) == 0 {
		return "all namespaces"
	}
	return "namespaces " + strings.Join(targets, ", ")
}

func (a *Install) newSubscription(p *packagesv1.PackageManifest, channel *packagesv1.PackageChannel) *v1alpha1.Subscription {
	approval := v1alpha1.ApprovalAutomatic
	if a.Manual {
		approval = v1alpha1.ApprovalManual
	}

	sub := &v1alpha1.Subscription{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.subscriptionName()},
		Spec: v1alpha1.SubscriptionSpec{
			CatalogSource: p.Status.CatalogSource, CatalogSourceNamespace: p.Status.CatalogSourceNamespace, Package: a.Package,
			Channel: channel.Name, StartingCSV: a.StartingCSV, InstallPlanApproval: approval,
		},
	}
	sub.Spec.Config = a.newConfig()
	if a.Base != nil {
		base := a.Base.DeepCopy()
		sub.Labels, sub.Annotations, sub.Finalizers, sub.OwnerReferences = base.Labels, base.Annotations, base.Finalizers, base.OwnerReferences
	}
	return sub
}

// newConfig returns the configuration of the operator with all environment variables, or nil if there is none.
func (a *Install) newConfig() *v1alpha1.SubscriptionConfig {
	if len(a.Env) == 0 {
		return a.Config
	}

	config := &v1alpha1.SubscriptionConfig{}
	if a.Config != nil {
		config = a.Config.DeepCopy()
	}
	config.Env = append(config.Env, a.Env...)
	return config
}

// checkObjects returns an error if the Subscription exists already, or if the API server refuses what a person wrote in it or
// the objects of cluster monitoring.
// The objects are those of Objects.
func (a *Install) checkObjects(ctx context.Context, objects []client.Object) error {
	sub := objects[len(objects)-1].(*v1alpha1.Subscription)
	if err := checkAbsent(ctx, a.Client, sub); err != nil {
		return err
	}

	if a.ClusterMonitoring {
		if err := checkMonitoringObjects(ctx, a.Client, objects); err != nil {
			return err
		}
	}

	_, createsNamespace := objects[0].(*corev1.Namespace)
	return a.checkFields(ctx, sub, createsNamespace)
}

// checkFields has the API server validate the configuration and the metadata of the Subscription. A namespace
// that is not created yet has no objects, so the dry run uses the namespace of the catalog then, where not every
// user may create Subscriptions.
func (a *Install) checkFields(ctx context.Context, sub *v1alpha1.Subscription, createsNamespace bool) error {
	if a.Config == nil && a.Base == nil {
		return nil
	}

	asked := sub.DeepCopy()
	asked.Name, asked.GenerateName = "", sub.Name+"-"
	if createsNamespace {
		asked.Namespace = sub.Spec.CatalogSourceNamespace
	}
	err := a.Client.Create(ctx, asked, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if createsNamespace && apierrors.IsForbidden(err) {
		return nil // the creation reports what is wrong
	}
	return action.NewServerError(a.describeTarget(), err)
}

// checkAbsent returns an error if the Subscription exists already.
func checkAbsent(ctx context.Context, c client.Client, sub *v1alpha1.Subscription) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(sub), &v1alpha1.Subscription{}); err != nil {
		return nil //nolint:nilerr // its creation reports the error
	}
	return &report.Error{Object: describeSubscription(sub.Namespace, sub.Name), Err: errors.New("it exists already"),
		Advice: fmt.Sprintf("change it with 'mainstay subscription upgrade %s -n %s', or choose another name with --name", sub.Name, sub.Namespace)}
}

// Run creates the objects and waits if requested. It returns the Subscription, also together with
// an error of the wait. If an object is refused, those that were created before are removed again.
func (a *Install) Run(ctx context.Context) (*v1alpha1.Subscription, error) {
	objects, err := a.Objects(ctx)
	if err != nil {
		return nil, err
	}

	sub := objects[len(objects)-1].(*v1alpha1.Subscription)
	if err := a.checkObjects(ctx, objects); err != nil {
		return nil, err
	}

	for i, object := range objects {
		text := action.DescribeKindAndName(object)
		if err := a.Client.Create(ctx, object); err != nil {
			return nil, errors.Join(action.NewServerError(text, err), action.DeleteCreated(ctx, a.Client, objects[:i]))
		}
		report.OrQuiet(a.Progress).Done(text + " created")
	}

	if a.Wait == nil {
		return sub, nil
	}

	return sub, waitUntilReady(ctx, a.Client, a.Wait, a.Progress, sub)
}
