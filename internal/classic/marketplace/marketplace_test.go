package marketplace

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// patience bounds every wait of a test: what has not happened by then never will.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(env.Run(m))
}

// fixture is a cluster with a marketplace, which acts by its own role.
type fixture struct {
	client.Client

	t    *testing.T
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	m := &fixture{t: t, Client: env.Client(t, clientgoscheme.AddToScheme, configv1.AddToScheme, v1alpha1.AddToScheme)}
	m.make("", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", DefaultNamespace))
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"role.yaml", "rbac.yaml"} {
		data, err := os.ReadFile(filepath.Join(root, "config", "classic", "marketplace", name))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---\n")) {
			m.make(name, string(document))
		}
	}

	t.Cleanup(m.clear)
	return m
}

// make creates an object unless it is there.
func (m *fixture) make(name, document string) {
	m.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
		m.t.Fatalf("%s: %v", name, err)
	}
	if len(object.Object) == 0 {
		return
	}
	if err := m.Create(m.t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		m.t.Fatalf("%s: %v", name, err)
	}
}

// clear removes what a test leaves.
func (m *fixture) clear() {
	if m.stop != nil {
		m.stop()
	}

	for _, object := range []client.Object{
		&configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: clusterOperatorName}},
	} {
		if err := m.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			m.t.Error(err)
		}
	}

	if err := m.DeleteAllOf(context.Background(), &v1alpha1.CatalogSource{}, client.InNamespace(DefaultNamespace)); err != nil {
		m.t.Error(err)
	}
}

// run starts a marketplace, in place of one that runs.
func (m *fixture) run(defaults fstest.MapFS) {
	m.t.Helper()
	if m.stop != nil {
		m.stop()
	}
	m.stop = m.start(defaults)
}

// start starts a marketplace, which acts as its ServiceAccount may, and gives how to stop it.
func (m *fixture) start(defaults fstest.MapFS) func() {
	m.t.Helper()
	connection := env.Start(m.t)
	connection.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + DefaultNamespace + ":marketplace-operator",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + DefaultNamespace, "system:authenticated"},
	}
	options := ctrl.Options{
		Scheme:  env.Scheme(m.t, clientgoscheme.AddToScheme, configv1.AddToScheme, v1alpha1.AddToScheme),
		Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	Tune(&options, "")
	mgr, err := ctrl.NewManager(connection, options)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := Setup(mgr, Options{Defaults: defaults, Release: "4.18.3", Program: "v1.2.3"}); err != nil {
		m.t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()

	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Errorf("the manager ended: %v", err)
		}
	})
}

// until waits for a state, which is described as it is now.
func (m *fixture) until(want string, is func() (string, error)) {
	m.t.Helper()
	got := ""
	err := wait.PollUntilContextTimeout(m.t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var err error
		got, err = is()
		return err == nil && got == want, err
	})
	if err != nil {
		m.t.Fatalf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
}

// images returns name=image of each catalog in the namespace.
func (m *fixture) images() (string, error) {
	var list v1alpha1.CatalogSourceList
	if err := m.List(m.t.Context(), &list, client.InNamespace(DefaultNamespace)); err != nil {
		return "", err
	}

	var told []string
	for _, c := range list.Items {
		told = append(told, c.Name+"="+c.Spec.Image)
	}

	return strings.Join(told, " "), nil
}

// status returns what the OperatorHub says, as +name and -name.
func (m *fixture) status() (string, error) {
	hub := &configv1.OperatorHub{}
	if err := m.Get(m.t.Context(), client.ObjectKey{Name: "cluster"}, hub); err != nil {
		return "", client.IgnoreNotFound(err)
	}

	var told []string
	for _, s := range hub.Status.Sources {
		sign := "+"
		if s.Disabled {
			sign = "-"
		}
		told = append(told, sign+s.Name+" "+s.Status)
	}

	return strings.Join(told, ", "), nil
}

// want changes the spec of the OperatorHub.
func (m *fixture) want(all bool, words string) {
	m.t.Helper()
	hub := &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	spec := configv1.OperatorHubSpec{DisableAllDefaultSources: all, Sources: sources(words)}
	err := m.Get(m.t.Context(), client.ObjectKeyFromObject(hub), hub)
	before := hub.DeepCopy()
	hub.Spec = spec
	if apierrors.IsNotFound(err) {
		err = m.Create(m.t.Context(), hub)
	} else if err == nil {
		err = m.Patch(m.t.Context(), hub, client.MergeFrom(before))
	}

	if err != nil {
		m.t.Fatal(err)
	}
}

// catalog reads a catalog.
func (m *fixture) catalog(name string) *v1alpha1.CatalogSource {
	m.t.Helper()
	c := &v1alpha1.CatalogSource{}
	if err := m.Get(m.t.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: name}, c); err != nil {
		m.t.Fatal(err)
	}
	return c
}

func (m *fixture) reported(conditionType string) func() (string, error) {
	return func() (string, error) {
		operator := &configv1.ClusterOperator{}
		if err := m.Get(m.t.Context(), client.ObjectKey{Name: clusterOperatorName}, operator); err != nil {
			return "", client.IgnoreNotFound(err)
		}

		c := operatorstatus.Find(operator.Status.Conditions, conditionType)
		if c == nil {
			return "", nil
		}

		return fmt.Sprintf("%s %s %s [%s]", operatorstatus.VersionOf(&operator.Status, "operator"), c.Status, c.Reason, c.Message), nil
	}
}

var two = folder(map[string]string{"a.yaml": manifest("a", ""), "b.yaml": manifest("b", "")})

const both = "a=registry.example.com/a:v1 b=registry.example.com/b:v1"

func TestDefaultCatalogs(t *testing.T) {
	m := newFixture(t)
	m.run(two)
	m.until(both, m.images)
	m.until("+a Success, +b Success", m.status)
	m.until("4.18.3 False AsExpected [Every default catalog can be used]", m.reported(configv1.OperatorDegraded))
	m.until(`4.18.3 True AsExpected [The default catalogs are kept as OperatorHub "cluster" wants them]`, m.reported(configv1.OperatorAvailable))

	// What a user changes is changed back.
	c := m.catalog("a")
	c.Spec.GrpcPodConfig = &v1alpha1.GrpcPodConfig{NodeSelector: map[string]string{"disk": "fast"}}
	c.Spec.Image = "registry.example.com/mine:v1"
	c.Labels = map[string]string{"mine": "yes"}
	if err := m.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}

	m.until("registry.example.com/a:v1 0 yes", func() (string, error) {
		c := m.catalog("a")
		count := 0
		if c.Spec.GrpcPodConfig != nil {
			count = len(c.Spec.GrpcPodConfig.NodeSelector)
		}
		return fmt.Sprint(c.Spec.Image, " ", count, " ", c.Labels["mine"]), nil
	})

	// What is deleted is made again, the OperatorHub included.
	if err := m.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}

	m.until(both, m.images)
	if err := m.Delete(t.Context(), &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}); err != nil {
		t.Fatal(err)
	}

	m.until("+a Success, +b Success", m.status)
	if err := m.Delete(t.Context(), &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: clusterOperatorName}}); err != nil {
		t.Fatal(err)
	}

	m.until("4.18.3 True AsExpected [No default catalog stands against an update of the cluster]", m.reported(configv1.OperatorUpgradeable))
}

func TestTurningOff(t *testing.T) {
	m := newFixture(t)
	mine := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "mine"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "mine"}}
	if err := m.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}

	m.want(false, "-a -typo")
	m.run(two)
	m.until("b=registry.example.com/b:v1 mine=mine", m.images)
	m.until("-a Success, +b Success, -typo Error", m.status)
	m.want(true, "+a")
	m.until("a=registry.example.com/a:v1 mine=mine", m.images)
	m.until("+a Success, -b Success", m.status)

	// One that a user makes while the default is off stays as it is, through restarts too.
	own := m.catalog("a")
	own.ObjectMeta = metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "b", Annotations: own.Annotations} // a copy, mark and all
	own.Spec.Image = "registry.example.com/own:v1"
	if err := m.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}

	m.run(two)
	m.want(true, "") // what is waited for below happens in a pass that sees both
	m.until("b=registry.example.com/own:v1 mine=mine", m.images)
	m.until("-a Success, -b Success", m.status)

	// Turned on again, the name is the default's.
	m.want(false, "")
	m.until(both+" mine=mine", m.images)
	m.until("+a Success, +b Success", m.status)
	m.want(true, "")
	m.until("mine=mine", m.images)
}

// A manifest that cannot be used is reported, and does not keep the others from being used; nor does
// one that the API server refuses.
func TestBadManifests(t *testing.T) {
	m := newFixture(t)
	m.run(folder(map[string]string{"a.yaml": manifest("a", "  imge: x\n"), "b.yaml": manifest("b", "")}))
	m.until("b=registry.example.com/b:v1", m.images)
	m.until(`4.18.3 True DefaultCatalogsInvalid [Manifests of default catalogs cannot be used: a.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "imge"]`, m.reported(configv1.OperatorDegraded))
	m.run(folder(map[string]string{"a.yaml": manifest("A_B", ""), "b.yaml": manifest("b", "")}))
	m.until("+A_B Error, +b Success", m.status)
}

// Two that both believe themselves the leader agree, and leave alone what a user made.
func TestTwoAtOnce(t *testing.T) {
	m := newFixture(t)
	m.run(two)
	t.Cleanup(m.start(two))
	m.until(both, m.images)
	m.until("+a Success, +b Success", m.status)
	for range 3 {
		m.want(true, "+b")
		m.until("b=registry.example.com/b:v1", m.images)
		m.until("-a Success, +b Success", m.status)
		own := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "a"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "own"}}
		if err := m.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}

		m.want(true, "+b -x") // what is waited for comes after a pass that sees it
		m.until("-a Success, +b Success, -x Error", m.status)
		m.until("a=own b=registry.example.com/b:v1", m.images)
		m.want(false, "")
		m.until(both, m.images)
		m.until("+a Success, +b Success", m.status)
	}
}

// What is as it should be is not written.
func TestQuiet(t *testing.T) {
	m := newFixture(t)
	m.run(two)
	m.until(both, m.images)
	m.until("+a Success, +b Success", m.status)
	m.until("4.18.3 False AsExpected [Every default catalog can be used]", m.reported(configv1.OperatorDegraded))
	before := m.versions()
	m.run(two)
	m.until("4.18.3 False AsExpected [Every default catalog can be used]", m.reported(configv1.OperatorDegraded))
	// The status of a catalog changes often; a pass that follows writes nothing. The last change shows
	// that passes were made.
	c := m.catalog("a")
	c.Status.Message = "busy"
	if err := m.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}

	before["a"] = c.ResourceVersion
	m.want(false, "-none")
	m.until("+a Success, +b Success, -none Error", m.status)
	delete(before, "hub")
	after := m.versions()
	delete(after, "hub")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("written without need (-before +after):\n%s", diff)
	}
}

// versions are the resource versions of what the marketplace writes.
func (m *fixture) versions() map[string]string {
	m.t.Helper()
	hub, operator := &configv1.OperatorHub{}, &configv1.ClusterOperator{}
	if err := m.Get(m.t.Context(), client.ObjectKey{Name: "cluster"}, hub); err != nil {
		m.t.Fatal(err)
	}
	if err := m.Get(m.t.Context(), client.ObjectKey{Name: clusterOperatorName}, operator); err != nil {
		m.t.Fatal(err)
	}

	return map[string]string{
		"hub": hub.ResourceVersion, "operator": operator.ResourceVersion, "a": m.catalog("a").ResourceVersion, "b": m.catalog("b").ResourceVersion,
	}
}
