package subscription_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
	"github.com/mainstay-dev/mainstay/internal/classic/source"
	"github.com/mainstay-dev/mainstay/internal/classic/subscription"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// stable is the default channel of every package of a test.
const stable = "stable"

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var kinds = []func(*runtime.Scheme) error{
	corev1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme, batchv1.AddToScheme, eventsv1.AddToScheme, admissionv1.AddToScheme, v1alpha1.AddToScheme, operatorsv1.AddToScheme,
}

// fixture holds an API server with the controllers of catalogs and Subscriptions. The tests execute InstallPlans.
type fixture struct {
	*env.Fixture
	// namespace has the Subscriptions, global the global catalogs.
	namespace, global string
	// clock is the clock of the controller of Subscriptions. Nil means the system clock.
	clock clock.PassiveClock
	// others are more namespaces with Subscriptions.
	others []string
	// onePlan is set for one InstallPlan per namespace.
	onePlan bool
	// wrapCatalogs returns the catalogs that snapshots are read from. Nil means those of the pool.
	wrapCatalogs func(snapshot.Catalogs) snapshot.Catalogs
}

// newFixtureWithoutControllers creates the namespaces of a test. The first has an OperatorGroup.
func newFixtureWithoutControllers(t *testing.T) (*fixture, *rest.Config) {
	t.Helper()
	c := &fixture{Fixture: env.NewFixture(t, kinds...)}
	c.namespace, c.global = c.NewNamespace("subscriptions-"), c.NewNamespace("subscriptions-")
	c.Must(c.Create(t.Context(), &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}}))
	for _, namespace := range []string{c.namespace, c.global} { // No other test's controllers are to see what stays.
		c.DeleteAllAtEnd(namespace, &v1alpha1.Subscription{}, &v1alpha1.CatalogSource{})
	}

	return c, env.Start(t)
}

// newFixture creates the namespaces and runs the controllers until the test ends.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureWith(t, func(*fixture) {})
}

// newFixtureWith is newFixture with other options of the controllers.
func newFixtureWith(t *testing.T, change func(*fixture)) *fixture {
	t.Helper()
	c, admin := newFixtureWithoutControllers(t)
	change(c)
	c.startControllers(admin)
	return c
}

// startControllers runs the controllers until the test ends.
func (c *fixture) startControllers(connection *rest.Config) {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- runControllers(ctx, connection, c) }()
	c.T.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.T.Errorf("the controllers ended: %v", err)
		}
	})
}

// runControllers runs the controllers for the namespaces of a test.
func runControllers(ctx context.Context, connection *rest.Config, c *fixture) error {
	options := ctrl.Options{Scheme: c.Scheme(), GracefulShutdownTimeout: ptr.To(5 * time.Second)}
	options.Cache.ByObject = source.Cached()
	for object, only := range subscription.Cached() {
		options.Cache.ByObject[object] = only
	}

	options.Cache.DefaultNamespaces = map[string]cache.Config{c.namespace: {}, c.global: {}}
	if len(c.others) > 0 {
		options.Cache.DefaultNamespaces = nil // A cache for each namespace would have hundreds of watches.
	}
	options.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}
	pool := dial.New(dial.Options{})
	defer pool.Close()
	var catalogs snapshot.Catalogs = pool
	if c.wrapCatalogs != nil {
		catalogs = c.wrapCatalogs(pool)
	}
	mgr, err := env.NewManager(connection, options, func(mgr ctrl.Manager) error {
		return errors.Join(
			source.Setup(mgr, source.Options{Pool: pool, ServerVersion: func(context.Context) (string, error) { return "v1.36.0", nil }}),
			subscription.Setup(mgr, subscription.Options{
				Pool: pool, Snapshots: snapshot.New(catalogs, nil), GlobalNamespace: c.global, UnpackTimeout: unpack.DefaultTimeout, Clock: c.clock, OnePlanPerNamespace: c.onePlan,
				Unpacker: &unpack.Unpacker{
					Catalogs: mgr.GetClient(), Trust: unpack.Trust{Global: c.global},
					Jobs: &unpack.Jobs{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Images: unpack.Images{OPM: "opm", Util: "util"}},
				},
			}),
		)
	})
	if err != nil {
		return err
	}

	return mgr.Start(ctx)
}

// eventually waits until a check returns no error.
func (c *fixture) eventually(check func() error) {
	c.T.Helper()
	c.Eventually("the state is reached", check)
}

func (c *fixture) get(object client.Object) error {
	return c.Get(c.T.Context(), client.ObjectKeyFromObject(object), object)
}

// catalogRelease is a bundle of a catalog.
type catalogRelease struct {
	pkg, version, replaces string
	channel                string // empty for stable
	image                  string // empty for one whose manifests the catalog has
	properties             []string
	deprecated             string
}

func (r catalogRelease) name() string { return r.pkg + ".v" + r.version }

// provides and requires are properties.
func provides(kind string) string { return gvk("olm.gvk", kind) }
func requires(kind string) string { return gvk("olm.gvk.required", kind) }
func gvk(property, kind string) string {
	return fmt.Sprintf(`{"type":%q,"value":{"group":"example.com","version":"v1","kind":%q}}`, property, kind)
}

// csv is the ClusterServiceVersion of a release.
func (r catalogRelease) csv() string {
	return fmt.Sprintf(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":%q},
		"spec":{"displayName":%q,"version":%q,"replaces":"what the bundle says","install":{"strategy":"deployment","spec":{"deployments":[],
		"permissions":[{"serviceAccountName":"worker","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}]}}}}`, r.name(), r.pkg, r.version)
}

// renderFBC writes releases as a file-based catalog.
func renderFBC(releases ...catalogRelease) string {
	var text strings.Builder
	type channel struct{ pkg, name string }
	var channels []channel
	entries := map[channel][]string{}
	for _, r := range releases {
		if r.channel == "" {
			r.channel = stable
		}

		at := channel{r.pkg, r.channel}
		if entries[at] == nil {
			channels = append(channels, at)
		}

		entries[at] = append(entries[at], fmt.Sprintf(`{"name":%q,"replaces":%q}`, r.name(), r.replaces))
		properties := append([]string{fmt.Sprintf(`{"type":"olm.package","value":{"packageName":%q,"version":%q}}`, r.pkg, r.version)}, r.properties...)
		if r.image == "" {
			for _, manifest := range []string{r.csv(), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"extra"}}`} {
				properties = append(properties, fmt.Sprintf(`{"type":"olm.bundle.object","value":{"data":%q}}`, base64.StdEncoding.EncodeToString([]byte(manifest))))
			}
		}

		fmt.Fprintf(&text, `{"schema":"olm.bundle","package":%q,"name":%q,"image":%q,"properties":[%s]}`+"\n", r.pkg, r.name(), r.image, strings.Join(properties, ","))
		if r.deprecated != "" {
			fmt.Fprintf(&text, `{"schema":"olm.deprecations","package":%q,"entries":[{"reference":{"schema":"olm.bundle","name":%q},"message":%q},{"reference":{"schema":"olm.package"},"message":"the package is old"},{"reference":{"schema":"olm.channel","name":"stable"},"message":"the channel is old"}]}`+"\n", r.pkg, r.name(), r.deprecated)
		}
	}

	seen := map[string]bool{}
	for _, at := range channels {
		if !seen[at.pkg] {
			seen[at.pkg] = true
			fmt.Fprintf(&text, `{"schema":"olm.package","name":%q,"defaultChannel":"stable"}`+"\n", at.pkg)
		}
		fmt.Fprintf(&text, `{"schema":"olm.channel","package":%q,"name":%q,"entries":[%s]}`+"\n", at.pkg, at.name, strings.Join(entries[at], ","))
	}

	return text.String()
}

// serveCatalog runs a catalog until the test ends, or it is stopped. An empty address is any.
func serveCatalog(t testing.TB, address string, releases ...catalogRelease) (at string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(renderFBC(releases...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return catalogserver.Serve(t, address, content.Folder{Dir: dir})
}

// createCatalog creates a CatalogSource that is served at an address.
func (c *fixture) createCatalog(namespace, name, address string) *v1alpha1.CatalogSource {
	c.T.Helper()
	catalog := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address},
	}
	c.Must(c.Create(c.T.Context(), catalog))
	return catalog
}

// waitUntilConnected waits until the controllers are connected to catalogs.
func (c *fixture) waitUntilConnected(catalogs ...*v1alpha1.CatalogSource) {
	c.T.Helper()
	for _, catalog := range catalogs {
		c.Eventually("catalog "+catalog.Name+" is connected", func() error {
			if err := c.get(catalog); err != nil {
				return err
			}
			if state := catalog.Status.GRPCConnectionState; state == nil || state.LastObservedState != "READY" {
				return fmt.Errorf("the state of its connection is %+v", state)
			}
			return nil
		})
	}
}

// createSubscription creates a Subscription to the global catalog "c".
func (c *fixture) createSubscription(pkg string, change ...func(*v1alpha1.Subscription)) *v1alpha1.Subscription {
	c.T.Helper()
	sub := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: pkg},
		Spec:       v1alpha1.SubscriptionSpec{CatalogSource: "c", CatalogSourceNamespace: c.global, Package: pkg, Channel: stable},
	}
	for _, f := range change {
		f(sub)
	}

	c.Must(c.Create(c.T.Context(), sub))
	return sub
}

func startingAt(csv string) func(*v1alpha1.Subscription) {
	return func(s *v1alpha1.Subscription) { s.Spec.StartingCSV = csv }
}

// waitForStatus waits until the status of a Subscription satisfies a condition.
func (c *fixture) waitForStatus(sub *v1alpha1.Subscription, isSo func(*v1alpha1.SubscriptionStatus) bool) {
	c.T.Helper()
	c.eventually(func() error {
		if err := c.get(sub); err != nil {
			return err
		}
		if !isSo(&sub.Status) {
			text, _ := json.Marshal(sub.Status)
			return fmt.Errorf("subscription %s: %s", sub.Name, text)
		}
		return nil
	})
}

// waitForEvent waits for a warning about an object of the namespace, or about the namespace, whose note starts with a text.
func (c *fixture) waitForEvent(reason, about, start string) {
	c.T.Helper()
	c.WaitForEvent(fmt.Sprintf("%s about %s: %q", reason, about, start), func(e *eventsv1.Event) bool {
		isHere := e.Regarding.Namespace == c.namespace || e.Regarding.Name == c.namespace
		return isHere && e.Reason == reason && e.Regarding.Name == about && e.Type == corev1.EventTypeWarning && strings.HasPrefix(e.Note, start)
	})
}

// condition returns a condition; the zero value when there is none.
func condition(s *v1alpha1.SubscriptionStatus, kind string) v1alpha1.SubscriptionCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1alpha1.SubscriptionCondition{}
}

// waitForPlan waits until a Subscription has a plan for a ClusterServiceVersion, which has its steps.
func (c *fixture) waitForPlan(sub *v1alpha1.Subscription, csv string) *v1alpha1.InstallPlan {
	c.T.Helper()
	plan := &v1alpha1.InstallPlan{}
	c.eventually(func() error {
		if err := c.get(sub); err != nil {
			return err
		}

		text, _ := json.Marshal(sub.Status)
		if sub.Status.InstallPlanRef == nil || sub.Status.CurrentCSV != csv {
			return fmt.Errorf("subscription %s: %s", sub.Name, text)
		}

		plan.Namespace, plan.Name = sub.Namespace, sub.Status.InstallPlanRef.Name
		if err := c.get(plan); err != nil {
			return err
		}
		if len(plan.Status.Plan) == 0 {
			return fmt.Errorf("plan %s has no steps yet", plan.Name)
		}

		return nil
	})

	return plan
}

// executePlan executes an InstallPlan: it creates its ClusterServiceVersions and Subscriptions and deletes the
// replaced ClusterServiceVersions.
func (c *fixture) executePlan(plan *v1alpha1.InstallPlan) {
	c.T.Helper()
	for _, step := range plan.Status.Plan {
		switch step.Resource.Kind {
		case v1alpha1.ClusterServiceVersionKind:
			csv := &v1alpha1.ClusterServiceVersion{}
			c.Must(json.Unmarshal([]byte(step.Resource.Manifest), csv))
			c.installCSV(csv)
		case v1alpha1.SubscriptionKind:
			sub := &v1alpha1.Subscription{}
			c.Must(json.Unmarshal([]byte(step.Resource.Manifest), sub))
			sub.Annotations = map[string]string{v1alpha1.AnnotationGeneratedBy: plan.Name}
			c.Must(client.IgnoreAlreadyExists(c.Create(c.T.Context(), sub)))
		}
	}

	c.PatchStatus(plan, func() { plan.Status.Phase = v1alpha1.InstallPlanPhaseComplete })
}

// installCSV creates a succeeded ClusterServiceVersion, and deletes the one that it replaces.
func (c *fixture) installCSV(csv *v1alpha1.ClusterServiceVersion) {
	c.T.Helper()
	csv.Namespace = c.namespace
	c.Must(client.IgnoreAlreadyExists(c.Create(c.T.Context(), csv)))
	c.PatchStatus(csv, func() { csv.Status.Phase = v1alpha1.CSVPhaseSucceeded })
	if csv.Spec.Replaces != "" {
		old := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: csv.Spec.Replaces}}
		c.Must(client.IgnoreNotFound(c.Delete(c.T.Context(), old)))
	}
}

// listPlans returns the InstallPlans of the namespace.
func (c *fixture) listPlans() []v1alpha1.InstallPlan {
	c.T.Helper()
	var plans v1alpha1.InstallPlanList
	c.Must(c.List(c.T.Context(), &plans, client.InNamespace(c.namespace)))
	return plans.Items
}

// steps returns those of a plan as KIND NAME.
func steps(plan *v1alpha1.InstallPlan) []string {
	var all []string
	for _, step := range plan.Status.Plan {
		name, _, _ := strings.Cut(step.Resource.Name, "-worker-") // Hashes follow.
		all = append(all, step.Resource.Kind+" "+name)
	}
	return all
}

func has(all []string, one string) bool { return slices.Contains(all, one) }
