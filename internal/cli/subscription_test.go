package cli_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The commands run in the order in which a user would run them. The test writes what the controllers
// of OLM Classic would write, and PackageManifests are objects of a CRD: the commands only read them.
func TestSubscriptions(t *testing.T) {
	c := newFixture(t)
	c.Client = env.Client(t, appsv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme, operatorsv1.AddToScheme, v1alpha1.AddToScheme, packagesv1.AddToScheme)
	step := func(name, line string) {
		t.Helper()
		check(t, "subscription/"+name, command{line: words(line)})
	}

	step("help", "mainstay subscription --help")
	step("list-nothing", "mainstay subscription list -A")
	step("install-without-packages", "mainstay subscription install kettle -n olm-kettles --create-namespace")

	c.publishKettle()
	step("install-misspelt", "mainstay subscription install kettel -n olm-kettles --create-namespace")
	step("install-without-namespace", "mainstay subscription install kettle -n elsewhere")
	step("install-wrong-channel", "mainstay subscription install kettle -n olm-kettles --channel stabel")
	step("install-dry-run", "mainstay subscription install kettle -n olm-kettles --approval Manual --dry-run=client")
	step("install-unmonitored", "mainstay subscription install kettle -n olm-kettles --cluster-monitoring")
	c.publishPot()
	step("install-monitored", "mainstay subscription install pot -n openshift-pots --create-namespace --cluster-monitoring --dry-run=client")
	step("install", "mainstay subscription install kettle -n olm-kettles --approval Manual")
	step("list-unknown", "mainstay subscription list -n olm-kettles")

	c.createKettlePlan("install-abcde", "kettle.v1.1.0")
	step("list-approval", "mainstay subscription list -A -o wide")
	step("status-approval", "mainstay subscription status kettle -n olm-kettles")
	step("explain-approval", "mainstay subscription explain kettle -n olm-kettles")
	step("approve-dry-run", "mainstay subscription approve kettle -n olm-kettles --dry-run")
	step("approve", "mainstay subscription approve kettle -n olm-kettles")
	step("approve-again", "mainstay subscription approve kettle -n olm-kettles")

	c.failKettle()
	step("explain-crash", "mainstay subscription explain kettle -n olm-kettles")
	step("status-crash", "mainstay subscription status kettle -n olm-kettles")
	step("graph", "mainstay subscription graph kettle -n olm-kettles")
	step("upgrade-nothing", "mainstay subscription upgrade kettle -n olm-kettles")
	step("upgrade", "mainstay subscription upgrade kettle -n olm-kettles --channel beta")

	c.createKettlePlan("install-fghij", "kettle.v2.0.0")
	step("approve-update", "mainstay subscription approve kettle -n olm-kettles")
	step("uninstall-unconfirmed", "mainstay subscription uninstall kettle -n olm-kettles")
	step("uninstall", "mainstay subscription uninstall kettle -n olm-kettles --yes --wait")
	step("uninstall-again", "mainstay subscription uninstall kettle -n olm-kettles --yes")
}

// publishKettle creates the namespaces, the catalog and its package.
func (c *fixture) publishKettle() {
	c.T.Helper()
	ctx := c.T.Context()
	for _, name := range []string{"olm-kettles", "olm-catalogs"} {
		c.Must(c.Create(ctx, withName(&corev1.Namespace{}, name)))
	}

	catalog := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "olm-catalogs", Name: "home"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: "home:50051"}}
	c.Must(c.Create(ctx, catalog))
	catalog.Status.GRPCConnectionState = &v1alpha1.GRPCConnectionState{LastObservedState: "READY"}
	c.Must(c.Status().Update(ctx, catalog))

	c.Must(c.Create(ctx, builder.OpenCRD("packages.operators.coreos.com", "packagemanifests", "PackageManifest")))

	p := &packagesv1.PackageManifest{ObjectMeta: metav1.ObjectMeta{Namespace: "olm-kettles", Name: "kettle"}}
	p.Status.CatalogSource, p.Status.CatalogSourceNamespace = "home", "olm-catalogs"
	p.Status.PackageName, p.Status.DefaultChannel = "kettle", "stable"
	p.Status.Channels = []packagesv1.PackageChannel{
		{Name: "beta", CurrentCSV: "kettle.v2.0.0", Deprecation: &packagesv1.Deprecation{Message: "use stable"}, Entries: []packagesv1.ChannelEntry{{Name: "kettle.v2.0.0", Version: "2.0.0"}}},
		{Name: "stable", CurrentCSV: "kettle.v1.1.0", Entries: []packagesv1.ChannelEntry{{Name: "kettle.v1.1.0", Version: "1.1.0"}, {Name: "kettle.v1.0.0", Version: "1.0.0"}},
			CurrentCSVDesc: packagesv1.CSVDescription{InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}}}},
	}
	env.Eventually(c.T, "package kettle exists", func() error { return c.Create(ctx, p.DeepCopy()) })
}

// publishPot creates a package that requests cluster monitoring in a namespace that does not exist.
func (c *fixture) publishPot() {
	c.T.Helper()
	namespace := withName(&corev1.Namespace{}, "openshift-pots")
	c.Must(c.Create(c.T.Context(), namespace))
	p := &packagesv1.PackageManifest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "pot"}}
	p.Status.CatalogSource, p.Status.CatalogSourceNamespace = "home", "olm-catalogs"
	p.Status.PackageName, p.Status.DefaultChannel = "pot", "stable"
	p.Status.Channels = []packagesv1.PackageChannel{{
		Name: "stable", CurrentCSV: "pot.v1.0.0", Entries: []packagesv1.ChannelEntry{{Name: "pot.v1.0.0", Version: "1.0.0"}},
		CurrentCSVDesc: packagesv1.CSVDescription{Annotations: map[string]string{
			"operatorframework.io/cluster-monitoring":           "true",
			"operatorframework.io/suggested-namespace-template": `{"metadata":{"name":"openshift-pots","labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`,
		}},
	}}
	c.Must(c.Create(c.T.Context(), p))

	// package-server also serves the packages of a namespace that does not exist.
	c.Must(c.Delete(c.T.Context(), namespace))
	c.finalizeNamespace(namespace.Name)
}

// kettleSubscription returns the Subscription that the commands created.
func (c *fixture) kettleSubscription() *v1alpha1.Subscription {
	c.T.Helper()
	sub := &v1alpha1.Subscription{}
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Namespace: "olm-kettles", Name: "kettle"}, sub))
	return sub
}

// createKettlePlan creates an InstallPlan for a ClusterServiceVersion, which waits for an approval.
func (c *fixture) createKettlePlan(name, csv string) {
	c.T.Helper()
	ctx := c.T.Context()
	plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "olm-kettles", Name: name},
		Spec: v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{csv}}}
	c.Must(c.Create(ctx, plan))
	plan.Status = v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseRequiresApproval, CatalogSources: []string{}, Plan: []*v1alpha1.Step{
		{Resolving: csv, Status: v1alpha1.StepStatusUnknown, Resource: v1alpha1.StepResource{Kind: "CustomResourceDefinition", Name: "pots.example.com"}},
		{Resolving: csv, Status: v1alpha1.StepStatusUnknown, Resource: v1alpha1.StepResource{Kind: "ClusterRole", Name: "kettle"}},
	}}
	c.Must(c.Status().Update(ctx, plan))

	sub := c.kettleSubscription()
	sub.Status.State, sub.Status.CurrentCSV, sub.Status.LastUpdated = v1alpha1.SubscriptionStateUpgradePending, csv, metav1.Now()
	sub.Status.InstallPlanRef = &corev1.ObjectReference{Namespace: "olm-kettles", Name: plan.Name}
	c.Must(c.Status().Update(ctx, sub))
}

// failKettle creates the operator, whose Deployment does not exist.
func (c *fixture) failKettle() {
	c.T.Helper()
	ctx := c.T.Context()
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "olm-kettles", Name: "kettle.v1.1.0"}}
	csv.Spec.DisplayName, csv.Spec.Version = "Kettle", "1.1.0"
	csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
		DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: "kettle", Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kettle"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "kettle"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kettle", Image: "kettle"}}}},
		}}},
	}}
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "catalogsources.operators.coreos.com", Version: "v1alpha1", Kind: "CatalogSource"}}
	c.Must(c.Create(ctx, csv))
	csv.Status.Phase, csv.Status.Reason, csv.Status.Message = v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentUnhealthy, "installing: waiting for deployment kettle to become ready"
	csv.Status.RequirementStatus = []v1alpha1.RequirementStatus{{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "cups.example.com", Status: v1alpha1.RequirementNotPresent, Message: "CRD is not present"}}
	c.Must(c.Status().Update(ctx, csv))

	plan := &v1alpha1.InstallPlan{}
	c.Must(c.Get(ctx, client.ObjectKey{Namespace: "olm-kettles", Name: "install-abcde"}, plan))
	plan.Status.Phase = v1alpha1.InstallPlanPhaseComplete
	c.Must(c.Status().Update(ctx, plan))
	sub := c.kettleSubscription()
	sub.Status.InstalledCSV, sub.Status.State = csv.Name, v1alpha1.SubscriptionStateAtLatest
	c.Must(c.Status().Update(ctx, sub))
}
