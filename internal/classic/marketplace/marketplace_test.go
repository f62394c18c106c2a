package marketplace

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) {
	os.Exit(env.RunAndCheckRights(m, env.ShippedRights{
		Files:   []string{"config/classic/marketplace/role.yaml"},
		Account: func(string) string { return "system:serviceaccount:" + DefaultNamespace + ":" + accountName },
	}))
}

// accountName is the name of the service account of the marketplace.
const accountName = "marketplace-operator"

// fixture is a cluster with a marketplace that has only its own role.
type fixture struct {
	*env.Fixture
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	m := &fixture{Fixture: env.NewFixture(t, clientgoscheme.AddToScheme, configv1.AddToScheme, v1alpha1.AddToScheme)}
	m.EnsureNamespace(DefaultNamespace)
	m.CreateConfig("classic/marketplace/service_account.yaml", "classic/marketplace/role.yaml", "classic/marketplace/rbac.yaml")
	t.Cleanup(m.clear)
	return m
}

// clear deletes the objects of a test.
func (f *fixture) clear() {
	if f.stop != nil {
		f.stop()
	}

	for _, object := range []client.Object{
		&configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: clusterOperatorName}},
	} {
		if err := f.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			f.T.Error(err)
		}
	}

	if err := f.DeleteAllOf(context.Background(), &v1alpha1.CatalogSource{}, client.InNamespace(DefaultNamespace)); err != nil {
		f.T.Error(err)
	}
}

// run starts a marketplace. It stops the running one first.
func (f *fixture) run(defaults fstest.MapFS) {
	f.T.Helper()
	if f.stop != nil {
		f.stop()
	}
	f.stop = f.start(defaults)
}

// start starts a marketplace with the permissions of its service account, and returns a
// function that stops it.
func (f *fixture) start(defaults fstest.MapFS) func() {
	f.T.Helper()
	_, stop := f.StartManager(f.newManager(defaults))
	return stop
}

// newManager returns a marketplace with the permissions of its service account.
func (f *fixture) newManager(defaults fstest.MapFS) env.Manager {
	options := ctrl.Options{LeaderElectionNamespace: DefaultNamespace}
	Tune(&options, "")
	return env.Manager{
		Connect: func(connection *rest.Config) { *connection = *env.ConnectAs(f.T, DefaultNamespace, accountName) },
		Options: options,
		Setup: func(mgr ctrl.Manager) error {
			return Setup(mgr, Options{Defaults: defaults, Release: "4.18.3", Program: "v1.2.3"})
		},
	}
}

// until waits for a state. On failure it reports the current state.
func (f *fixture) until(want string, is func() (string, error)) {
	f.T.Helper()
	f.Eventually("the state", func() error {
		got, err := is()
		if err == nil && got != want {
			err = fmt.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
		}
		return err
	})
}

// images returns name=image of each catalog in the namespace.
func (f *fixture) images() (string, error) {
	var list v1alpha1.CatalogSourceList
	if err := f.List(f.T.Context(), &list, client.InNamespace(DefaultNamespace)); err != nil {
		return "", err
	}

	var lines []string
	for _, c := range list.Items {
		lines = append(lines, c.Name+"="+c.Spec.Image)
	}

	return strings.Join(lines, " "), nil
}

// status returns the sources in the status of the OperatorHub, as +name and -name.
func (f *fixture) status() (string, error) {
	hub := &configv1.OperatorHub{}
	if err := f.Get(f.T.Context(), client.ObjectKey{Name: "cluster"}, hub); err != nil {
		return "", client.IgnoreNotFound(err)
	}

	var lines []string
	for _, s := range hub.Status.Sources {
		sign := "+"
		if s.Disabled {
			sign = "-"
		}
		lines = append(lines, sign+s.Name+" "+s.Status)
	}

	return strings.Join(lines, ", "), nil
}

// want changes the spec of the OperatorHub.
func (f *fixture) want(all bool, words string) {
	f.T.Helper()
	hub := &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	spec := configv1.OperatorHubSpec{DisableAllDefaultSources: all, Sources: sources(words)}
	err := f.Get(f.T.Context(), client.ObjectKeyFromObject(hub), hub)
	before := hub.DeepCopy()
	hub.Spec = spec
	if apierrors.IsNotFound(err) {
		err = f.Create(f.T.Context(), hub)
	} else if err == nil {
		err = f.Patch(f.T.Context(), hub, client.MergeFrom(before))
	}

	if err != nil {
		f.T.Fatal(err)
	}
}

// catalog reads a catalog.
func (f *fixture) catalog(name string) *v1alpha1.CatalogSource {
	f.T.Helper()
	c := &v1alpha1.CatalogSource{}
	if err := f.Get(f.T.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: name}, c); err != nil {
		f.T.Fatal(err)
	}
	return c
}

func (f *fixture) reported(conditionType string) func() (string, error) {
	return func() (string, error) {
		operator := &configv1.ClusterOperator{}
		if err := f.Get(f.T.Context(), client.ObjectKey{Name: clusterOperatorName}, operator); err != nil {
			return "", client.IgnoreNotFound(err)
		}

		c := configv1.FindCondition(operator.Status.Conditions, conditionType)
		if c == nil {
			return "", nil
		}

		return fmt.Sprintf("%s %s %s [%s]", operatorstatus.VersionOf(&operator.Status, "operator"), c.Status, c.Reason, c.Message), nil
	}
}

var two = folder(map[string]string{"a.yaml": manifest("a", ""), "b.yaml": manifest("b", "")})

const both = "a=registry.example.com/a:v1 b=registry.example.com/b:v1"

func TestDefaultCatalogs(t *testing.T) {
	f := newFixture(t)
	f.run(two)
	f.until(both, f.images)
	f.until("+a Success, +b Success", f.status)
	f.until("4.18.3 False AsExpected [Every default catalog can be used]", f.reported(configv1.OperatorDegraded))
	f.until(`4.18.3 True AsExpected [The default catalogs match OperatorHub "cluster"]`, f.reported(configv1.OperatorAvailable))

	// Changes of a user are reverted.
	c := f.catalog("a")
	c.Spec.GrpcPodConfig = &v1alpha1.GrpcPodConfig{NodeSelector: map[string]string{"disk": "fast"}}
	c.Spec.Image = "registry.example.com/mine:v1"
	c.Labels = map[string]string{"mine": "yes"}
	if err := f.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}

	f.until("registry.example.com/a:v1 0 yes", func() (string, error) {
		c := f.catalog("a")
		count := 0
		if c.Spec.GrpcPodConfig != nil {
			count = len(c.Spec.GrpcPodConfig.NodeSelector)
		}
		return fmt.Sprint(c.Spec.Image, " ", count, " ", c.Labels["mine"]), nil
	})

	// Deleted objects are created again, including the OperatorHub.
	if err := f.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}

	f.until(both, f.images)
	if err := f.Delete(t.Context(), &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}); err != nil {
		t.Fatal(err)
	}

	f.until("+a Success, +b Success", f.status)
	if err := f.Delete(t.Context(), &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: clusterOperatorName}}); err != nil {
		t.Fatal(err)
	}

	f.until("4.18.3 True AsExpected [Default catalogs do not block updates of the cluster]", f.reported(configv1.OperatorUpgradeable))
}

func TestDisablingCatalogs(t *testing.T) {
	f := newFixture(t)
	mine := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "mine"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "mine"}}
	if err := f.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}

	f.want(false, "-a -typo")
	f.run(two)
	f.until("b=registry.example.com/b:v1 mine=mine", f.images)
	f.until("-a Success, +b Success, -typo Error", f.status)
	f.want(true, "+a")
	f.until("a=registry.example.com/a:v1 mine=mine", f.images)
	f.until("+a Success, -b Success", f.status)

	// A catalog that a user creates while the default is disabled is not changed, also after restarts.
	own := f.catalog("a")
	own.ObjectMeta = metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "b", Annotations: own.Annotations} // a copy with the annotation of the marketplace
	own.Spec.Image = "registry.example.com/own:v1"
	if err := f.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}

	f.run(two)
	f.want(true, "") // the changes below require a pass that has read both
	f.until("b=registry.example.com/own:v1 mine=mine", f.images)
	f.until("-a Success, -b Success", f.status)

	// When the default is enabled again, it replaces the catalog of the user.
	f.want(false, "")
	f.until(both+" mine=mine", f.images)
	f.until("+a Success, +b Success", f.status)
	f.want(true, "")
	f.until("mine=mine", f.images)
}

// An invalid manifest, and one that the API server refuses, are reported. The others are still applied.
func TestBadManifests(t *testing.T) {
	f := newFixture(t)
	f.run(folder(map[string]string{"a.yaml": manifest("a", "  imge: x\n"), "b.yaml": manifest("b", "")}))
	f.until("b=registry.example.com/b:v1", f.images)
	f.until(`4.18.3 True DefaultCatalogsInvalid [Manifests of default catalogs cannot be used: a.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "imge"]`, f.reported(configv1.OperatorDegraded))
	f.run(folder(map[string]string{"a.yaml": manifest("A_B", ""), "b.yaml": manifest("b", "")}))
	f.until("+A_B Error, +b Success", f.status)
}

// Two marketplaces that both act as the leader agree, and do not change the catalogs of users.
func TestConcurrentReplicas(t *testing.T) {
	f := newFixture(t)
	f.run(two)
	t.Cleanup(f.start(two))
	f.until(both, f.images)
	f.until("+a Success, +b Success", f.status)
	for range 3 {
		f.want(true, "+b")
		f.until("b=registry.example.com/b:v1", f.images)
		f.until("-a Success, +b Success", f.status)
		own := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "a"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "own"}}
		if err := f.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}

		f.want(true, "+b -x") // the changes below follow a pass that has read it
		f.until("-a Success, +b Success, -x Error", f.status)
		f.until("a=own b=registry.example.com/b:v1", f.images)
		f.want(false, "")
		f.until(both, f.images)
		f.until("+a Success, +b Success", f.status)
	}
}

// Catalogs that are up to date are not written.
func TestNoUnneededWrites(t *testing.T) {
	f := newFixture(t)
	f.run(two)
	f.until(both, f.images)
	f.until("+a Success, +b Success", f.status)
	f.until("4.18.3 False AsExpected [Every default catalog can be used]", f.reported(configv1.OperatorDegraded))
	before := f.versions()
	f.run(two)
	f.until("4.18.3 False AsExpected [Every default catalog can be used]", f.reported(configv1.OperatorDegraded))
	// The status of a catalog changes often. The reconciles that follow write nothing. The last change shows that there were
	// reconciles.
	c := f.catalog("a")
	c.Status.Message = "busy"
	if err := f.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}

	before["a"] = c.ResourceVersion
	f.want(false, "-none")
	f.until("+a Success, +b Success, -none Error", f.status)
	delete(before, "hub")
	after := f.versions()
	delete(after, "hub")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("resource versions of unchanged catalogs (-before +after):\n%s", diff)
	}
}

// versions returns the resource versions of the objects that the marketplace writes.
func (f *fixture) versions() map[string]string {
	f.T.Helper()
	hub, operator := &configv1.OperatorHub{}, &configv1.ClusterOperator{}
	if err := f.Get(f.T.Context(), client.ObjectKey{Name: "cluster"}, hub); err != nil {
		f.T.Fatal(err)
	}
	if err := f.Get(f.T.Context(), client.ObjectKey{Name: clusterOperatorName}, operator); err != nil {
		f.T.Fatal(err)
	}

	return map[string]string{
		"hub": hub.ResourceVersion, "operator": operator.ResourceVersion, "a": f.catalog("a").ResourceVersion, "b": f.catalog("b").ResourceVersion,
	}
}
