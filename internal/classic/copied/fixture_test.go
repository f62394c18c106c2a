package copied_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/copied"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// waitTimeout limits every wait of a test.
const waitTimeout = 2 * time.Minute

// protected is a namespace that has copies even when they are disabled.
const protected = "protected"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(env.Run(m))
}

// fixture holds an API server with the controllers of copied CSVs. The tests set the statuses of OperatorGroups and
// ClusterServiceVersions.
type fixture struct {
	t *testing.T
	client.Client
	counter *requestCounter
	// stop stops the controllers.
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{t: t, Client: env.Client(t, corev1.AddToScheme, rbacv1.AddToScheme, operatorsv1.AddToScheme, v1alpha1.AddToScheme)}
	c.createNamespace(protected)
	// Objects of other tests must not be counted.
	var list v1alpha1.ClusterServiceVersionList
	c.must(c.List(t.Context(), &list, client.HasLabels{"olm.copiedFrom"}))
	for i := range list.Items {
		c.must(c.Delete(t.Context(), &list.Items[i]))
	}

	c.startControllers()
	return c
}

// startControllers runs the controllers until stop is called or the test ends.
func (c *fixture) startControllers() {
	c.t.Helper()
	c.counter = &requestCounter{counts: map[string]int{}}
	rights := env.ConfigWithRoles(c.t, "config/classic/olm-operator/role.yaml")
	rights.QPS = -1
	rights.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &countingTransport{requestCounter: c.counter, next: next}
	})
	notCopied, err := labels.Parse("!olm.copiedFrom")
	c.must(err)
	mgr, err := ctrl.NewManager(rights, ctrl.Options{
		Scheme: c.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.ClusterServiceVersion{}: {Label: notCopied}}},
	})
	c.must(err)
	marked, err := group.NewCache(mgr)
	c.must(err)
	c.must(copied.Setup(mgr, copied.Options{Marked: marked, ProtectedNamespaces: []string{protected}}))
	c.stop = env.StartManager(c.t, mgr)
}

// requestCounter counts requests for ClusterServiceVersions by kind of request.
type requestCounter struct {
	mu     sync.Mutex
	counts map[string]int
	// answered is called for each response, before the client receives it.
	answered func(*http.Request)
}

// countingTransport counts the requests that it sends.
type countingTransport struct {
	*requestCounter
	next http.RoundTripper
}

// RoundTrip counts a request, unless an informer sent it.
func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, "/apis/operators.coreos.com/v1alpha1/")
	isInformer := strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") || r.URL.Query().Get("watch") != "" || !strings.Contains(r.URL.RawQuery, "fieldSelector")
	switch {
	case !strings.Contains(path, "clusterserviceversions"):
	case r.Method == http.MethodGet && !strings.HasPrefix(path, "namespaces/"):
		if !isInformer {
			c.add("list")
		}
	case strings.HasSuffix(path, "/status"):
		c.add("status")
	default:
		c.add(strings.ToLower(r.Method))
	}

	response, err := c.next.RoundTrip(r)
	c.mu.Lock()
	answered := c.answered
	c.mu.Unlock()
	if answered != nil {
		answered(r)
	}

	return response, err
}

// onResponse sets a function that is called for each response.
func (c *requestCounter) onResponse(f func(*http.Request)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = f
}

func (c *requestCounter) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// reset returns the counts and sets them to zero.
func (c *requestCounter) reset() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = map[string]int{}
	return counts
}

func (c *fixture) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *fixture) eventually(what string, holds func() bool) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(c.t.Context(), 20*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func (c *fixture) createNamespace(name string) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Fatal(err)
	}
}

// createGroup creates a namespace with a group whose status has targets.
func (c *fixture) createGroup(namespace string, targets ...string) *operatorsv1.OperatorGroup {
	c.t.Helper()
	c.createNamespace(namespace)
	g := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"}}
	c.must(c.Create(c.t.Context(), g))
	c.setTargets(g, targets...)
	c.t.Cleanup(func() {
		for _, object := range []client.Object{&operatorsv1.OperatorGroup{}, &v1alpha1.ClusterServiceVersion{}} {
			if err := c.DeleteAllOf(context.Background(), object, client.InNamespace(namespace)); err != nil {
				c.t.Error(err)
			}
		}
	})

	return g
}

// setTargets sets the target namespaces of a group.
func (c *fixture) setTargets(g *operatorsv1.OperatorGroup, targets ...string) {
	c.t.Helper()
	g.Status.Namespaces, g.Status.LastUpdated = targets, &metav1.Time{Time: time.Now()}
	c.must(c.Status().Update(c.t.Context(), g))
}

// createCSV creates an installed ClusterServiceVersion that is a member of the group of its namespace.
func (c *fixture) createCSV(namespace, name, targets string) *v1alpha1.ClusterServiceVersion {
	c.t.Helper()
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Annotations: map[string]string{"olm.operatorGroup": "og", "olm.operatorNamespace": namespace, "olm.targetNamespaces": targets, "mine": "1"},
		Labels:      map[string]string{"operators.coreos.com/x.y": "", "mine": "1"},
	}}
	csv.Spec.DisplayName = name
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{}
	c.must(c.Create(c.t.Context(), csv))
	c.setStatus(csv, v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)

	return csv
}

func (c *fixture) setStatus(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase, reason string) {
	c.t.Helper()
	data, err := json.Marshal(map[string]any{"status": map[string]any{"phase": phase, "reason": reason}})
	c.must(err)
	c.must(c.Status().Patch(c.t.Context(), csv, client.RawPatch("application/merge-patch+json", data)))
}

// addPermissions adds permissions to a ClusterServiceVersion.
func (c *fixture) addPermissions(csv *v1alpha1.ClusterServiceVersion, account string, rules ...rbacv1.PolicyRule) {
	c.t.Helper()
	before := csv.DeepCopy()
	permissions := &csv.Spec.InstallStrategy.StrategySpec.Permissions
	*permissions = append(*permissions, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: rules})
	c.must(c.Patch(c.t.Context(), csv, client.MergeFrom(before)))
}

// deleteRolesAtEnd stops the controllers and deletes the Roles and RoleBindings of namespaces at the end of the test.
func (c *fixture) deleteRolesAtEnd(namespaces ...string) {
	c.t.Cleanup(func() {
		c.stop()
		for _, namespace := range namespaces {
			for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
				if err := c.DeleteAllOf(context.Background(), object, client.InNamespace(namespace)); err != nil {
					c.t.Error(err)
				}
			}
		}
	})
}

// setAnnotation sets an annotation of a ClusterServiceVersion.
func (c *fixture) setAnnotation(csv *v1alpha1.ClusterServiceVersion, key, value string) {
	c.t.Helper()
	data := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	c.must(c.Patch(c.t.Context(), csv, client.RawPatch("application/merge-patch+json", []byte(data))))
}

// listCopies returns the copies of a ClusterServiceVersion that have a status, by namespace.
func (c *fixture) listCopies(csv *v1alpha1.ClusterServiceVersion) map[string]*v1alpha1.ClusterServiceVersion {
	c.t.Helper()
	var list v1alpha1.ClusterServiceVersionList
	c.must(c.List(c.t.Context(), &list, client.MatchingLabels{"olm.copiedFrom": csv.Namespace}))
	found := map[string]*v1alpha1.ClusterServiceVersion{}
	for i := range list.Items {
		if copied := &list.Items[i]; copied.Name == csv.Name && copied.Status.Reason == v1alpha1.CSVReasonCopied {
			found[copied.Namespace] = copied
		}
	}

	return found
}

// hasCopiesIn returns a function that reports whether copies are in exactly these namespaces.
func (c *fixture) hasCopiesIn(csv *v1alpha1.ClusterServiceVersion, namespaces ...string) func() bool {
	return func() bool {
		c.t.Helper()
		found := c.listCopies(csv)
		return len(found) == len(namespaces) && !slices.ContainsFunc(namespaces, func(n string) bool { return found[n] == nil })
	}
}

// allNamespacesExcept returns all namespaces but one.
func (c *fixture) allNamespacesExcept(but string) []string {
	c.t.Helper()
	var list corev1.NamespaceList
	c.must(c.List(c.t.Context(), &list))
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() && list.Items[i].Name != but {
			names = append(names, list.Items[i].Name)
		}
	}

	return names
}
