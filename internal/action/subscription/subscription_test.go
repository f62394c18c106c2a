package subscription

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture is a namespace with the package kettle in a catalog. PackageManifests are objects of a
// CRD here, because the actions only read them. The tests write the statuses that
// the controllers of OLM Classic would write.
type fixture struct {
	*env.Fixture
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		operatorsv1.AddToScheme, v1alpha1.AddToScheme, packagesv1.AddToScheme)}
	f.namespace = f.NewNamespace("kettles-")
	crd := builder.OpenCRD("packages.operators.coreos.com", "packagemanifests", "PackageManifest")
	f.Must(client.IgnoreAlreadyExists(f.Create(t.Context(), crd)))
	f.Eventually("package kettle exists", func() error { return client.IgnoreAlreadyExists(f.Create(t.Context(), newPackage(f.namespace))) })
	return f
}

// newPackage returns a package whose operator supports all install modes but MultiNamespace.
func newPackage(namespace string) *packagesv1.PackageManifest {
	p := &packagesv1.PackageManifest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kettle"}}
	p.Status.CatalogSource, p.Status.CatalogSourceNamespace = "home", "olm"
	p.Status.PackageName, p.Status.DefaultChannel = "kettle", "stable"
	p.Status.Channels = []packagesv1.PackageChannel{
		{Name: "beta", CurrentCSV: "kettle.v2.0.0", Entries: []packagesv1.ChannelEntry{{Name: "kettle.v2.0.0", Version: "2.0.0"}}},
		{Name: "stable", CurrentCSV: "kettle.v1.1.0", Entries: []packagesv1.ChannelEntry{{Name: "kettle.v1.1.0", Version: "1.1.0"}, {Name: "kettle.v1.0.0", Version: "1.0.0"}},
			CurrentCSVDesc: packagesv1.CSVDescription{
				InstallModes: []v1alpha1.InstallMode{
					{Type: v1alpha1.InstallModeTypeAllNamespaces}, {Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}, {Type: v1alpha1.InstallModeTypeSingleNamespace, Supported: true},
				},
				CustomResourceDefinitions: v1alpha1.CustomResourceDefinitions{Owned: []v1alpha1.CRDDescription{{Name: "kettles.example.com", Kind: "Kettle", Version: "v1"}}},
			}},
	}
	return p
}

func (f *fixture) install(edit func(*Install)) (*v1alpha1.Subscription, error) {
	a := &Install{Client: f.Client, Package: "kettle", Namespace: f.namespace}
	if edit != nil {
		edit(a)
	}
	return a.Run(f.T.Context())
}

func TestInstallChoosesChannelAndGroup(t *testing.T) {
	f := newFixture(t)
	sub, err := f.install(func(a *Install) { a.Manual = true })
	f.Must(err)
	if s := sub.Spec; s.Channel != "stable" || s.CatalogSource != "home" || s.CatalogSourceNamespace != "olm" || s.InstallPlanApproval != v1alpha1.ApprovalManual {
		t.Errorf("got the Subscription %+v", s)
	}

	group := &operatorsv1.OperatorGroup{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "kettle"}, group))
	if targets := group.Spec.TargetNamespaces; len(targets) != 1 || targets[0] != f.namespace {
		t.Errorf("got the targets %v of an operator that does not support all namespaces", targets)
	}

	_, err = f.install(nil)
	if err == nil || !strings.Contains(err.Error(), "it exists already") || !strings.Contains(report.AdviceOf(err), "mainstay subscription upgrade kettle") {
		t.Errorf("the second installation: got error %v", err)
	}
}

func TestInstallRefusesBeforeItCreatesAnything(t *testing.T) {
	f := newFixture(t)
	p := &packagesv1.PackageManifest{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "kettle"}, p))
	p.Status.Channels = append(p.Status.Channels, packagesv1.PackageChannel{
		Name: "modeless", CurrentCSV: "kettle.v0.1.0", CurrentCSVDesc: packagesv1.CSVDescription{InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces}}},
	})
	f.Must(f.Update(t.Context(), p))

	for _, tc := range []struct {
		name, want, advice string
		edit               func(*Install)
	}{
		{"package", "no catalog", "kubectl get packagemanifests", func(a *Install) { a.Package = "kettel" }},
		{"channel", `no channel "stabel"`, "beta, stable", func(a *Install) { a.Channel = "stabel" }},
		{"version", "does not contain kettle.v3.0.0", "mainstay subscription graph", func(a *Install) { a.StartingCSV = "kettle.v3.0.0" }},
		{"catalog", "catalog other does not contain it", "olm/home", func(a *Install) { a.Catalog = "other" }},
		{"namespace", "not found", "--create-namespace", func(a *Install) { a.Namespace = f.namespace + "-x" }},
		{"no mode", "kettle.v0.1.0 supports no install mode", "choose another channel", func(a *Install) { a.Channel = "modeless" }},
		{"mode", "needs install mode MultiNamespace", "choose another namespace", func(a *Install) { a.WatchNamespaces = []string{"a", "b"} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := f.install(tc.edit)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(report.AdviceOf(err), tc.advice) {
				t.Errorf("got error %v, advice %q", err, report.AdviceOf(err))
			}
		})
	}

	var subs v1alpha1.SubscriptionList
	var groups operatorsv1.OperatorGroupList
	f.Must(errors.Join(f.List(t.Context(), &subs, client.InNamespace(f.namespace)), f.List(t.Context(), &groups, client.InNamespace(f.namespace))))
	if len(subs.Items)+len(groups.Items) > 0 {
		t.Errorf("got %d Subscriptions and %d OperatorGroups of refused installations, want none", len(subs.Items), len(groups.Items))
	}
}

// An operator that provides an API of the package refuses its installation, unless it is of the package itself or a copy.
func TestInstallRefusesAProviderOfTheSameAPI(t *testing.T) {
	for _, tc := range []struct {
		name, csv string
		labels    map[string]string
		isRefused bool
	}{
		{name: "another operator", csv: "pot.v1.0.0", isRefused: true},
		{name: "copy", csv: "pot.v1.0.0", labels: map[string]string{"olm.copiedFrom": "elsewhere"}},
		{name: "same package", csv: "kettle.v1.0.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: tc.csv, Labels: tc.labels}}
			csv.Spec.DisplayName, csv.Spec.InstallStrategy.StrategyName = "Pot", "deployment"
			csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "kettles.example.com", Kind: "Kettle", Version: "v1"}}
			f.CreateAll(csv)

			_, err := (&Install{Client: f.Client, Package: "kettle", Namespace: f.namespace}).Preview(t.Context())
			if !tc.isRefused {
				f.Must(err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), "pot.v1.0.0 of namespace "+f.namespace+" provides Kettle already") {
				t.Errorf("got %v, want that another operator provides the API", err)
			}
		})
	}
}

// setPlan creates the InstallPlan of a Subscription in a phase.
func (f *fixture) setPlan(sub *v1alpha1.Subscription, phase v1alpha1.InstallPlanPhase) *v1alpha1.InstallPlan {
	f.T.Helper()
	ctx := f.T.Context()
	plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "install-abcde"},
		Spec: v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{"kettle.v1.1.0"}}}
	f.Must(f.Create(ctx, plan))
	plan.Status = v1alpha1.InstallPlanStatus{Phase: phase, CatalogSources: []string{}, Plan: []*v1alpha1.Step{
		{Resolving: "kettle.v1.1.0", Status: v1alpha1.StepStatusUnknown, Resource: v1alpha1.StepResource{Kind: "CustomResourceDefinition", Name: "kettles.example.com"}},
		{Resolving: "kettle.v1.1.0", Status: v1alpha1.StepStatusUnknown, Resource: v1alpha1.StepResource{Kind: "ClusterRole", Name: "kettle"}},
	}}
	f.Must(f.Status().Update(ctx, plan))
	sub.Status = v1alpha1.SubscriptionStatus{
		State: v1alpha1.SubscriptionStateUpgradePending, CurrentCSV: "kettle.v1.1.0", LastUpdated: metav1.Now(),
		InstallPlanRef: &corev1.ObjectReference{Namespace: f.namespace, Name: plan.Name},
	}
	f.Must(f.Status().Update(ctx, sub))
	return plan
}

// createCatalog creates the catalog of the package, which is served.
func (f *fixture) createCatalog() {
	f.T.Helper()
	f.EnsureNamespace("olm")
	catalog := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "olm", Name: "home"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: "home:50051"}}
	f.Must(client.IgnoreAlreadyExists(f.Create(f.T.Context(), catalog)))
	f.Must(f.Get(f.T.Context(), client.ObjectKeyFromObject(catalog), catalog))
	catalog.Status.GRPCConnectionState = &v1alpha1.GRPCConnectionState{LastObservedState: "READY"}
	f.Must(f.Status().Update(f.T.Context(), catalog))
}

func TestApproveShowsThePlanAndApprovesIt(t *testing.T) {
	f := newFixture(t)
	f.createCatalog()
	sub, err := f.install(nil)
	f.Must(err)

	approve := &Approve{Client: f.Client, Namespace: f.namespace, Name: "kettle"}
	if _, err := approve.Preview(t.Context()); err == nil || !strings.Contains(err.Error(), "no InstallPlan waits") {
		t.Errorf("without a plan: got error %v", err)
	}

	plan := f.setPlan(sub, v1alpha1.InstallPlanPhaseRequiresApproval)
	summaries, err := (&List{Client: f.Client, Namespace: f.namespace}).Run(t.Context())
	f.Must(err)
	if len(summaries) != 1 || summaries[0].State != StateAwaitingApproval {
		t.Errorf("got the list %+v", summaries)
	}

	shown, err := approve.Preview(t.Context())
	f.Must(err)
	if len(shown.CRDs) != 1 || len(shown.Objects) != 1 || shown.Objects[0] != (KindCount{"ClusterRole", 1}) || shown.Operators[0] != "kettle.v1.1.0" {
		t.Errorf("got the plan %+v", shown)
	}

	// A plan that changes after the preview is not approved.
	changed := plan.DeepCopy()
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(plan), changed))
	changed.Spec.ClusterServiceVersionNames = []string{"kettle.v9.0.0"}
	f.Must(f.Update(t.Context(), changed))
	if _, err := approve.Run(t.Context(), shown); !apierrors.IsConflict(err) {
		t.Errorf("a changed plan: got error %v, want a refusal", err)
	}

	// A plan whose status only its controller has changed is approved.
	shown, err = approve.Preview(t.Context())
	f.Must(err)
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(plan), changed))
	changed.Status.Message = "it waits"
	f.Must(f.Status().Update(t.Context(), changed))
	_, err = approve.Run(t.Context(), shown)
	f.Must(err)
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(plan), plan))
	if !plan.Spec.Approved {
		t.Error("the plan is not approved")
	}
}

func TestUpgradeChecksTheChannel(t *testing.T) {
	f := newFixture(t)
	_, err := f.install(nil)
	f.Must(err)
	upgrade := func(channel string) (bool, error) {
		_, changed, err := (&Upgrade{Client: f.Client, Namespace: f.namespace, Name: "kettle", Channel: channel}).Run(t.Context())
		return changed, err
	}
	if _, err := upgrade("betta"); err == nil || !strings.Contains(report.AdviceOf(err), "beta, stable") {
		t.Errorf("an unknown channel: got error %v", err)
	}
	for channel, want := range map[string]bool{"stable": false} {
		if changed, err := upgrade(channel); err != nil || changed != want {
			t.Errorf("channel %s: got changed %v, error %v", channel, changed, err)
		}
	}
	if changed, err := upgrade("beta"); err != nil || !changed {
		t.Errorf("channel beta: got changed %v, error %v", changed, err)
	}

	versions, err := (&Graph{Client: f.Client, Namespace: f.namespace, Name: "kettle"}).Run(t.Context())
	f.Must(err)
	if len(versions.Channels) != 2 || !versions.Channels[0].Subscribed || !versions.Channels[1].Default || !versions.Channels[1].Versions[0].Head {
		t.Errorf("got the versions %+v", versions)
	}
}

// labelingClient labels an object before each patch, as olm-operator may.
type labelingClient struct{ client.Client }

func (c labelingClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"operators.coreos.com/kettle":""}}}`))
	if err := c.Client.Patch(ctx, object.DeepCopyObject().(client.Object), label); err != nil {
		return err
	}
	return c.Client.Patch(ctx, object, patch, options...)
}

func TestUpgradeIgnoresConcurrentLabel(t *testing.T) {
	f := newFixture(t)
	_, err := f.install(nil)
	f.Must(err)
	upgrade := &Upgrade{Client: labelingClient{f.Client}, Namespace: f.namespace, Name: "kettle", Approval: v1alpha1.ApprovalManual}
	sub, changed, err := upgrade.Run(t.Context())
	f.Must(err)
	if _, labeled := sub.Labels["operators.coreos.com/kettle"]; !changed || !labeled || sub.Spec.InstallPlanApproval != v1alpha1.ApprovalManual {
		t.Errorf("got changed %t, labels %v, approval %s; want true, the label and Manual", changed, sub.Labels, sub.Spec.InstallPlanApproval)
	}
}

// installWithPot returns a Subscription whose operator owns a CRD with a custom resource.
func (f *fixture) installWithPot(plural, kind string) (sub *v1alpha1.Subscription, csv *v1alpha1.ClusterServiceVersion, pot *unstructured.Unstructured) {
	f.T.Helper()
	ctx := f.T.Context()
	crd := builder.OpenCRD("kettles.example.com", plural, kind)
	f.Must(f.Create(ctx, crd))
	pot = &unstructured.Unstructured{}
	pot.SetAPIVersion("kettles.example.com/v1")
	pot.SetKind(kind)
	pot.SetNamespace(f.namespace)
	pot.SetName("mine")
	f.Eventually("a custom resource exists", func() error { return f.Create(ctx, pot.DeepCopy()) })

	sub, err := f.install(nil)
	f.Must(err)
	csv = &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kettle.v1.1.0"}}
	csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{}}}
	csv.Spec.DisplayName = "Kettle"
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: crd.Name, Version: "v1", Kind: kind}}
	f.Must(f.Create(ctx, csv))
	sub.Status = v1alpha1.SubscriptionStatus{InstalledCSV: csv.Name, CurrentCSV: csv.Name, LastUpdated: metav1.Now()}
	f.Must(f.Status().Update(ctx, sub))
	return sub, csv, pot
}

// Custom resources are deleted before the operator, which removes their finalizers.
func TestUninstallDeletesCustomResourcesFirst(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	sub, csv, lid := f.installWithPot("lids", "Lid")
	f.Must(f.Get(ctx, client.ObjectKeyFromObject(lid), lid))
	lid.SetFinalizers([]string{"example.com/keep"})
	f.Must(f.Update(ctx, lid))

	uninstall := &Uninstall{Client: f.Client, Namespace: f.namespace, Name: "kettle", DeleteCRDs: true, DeleteCustomResources: true}
	removal, err := uninstall.Preview(ctx)
	f.Must(err)
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- uninstall.Run(waiting, removal) }()
	f.Eventually("the custom resource is being deleted", func() error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(lid), lid); err != nil || lid.GetDeletionTimestamp() != nil {
			return err
		}
		return errors.New("it is not")
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("got no error, want that a custom resource still exists")
	}
	f.Must(errors.Join(f.Get(ctx, client.ObjectKeyFromObject(csv), csv), f.Get(ctx, client.ObjectKeyFromObject(sub), sub)))

	lid.SetFinalizers(nil)
	f.Must(f.Update(ctx, lid))
	f.Must(uninstall.Run(ctx, removal))
	for _, object := range []client.Object{lid, csv, sub} {
		if err := f.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T still exists: %v", object, err)
		}
	}
}

func TestUninstallKeepsCustomResources(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	sub, csv, pot := f.installWithPot("pots", "Pot")
	uninstall := &Uninstall{Client: f.Client, Namespace: f.namespace, Name: "kettle", DeleteCRDs: true}
	removal, err := uninstall.Preview(ctx)
	f.Must(err)
	if removal.CustomResources() != 1 || removal.CSV == nil || removal.CRDs[0].Namespaces[0] != f.namespace {
		t.Errorf("got the preview %+v", removal)
	}
	if err := uninstall.Run(ctx, removal); !errors.Is(err, action.ErrCustomResources) {
		t.Errorf("custom resources that would be lost: got error %v", err)
	}
	f.Must(f.Get(ctx, client.ObjectKeyFromObject(sub), sub))

	uninstall.DeleteCRDs, uninstall.Wait = false, &action.Wait{}
	f.Must(uninstall.Run(ctx, removal))
	for _, object := range []client.Object{sub, csv} {
		if err := f.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T still exists: %v", object, err)
		}
	}
	f.Must(f.Get(ctx, client.ObjectKeyFromObject(pot), pot))
}

// Until an upgrade is complete, the replaced version runs too.
func TestUninstallDuringUpgrade(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	sub, err := f.install(nil)
	f.Must(err)

	created := map[string]*v1alpha1.ClusterServiceVersion{}
	for _, v := range []struct{ name, replaces string }{{"kettle.v1.0.0", ""}, {"kettle.v1.1.0", "kettle.v1.0.0"}, {"teapot.v1.0.0", ""}} {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: v.name}}
		csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{}}}
		csv.Spec.DisplayName, csv.Spec.Replaces = "Kettle", v.replaces
		f.Must(f.Create(ctx, csv))
		created[v.name] = csv
	}
	sub.Status = v1alpha1.SubscriptionStatus{InstalledCSV: "kettle.v1.1.0", CurrentCSV: "kettle.v1.1.0", LastUpdated: metav1.Now()}
	f.Must(f.Status().Update(ctx, sub))

	uninstall := &Uninstall{Client: f.Client, Namespace: f.namespace, Name: "kettle", Wait: &action.Wait{}}
	removal, err := uninstall.Preview(ctx)
	f.Must(err)
	f.Must(uninstall.Run(ctx, removal))
	for name, wantGone := range map[string]bool{"kettle.v1.0.0": true, "kettle.v1.1.0": true, "teapot.v1.0.0": false} {
		err := f.Get(ctx, client.ObjectKeyFromObject(created[name]), created[name])
		if got := apierrors.IsNotFound(err); got != wantGone {
			t.Errorf("%s: got deleted %t (error %v), want %t", name, got, err, wantGone)
		}
	}
}

func TestStatusShowsTheOperator(t *testing.T) {
	f := newFixture(t)
	f.createCatalog()
	sub, err := f.install(nil)
	f.Must(err)
	f.setPlan(sub, v1alpha1.InstallPlanPhaseInstalling)
	tree, err := (&Status{Client: f.Client, Namespace: f.namespace, Name: "kettle"}).Run(t.Context())
	f.Must(err)
	if tree.State != StateInstalling || tree.Plan == nil || tree.Plan.Steps != 2 || tree.Catalog != "olm/home" || tree.Operator != nil {
		t.Errorf("got the status %+v", tree)
	}

	e, err := (&Explain{Client: f.Client, Namespace: f.namespace, Name: "kettle"}).Run(t.Context())
	f.Must(err)
	if !strings.Contains(e.Summary, "install-abcde") {
		t.Errorf("got the explanation %+v", e)
	}
}

// A Subscription is found by the name of its package if no other name matches.
func TestNamesOfPackagesAreAccepted(t *testing.T) {
	f := newFixture(t)
	_, err := f.install(func(a *Install) { a.Name = "my-kettle" })
	f.Must(err)
	sub, err := getSubscription(context.Background(), f.Client, f.namespace, "kettle")
	if err != nil || sub.Name != "my-kettle" {
		t.Errorf("found %v, %v", sub, err)
	}
	_, err = getSubscription(context.Background(), f.Client, f.namespace, "pot")
	if err == nil || !strings.Contains(report.AdviceOf(err), "mainstay subscription list -n "+f.namespace) {
		t.Errorf("an unknown name: got error %v", err)
	}
}
