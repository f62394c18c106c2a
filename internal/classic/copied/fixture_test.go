package copied_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/copied"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// protected is a namespace that has copies even when they are disabled.
const protected = "protected"

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture holds an API server with the controllers of copied CSVs. The tests set the statuses of OperatorGroups and
// ClusterServiceVersions.
type fixture struct {
	*env.Fixture
	counter *requestCounter
	// stop stops the controllers.
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: env.NewFixture(t, corev1.AddToScheme, rbacv1.AddToScheme, operatorsv1.AddToScheme, v1alpha1.AddToScheme)}
	c.EnsureNamespace(protected)
	// Objects of other tests must not be counted.
	var list v1alpha1.ClusterServiceVersionList
	c.Must(c.List(t.Context(), &list, client.HasLabels{"olm.copiedFrom"}))
	for i := range list.Items {
		c.Must(c.Delete(t.Context(), &list.Items[i]))
	}

	c.startControllers()
	return c
}

// startControllers runs the controllers until stop is called or the test ends.
func (c *fixture) startControllers() {
	c.T.Helper()
	c.counter = &requestCounter{counts: map[string]int{}}
	notCopied, err := labels.Parse("!olm.copiedFrom")
	c.Must(err)
	_, c.stop = c.StartManager(env.Manager{
		Roles: "config/classic/olm-operator/role.yaml",
		Connect: func(connection *rest.Config) {
			connection.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return &countingTransport{requestCounter: c.counter, next: next}
			})
		},
		Options: ctrl.Options{Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.ClusterServiceVersion{}: {Label: notCopied}}}},
		Setup: func(mgr ctrl.Manager) error {
			marked, err := group.NewCache(mgr)
			if err != nil {
				return err
			}
			return copied.Setup(mgr, copied.Options{Marked: marked, ProtectedNamespaces: []string{protected}})
		},
	})
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

// createGroup creates a namespace with a group whose status has targets.
func (c *fixture) createGroup(namespace string, targets ...string) *operatorsv1.OperatorGroup {
	c.T.Helper()
	c.EnsureNamespace(namespace)
	g := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"}}
	c.Must(c.Create(c.T.Context(), g))
	c.setTargets(g, targets...)
	c.DeleteAllAtEnd(namespace, &operatorsv1.OperatorGroup{}, &v1alpha1.ClusterServiceVersion{})
	return g
}

// setTargets sets the target namespaces of a group.
func (c *fixture) setTargets(g *operatorsv1.OperatorGroup, targets ...string) {
	c.T.Helper()
	g.Status.Namespaces, g.Status.LastUpdated = targets, &metav1.Time{Time: time.Now()}
	c.Must(c.Status().Update(c.T.Context(), g))
}

// createCSV creates an installed ClusterServiceVersion that is a member of the group of its namespace.
func (c *fixture) createCSV(namespace, name, targets string) *v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	csv := builder.CSV(namespace, name)
	csv.Annotations = map[string]string{"olm.operatorGroup": "og", "olm.operatorNamespace": namespace, "olm.targetNamespaces": targets, "mine": "1"}
	csv.Labels = map[string]string{"operators.coreos.com/x.y": "", "mine": "1"}
	c.Must(c.Create(c.T.Context(), csv))
	c.setStatus(csv, v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful)

	return csv
}

func (c *fixture) setStatus(csv *v1alpha1.ClusterServiceVersion, phase v1alpha1.ClusterServiceVersionPhase, reason string) {
	c.T.Helper()
	data, err := json.Marshal(map[string]any{"status": map[string]any{"phase": phase, "reason": reason}})
	c.Must(err)
	c.Must(c.Status().Patch(c.T.Context(), csv, client.RawPatch("application/merge-patch+json", data)))
}

// addPermissions adds permissions to a ClusterServiceVersion.
func (c *fixture) addPermissions(csv *v1alpha1.ClusterServiceVersion, account string, rules ...rbacv1.PolicyRule) {
	c.T.Helper()
	before := csv.DeepCopy()
	permissions := &csv.Spec.InstallStrategy.StrategySpec.Permissions
	*permissions = append(*permissions, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: rules})
	c.Must(c.Patch(c.T.Context(), csv, client.MergeFrom(before)))
}

// deleteRolesAtEnd stops the controllers and deletes the Roles and RoleBindings of namespaces at the end of the test.
func (c *fixture) deleteRolesAtEnd(namespaces ...string) {
	for _, namespace := range namespaces {
		c.DeleteAllAtEnd(namespace, &rbacv1.Role{}, &rbacv1.RoleBinding{})
	}
	c.T.Cleanup(func() { c.stop() }) // before the deletions
}

// setAnnotation sets an annotation of a ClusterServiceVersion.
func (c *fixture) setAnnotation(csv *v1alpha1.ClusterServiceVersion, key, value string) {
	c.T.Helper()
	data := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	c.Must(c.Patch(c.T.Context(), csv, client.RawPatch("application/merge-patch+json", []byte(data))))
}

// listCopies returns the copies of a ClusterServiceVersion that have a status, by namespace.
func (c *fixture) listCopies(csv *v1alpha1.ClusterServiceVersion) map[string]*v1alpha1.ClusterServiceVersion {
	c.T.Helper()
	var list v1alpha1.ClusterServiceVersionList
	c.Must(c.List(c.T.Context(), &list, client.MatchingLabels{"olm.copiedFrom": csv.Namespace}))
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
		c.T.Helper()
		found := c.listCopies(csv)
		return len(found) == len(namespaces) && !slices.ContainsFunc(namespaces, func(n string) bool { return found[n] == nil })
	}
}

// allNamespacesExcept returns all namespaces but one.
func (c *fixture) allNamespacesExcept(but string) []string {
	c.T.Helper()
	var list corev1.NamespaceList
	c.Must(c.List(c.T.Context(), &list))
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() && list.Items[i].Name != but {
			names = append(names, list.Items[i].Name)
		}
	}

	return names
}
