package olmoperator_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) {
	os.Exit(env.RunAndCheckRights(m, env.ShippedRights{
		Files: []string{"config/classic/olm-operator/role.yaml"}, Unused: unusedRights,
	}))
}

var kinds = []func(*runtime.Scheme) error{
	clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	configv1.AddToScheme, v1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme,
}

// fixture is an API server for OLM Classic as a whole: olm-operator and catalog-operator, with the
// rights that they are shipped with. It replaces the controller of Deployments.
type fixture struct {
	*env.Fixture
	// runDeployments makes Deployments available, if isWorking is set.
	runDeployments func()

	mu        sync.Mutex
	isWorking bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, kinds...), isWorking: true}
	f.EnsureNamespace("olm")
	f.runDeployments = f.RunOnChanges(f.makeDeploymentsAvailable, appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return f
}

// setWorking makes Deployments become available from now on, or not.
func (f *fixture) setWorking(working bool) {
	f.mu.Lock()
	f.isWorking = working
	f.mu.Unlock()
	f.runDeployments()
}

// makeDeploymentsAvailable replaces the controller of Deployments.
func (f *fixture) makeDeploymentsAvailable(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isWorking {
		return nil
	}
	return f.MakeDeploymentsAvailable(ctx)
}

// programOptions configure a run of both programs.
type programOptions struct {
	// lease is the name of the lease by which several replicas elect a leader. Empty means none.
	lease string
	// connect changes a connection. It may be nil.
	connect func(*rest.Config)
	clock   clock.PassiveClock
	log     logr.Logger
}

// newManagers returns the managers of olm-operator and catalog-operator, with the shipped rights.
func (f *fixture) newManagers(o programOptions) map[string]env.Manager {
	olm := env.Manager{
		Roles: "config/classic/olm-operator/role.yaml", Connect: o.connect,
		Options: ctrl.Options{Scheme: f.Scheme(), Logger: o.log},
		Setup: func(mgr ctrl.Manager) error {
			return olmoperator.Setup(mgr, olmoperator.Options{Namespace: "olm", Program: "v1.2.3", Clock: o.clock})
		},
	}
	olmoperator.ConfigureOptions(&olm.Options)

	catalog := env.Manager{
		Roles: "config/classic/catalog-operator/role.yaml", Connect: o.connect,
		Options: ctrl.Options{
			Scheme: f.Scheme(), Logger: o.log,
			Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		},
		Setup: func(mgr ctrl.Manager) error {
			return catalogoperator.Setup(mgr, catalogoperator.Options{Namespace: "olm", GlobalNamespace: "olm", InstallPlanRetryTimeout: time.Minute, Clock: o.clock})
		},
	}
	catalogoperator.Tune(&catalog.Options)

	return map[string]env.Manager{"olm": olm, "catalog": catalog}
}

// process is a run of both programs.
type process struct {
	replicas []*env.Replica

	mu   sync.Mutex
	text strings.Builder
}

// start runs both programs until the test ends.
func (f *fixture) start(o programOptions) *process {
	f.T.Helper()
	p := &process{}
	o.log = funcr.New(p.addLine, funcr.Options{})
	for program, m := range f.newManagers(o) {
		lease := ""
		if o.lease != "" {
			lease = o.lease + "-" + program
			m.Options.LeaderElectionConfig = env.Start(f.T)
		}
		p.replicas = append(p.replicas, f.StartReplica(m, lease))
	}

	return p
}

// written returns the number of writes that the API server executed. Leases and events do not count.
func (p *process) written() (sum int64) {
	for _, replica := range p.replicas {
		sum += replica.Written()
	}
	return sum
}

// refused returns the number of writes that the API server could not execute. Leases and events do not count.
func (p *process) refused() (sum int64) {
	for _, replica := range p.replicas {
		sum += replica.Refused()
	}
	return sum
}

// each calls a method of both programs.
func (p *process) each(call func(*env.Replica)) {
	for _, replica := range p.replicas {
		call(replica)
	}
}

// addLine adds a line to the log.
func (p *process) addLine(_, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.WriteString(line + "\n")
}

// hasLogged reports whether the log contains a text.
func (p *process) hasLogged(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.text.String(), text)
}

// csvManifest is the ClusterServiceVersion of a version of an operator. %[1]s is its name, %[2]s the version.
const csvManifest = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"%[1]s.v%[2]s"},"spec":{
	"displayName":"An operator","version":"%[2]s",
	"installModes":[{"type":"SingleNamespace","supported":true}],
	"customresourcedefinitions":{"owned":[{"name":"things.%[1]s.example.com","kind":"Thing","version":"v1"}]},
	"install":{"strategy":"deployment","spec":{
		"deployments":[{"name":"%[1]s","spec":{"replicas":1,"selector":{"matchLabels":{"app":"%[1]s"}},"template":{
			"metadata":{"labels":{"app":"%[1]s"}},
			"spec":{"serviceAccountName":"%[1]s","containers":[{"name":"manager","image":"registry.example.com/%[1]s:v%[2]s"}]}}}}],
		"permissions":[{"serviceAccountName":"%[1]s","rules":[{"apiGroups":["%[1]s.example.com"],"resources":["things"],"verbs":["get","list","watch"]}]}],
		"clusterPermissions":[{"serviceAccountName":"%[1]s","rules":[{"apiGroups":[""],"resources":["nodes"],"verbs":["list"]}]}]}}}}`

// crdManifest is the CRD of an operator.
const crdManifest = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.%[1]s.example.com"},"spec":{
	"group":"%[1]s.example.com","scope":"Namespaced","names":{"kind":"Thing","listKind":"ThingList","plural":"things","singular":"thing"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

const serviceManifest = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"%[1]s"},"spec":{"clusterIP":"None","selector":{"app":"%[1]s"}}}`

// serveOperator serves a catalog of an operator with versions that replace each other, and returns its address.
func serveOperator(t testing.TB, name string, versions ...string) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "schema: olm.package\nname: %[1]s\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: %[1]s\nname: stable\nentries:\n", name)
	replaced := ""
	for _, version := range versions {
		fmt.Fprintf(&text, "- {name: %s.v%s, replaces: %q}\n", name, version, replaced)
		replaced = name + ".v" + version
	}
	for _, version := range versions {
		fmt.Fprintf(&text, "---\nschema: olm.bundle\npackage: %[1]s\nname: %[1]s.v%[2]s\nproperties:\n"+
			"- {type: olm.package, value: {packageName: %[1]s, version: %[2]s}}\n"+
			"- {type: olm.gvk, value: {group: %[1]s.example.com, version: v1, kind: Thing}}\n", name, version)
		for _, object := range []string{fmt.Sprintf(csvManifest, name, version), fmt.Sprintf(crdManifest, name), fmt.Sprintf(serviceManifest, name)} {
			fmt.Fprintf(&text, "- {type: olm.bundle.object, value: {data: %s}}\n", base64.StdEncoding.EncodeToString([]byte(object)))
		}
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	return catalogserver.ServeFolder(t, dir)
}

// installation is an operator that is installed from a catalog of its own into a namespace of its own. It manages
// another namespace.
type installation struct {
	*fixture
	name, namespace, target string
}

// newInstallation creates the namespaces, the OperatorGroup and the catalog of an operator with the versions 1.0.0 and 1.1.0.
func (f *fixture) newInstallation(name string) *installation {
	f.T.Helper()
	return f.newInstallationOf(name, "1.0.0", "1.1.0")
}

// newInstallationOf is newInstallation with other versions.
func (f *fixture) newInstallationOf(name string, versions ...string) *installation {
	f.T.Helper()
	i := &installation{fixture: f, name: name, namespace: f.NewNamespace(name + "-home-"), target: f.NewNamespace(name + "-target-")}
	f.CreateAll(&operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "group"}, Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{i.target}},
	}, &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "catalog"},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: serveOperator(f.T, name, versions...)},
	})
	f.DeleteAllAtEnd(i.namespace, &v1alpha1.Subscription{}, &v1alpha1.CatalogSource{}) // The programs of other tests do not reconcile it.
	return i
}

// subscribe creates the Subscription, whose InstallPlans must be approved.
func (i *installation) subscribe() {
	i.T.Helper()
	i.CreateAll(&v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.name},
		Spec: v1alpha1.SubscriptionSpec{
			CatalogSource: "catalog", CatalogSourceNamespace: i.namespace, Package: i.name, Channel: "stable", StartingCSV: i.csvName("1.0.0"),
			InstallPlanApproval: v1alpha1.ApprovalManual,
		},
	})
}

func (i *installation) csvName(version string) string { return i.name + ".v" + version }

// approve waits for the InstallPlan of a version, and approves it.
func (i *installation) approve(version string) {
	i.T.Helper()
	i.Eventually("the InstallPlan of "+version+" is approved", func() error {
		plan, err := i.findPlan(version)
		if err != nil {
			return err
		}
		before := plan.DeepCopy()
		plan.Spec.Approved = true
		return i.Patch(i.T.Context(), plan, client.MergeFrom(before))
	})
}

// findPlan returns the InstallPlan of a version that waits for its approval.
func (i *installation) findPlan(version string) (*v1alpha1.InstallPlan, error) {
	var plans v1alpha1.InstallPlanList
	if err := i.List(i.T.Context(), &plans, client.InNamespace(i.namespace)); err != nil {
		return nil, err
	}

	for n := range plans.Items {
		p := &plans.Items[n]
		if p.Status.Phase == v1alpha1.InstallPlanPhaseRequiresApproval && len(p.Status.Plan) > 0 && p.Spec.ClusterServiceVersionNames[0] == i.csvName(version) {
			return p, nil
		}
	}

	return nil, fmt.Errorf("there are %d InstallPlans, none of them waits for the approval of %s", len(plans.Items), version)
}

// checkPhase returns an error unless a version is in a phase.
func (i *installation) checkPhase(version string, phase v1alpha1.ClusterServiceVersionPhase) error {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := i.Get(i.T.Context(), client.ObjectKey{Namespace: i.namespace, Name: i.csvName(version)}, csv); err != nil {
		return err
	}
	if csv.Status.Phase != phase {
		return fmt.Errorf("the phase of %s is %q (%s): %s", csv.Name, csv.Status.Phase, csv.Status.Reason, csv.Status.Message)
	}
	return nil
}

// checkInstalled returns an error unless a version works, and the Subscription reports it.
func (i *installation) checkInstalled(version string, state v1alpha1.SubscriptionState) error {
	if err := i.checkPhase(version, v1alpha1.CSVPhaseSucceeded); err != nil {
		return err
	}

	copied, sub := &v1alpha1.ClusterServiceVersion{}, &v1alpha1.Subscription{}
	if err := i.Get(i.T.Context(), client.ObjectKey{Namespace: i.target, Name: i.csvName(version)}, copied); err != nil {
		return err
	}
	if copied.Status.Phase != v1alpha1.CSVPhaseSucceeded {
		return fmt.Errorf("the copied CSV is in phase %q", copied.Status.Phase)
	}
	if err := i.Get(i.T.Context(), client.ObjectKey{Namespace: i.namespace, Name: i.name}, sub); err != nil {
		return err
	}
	if s := sub.Status; s.InstalledCSV != i.csvName(version) || s.State != state {
		return fmt.Errorf("got installed %s and state %s of the Subscription", s.InstalledCSV, s.State)
	}

	return nil
}
