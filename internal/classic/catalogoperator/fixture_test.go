package catalogoperator_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) {
	os.Exit(env.RunAndCheckRights(m, env.ShippedRights{Files: []string{"config/classic/catalog-operator/role.yaml"}, Unused: unusedRights}))
}

var kinds = []func(*runtime.Scheme) error{
	corev1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme, configv1.AddToScheme, v1alpha1.AddToScheme, operatorsv1.AddToScheme,
}

// fixture has the client of an API server, a namespace and a running catalog-operator. The test
// sets the status of pods.
type fixture struct {
	*env.Fixture
	namespace string
	// stop ends the component.
	stop func()
}

// newFixture runs the component with its released permissions, and creates a namespace for the
// test.
func newFixture(t *testing.T, o catalogoperator.Options) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, kinds...)}
	f.namespace = f.NewNamespace("catalogs-")
	o.Images.ConfigMapServer = objects.Program{Image: "quay.io/example/server:v1", Command: []string{"configmap-server"}}
	f.stop = f.run(o)
	// Components of other tests must not see the remaining catalogs.
	f.DeleteAllAtEnd(f.namespace, &v1alpha1.CatalogSource{})

	return f
}

// run runs the component until it is stopped, or the test ends.
func (f *fixture) run(o catalogoperator.Options) (stop func()) {
	f.T.Helper()
	options := ctrl.Options{GracefulShutdownTimeout: ptr.To(5 * time.Second)}
	options.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}
	catalogoperator.Tune(&options)
	_, stop = f.StartManager(env.Manager{
		Roles: "config/classic/catalog-operator/role.yaml", Options: options,
		Setup: func(mgr ctrl.Manager) error { return catalogoperator.Setup(mgr, o) },
	})
	return stop
}

// eventually waits until a check succeeds.
func (f *fixture) eventually(check func() error) {
	f.T.Helper()
	f.Eventually("what the test waits for", check)
}

// catalog creates a catalog.
func (f *fixture) catalog(name string, spec v1alpha1.CatalogSourceSpec) *v1alpha1.CatalogSource {
	f.T.Helper()
	catalog := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace}, Spec: spec}
	f.Must(f.Create(f.T.Context(), catalog))
	return catalog
}

func (f *fixture) get(object client.Object) error {
	return f.Get(f.T.Context(), client.ObjectKeyFromObject(object), object)
}

// waitForState waits until the connection to a catalog is in a state.
func (f *fixture) waitForState(catalog *v1alpha1.CatalogSource, want string) {
	f.T.Helper()
	f.eventually(func() error {
		if err := f.get(catalog); err != nil {
			return err
		}
		if s := catalog.Status.GRPCConnectionState; s == nil || s.LastObservedState != want {
			return fmt.Errorf("catalog %s: got the connection %+v, want %s; %s: %s", catalog.Name, s, want, catalog.Status.Reason, catalog.Status.Message)
		}
		return nil
	})
}

// waitForReason waits until the status of a catalog has a reason and a message.
func (f *fixture) waitForReason(catalog *v1alpha1.CatalogSource, reason string, message func(string) bool) {
	f.T.Helper()
	f.eventually(func() error {
		if err := f.get(catalog); err != nil {
			return err
		}
		if s := catalog.Status; s.Reason != reason || !message(s.Message) {
			return fmt.Errorf("catalog %s: got reason %q and message %q, want %q", catalog.Name, s.Reason, s.Message, reason)
		}
		return nil
	})
}

func is(want string) func(string) bool { return func(got string) bool { return got == want } }

// pods returns the pods with a label that are not being deleted.
func (f *fixture) pods(label, value string) []corev1.Pod {
	f.T.Helper()
	var list corev1.PodList
	f.Must(f.List(f.T.Context(), &list, client.InNamespace(f.namespace), client.MatchingLabels{label: value}))
	var staying []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp.IsZero() {
			staying = append(staying, pod)
		}
	}

	return staying
}

// onePod waits until there is exactly one pod with a label, which is not one of some others.
func (f *fixture) onePod(label, value string, others ...string) *corev1.Pod {
	f.T.Helper()
	var one *corev1.Pod
	f.eventually(func() error {
		pods := f.pods(label, value)
		if len(pods) != 1 {
			catalog := &v1alpha1.CatalogSource{}
			err := f.Get(f.T.Context(), client.ObjectKey{Namespace: f.namespace, Name: value}, catalog)
			return errors.Join(err, fmt.Errorf("got %d pods with %s=%s, want 1; the message of the catalog is %q", len(pods), label, value, catalog.Status.Message))
		}

		for _, other := range others {
			if pods[0].Name == other {
				return fmt.Errorf("pod %s still exists", other)
			}
		}

		one = &pods[0]
		return nil
	})

	return one
}

// setPodRunning sets the status of a pod whose container runs an image.
func (f *fixture) setPodRunning(pod *corev1.Pod, imageID string) {
	f.T.Helper()
	f.updatePodStatus(pod, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "registry-server", ImageID: imageID, Ready: true}}
	})
}

// updatePodStatus sets the status of a pod.
func (f *fixture) updatePodStatus(pod *corev1.Pod, change func(*corev1.PodStatus)) {
	f.T.Helper()
	f.eventually(func() error {
		if err := f.get(pod); err != nil {
			return err
		}
		change(&pod.Status)
		return f.Status().Update(f.T.Context(), pod)
	})
}

// serve runs a catalog at an address. It returns the address and a function that stops it.
func serve(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	return catalogserver.Serve(t, address, content.Folder{Dir: filepath.Join("..", "registry", "testdata", "catalog")})
}

// newServiceNetwork returns a network that connects every address to one catalog. It replaces the Services of a
// cluster.
func newServiceNetwork(t *testing.T, to string) dial.Proxy {
	t.Helper()
	leads := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { catalogserver.ServeTunnel(w, to) }))
	t.Cleanup(func() {
		leads.CloseClientConnections()
		leads.Close()
	})
	return dial.Proxy{URL: leads.URL}
}
