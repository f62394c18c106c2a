package node_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
	"github.com/mainstay-dev/mainstay/internal/node"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) {
	os.Exit(env.RunAndCheckRights(m, env.ShippedRights{
		Files:   []string{"config/machine-config/controller_role.yaml", "config/machine-config/daemon_role.yaml", "config/machine-config/server_role.yaml"},
		Account: accountUser, Unused: unusedRights,
	}))
}

// unusedRights are the rights that the tests of this package need not use, each with the situation in which a program
// uses it.
var unusedRights = map[string]string{
	"machine-config-controller: get machineconfigs.machineconfiguration.openshift.io":                   "the cache does not have a configuration that was just created",
	"machine-config-controller: patch events.events.k8s.io":                                             "an event repeats for longer than a minute",
	"machine-config-daemon: patch events.events.k8s.io":                                                 "an event repeats for longer than a minute",
	"machine-config-controller: update machineconfigpools/finalizers.machineconfiguration.openshift.io": "the API server has the admission plugin OwnerReferencesPermissionEnforcement",
}

// kinds are the kinds that the tests use.
var kinds = []func(*runtime.Scheme) error{
	corev1.AddToScheme, policyv1.AddToScheme, eventsv1.AddToScheme, mcfgv1.AddToScheme, configv1.AddToScheme, operatorv1.AddToScheme,
}

// fixture is a cluster whose daemons are simulated.
type fixture struct {
	*env.Fixture
	daemons *daemonSimulator
	// stop ends the component.
	stop func()
	// refused counts the writes of the component that the API server could not execute.
	refused atomic.Int64
}

// start runs the component and the simulated daemons. The objects of the test are removed at its end.
func start(t *testing.T, o node.Options) *fixture {
	t.Helper()
	c := newFixture(t)
	c.control(o)

	return c
}

// newFixture returns a cluster without the component and the simulated daemons.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: env.NewFixture(t, kinds...), daemons: &daemonSimulator{held: map[string]bool{}, configs: map[string][]string{}}}
	apply(t, c, manifests(t, shipped(t)...))
	c.clear()
	t.Cleanup(c.clear)

	return c
}

// control runs the component with only the rights that it is shipped with. It stops the component first if it already runs.
func (c *fixture) control(o node.Options) {
	c.T.Helper()
	if c.stop != nil {
		c.stop()
	}

	limited := c.connectAs("machine-config-controller")
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &countingTransport{refused: &c.refused, next: next}
	})
	c.stop = c.run(limited, ctrl.Options{}, func(mgr ctrl.Manager) error {
		c.daemons.client = mgr.GetClient()
		return errors.Join(setUpNode(mgr, o), c.daemons.setup(mgr))
	})
}

// setUpNode adds the component to a manager, with short intervals by default.
func setUpNode(mgr ctrl.Manager, o node.Options) error {
	o.Program = cmp.Or(o.Program, "v1.2.3")
	o.Settle = cmp.Or(o.Settle, 50*time.Millisecond)
	return node.Setup(mgr, o)
}

// simulateDaemons runs the simulated daemons without the component.
func (c *fixture) simulateDaemons() {
	c.T.Helper()
	c.run(restOf(c.T), ctrl.Options{}, func(mgr ctrl.Manager) error {
		c.daemons.client = mgr.GetClient()
		return c.daemons.setup(mgr)
	})
}

// countingTransport counts the writes that the API server could not execute.
type countingTransport struct {
	refused *atomic.Int64
	next    http.RoundTripper
}

func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && request.Method != http.MethodGet && response.StatusCode >= http.StatusInternalServerError && !strings.HasSuffix(request.URL.Path, "/events") {
		t.refused.Add(1)
	}
	return response, err
}

// clear deletes the objects of tests.
func (c *fixture) clear() {
	c.T.Helper()
	ctx := context.Background() // The context of the test has ended.
	for _, object := range []client.Object{&mcfgv1.MachineConfigPool{}, &mcfgv1.MachineConfig{}, &corev1.Node{}, &configv1.ClusterOperator{}} {
		if err := c.DeleteAllOf(ctx, object); err != nil {
			c.T.Error(err)
		}
	}

	for _, object := range []client.Object{&corev1.Pod{}, &policyv1.PodDisruptionBudget{}, &eventsv1.Event{}} {
		if err := c.DeleteAllOf(ctx, object, client.InNamespace("default"), client.GracePeriodSeconds(0)); err != nil {
			c.T.Error(err)
		}
	}
}

// node creates a ready node with a role.
func (c *fixture) node(name, role string, labels ...string) {
	c.T.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role/" + role: ""}}}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		n.Labels[key] = value
	}

	c.Must(c.Create(c.T.Context(), n))
	// The API server taints new nodes. The component may have changed the node since.
	c.PatchObject(n, func() { n.Spec.Taints = nil })
	c.ready(name, corev1.ConditionTrue)
}

func (c *fixture) ready(name string, status corev1.ConditionStatus) {
	c.T.Helper()
	n := &corev1.Node{}
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Name: name}, n))
	c.PatchStatus(n, func() { n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}} })
}

// kubelet sets the version of the kubelet of a node, some minor versions older than the API server.
func (c *fixture) kubelet(name string, behind int) {
	c.T.Helper()
	server, err := discovery.NewDiscoveryClientForConfig(restOf(c.T))
	c.Must(err)
	info, err := server.ServerVersion()
	c.Must(err)
	v, err := version.ParseGeneric(info.GitVersion)
	c.Must(err)
	n := c.getNode(name)
	c.PatchStatus(n, func() { n.Status.NodeInfo.KubeletVersion = fmt.Sprintf("v%d.%d.0", v.Major(), int(v.Minor())-behind) })
}

// operator waits until the status of ClusterOperator machine-config has the described state.
func (c *fixture) operator(what string, is func(*configv1.ClusterOperatorStatus) bool) {
	c.T.Helper()
	c.eventually("ClusterOperator machine-config "+what, func() bool {
		operator := &configv1.ClusterOperator{}
		return c.Get(c.T.Context(), client.ObjectKey{Name: "machine-config"}, operator) == nil && is(&operator.Status)
	})
}

// hasCondition reports whether a ClusterOperator has a condition.
func hasCondition(s *configv1.ClusterOperatorStatus, conditionType string, status metav1.ConditionStatus, reason string) bool {
	return slices.ContainsFunc(s.Conditions, func(x configv1.ClusterOperatorStatusCondition) bool {
		return x.Type == conditionType && x.Status == status && x.Reason == reason
	})
}

// pool creates a pool that selects a role.
func (c *fixture) pool(name, maxUnavailable string) {
	c.T.Helper()
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role/" + name: ""}}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: mcfgv1.LabelRole, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact([]string{name, "worker"})},
	}}
	if name == mcfgv1.PoolMaster {
		p.Spec.MachineConfigSelector.MatchExpressions[0].Values = []string{name}
	}
	if maxUnavailable != "" {
		most := intstr.Parse(maxUnavailable)
		p.Spec.MaxUnavailable = &most
	}

	c.Must(c.Create(c.T.Context(), p))
}

func (c *fixture) edit(name string, change func(*mcfgv1.MachineConfigPool)) {
	c.T.Helper()
	p := c.getPool(name)
	c.PatchObject(p, func() { change(p) })
}

// config creates or updates a MachineConfig with one file.
func (c *fixture) config(name, role, content string) {
	c.T.Helper()
	c.raw(name, role, fmt.Sprintf(`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/%s","contents":{"source":"data:,%s"}}]}}`, name, content))
}

func (c *fixture) raw(name, role, raw string) {
	c.T.Helper()
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.Get(c.T.Context(), client.ObjectKeyFromObject(mc), mc)
	mc.Labels, mc.Spec.Config.Raw = map[string]string{mcfgv1.LabelRole: role}, []byte(raw)
	if apierrors.IsNotFound(err) {
		err = c.Create(c.T.Context(), mc)
	} else if err == nil {
		err = c.Update(c.T.Context(), mc)
	}

	c.Must(err)
}

func (c *fixture) getPool(name string) *mcfgv1.MachineConfigPool {
	c.T.Helper()
	p := &mcfgv1.MachineConfigPool{}
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Name: name}, p))
	return p
}

func (c *fixture) getNode(name string) *corev1.Node {
	c.T.Helper()
	n := &corev1.Node{}
	c.Must(c.Get(c.T.Context(), client.ObjectKey{Name: name}, n))
	return n
}

// eventually waits for a state.
func (c *fixture) eventually(what string, is func() bool) {
	c.T.Helper()
	c.EventuallyTrue(what, is, c.describe)
}

func (c *fixture) describe() string {
	var b strings.Builder
	var list mcfgv1.MachineConfigPoolList
	c.Must(c.List(c.T.Context(), &list))
	for _, p := range list.Items {
		fmt.Fprintf(&b, "pool %s: %+v\n", p.Name, p.Status)
	}

	var nodes corev1.NodeList
	c.Must(c.List(c.T.Context(), &nodes, client.Limit(10)))
	for _, n := range nodes.Items {
		fmt.Fprintf(&b, "node %s: %s unschedulable %v %v\n", n.Name, pools.NotReady(&n), n.Spec.Unschedulable, n.Annotations)
	}

	return b.String()
}

// updated waits until all nodes of a pool have its configuration, and returns the name of the configuration.
func (c *fixture) updated(name string, files ...string) string {
	c.T.Helper()
	target := ""
	c.eventually("pool "+name+" is updated", func() bool {
		p := c.getPool(name)
		if p.Status.ObservedGeneration != p.Generation || !pools.Is(p, mcfgv1.PoolUpdated) || p.Status.Configuration.Name != p.Spec.Configuration.Name {
			return false
		}
		target = p.Status.Configuration.Name
		return c.holds(target, files...)
	})

	return target
}

// holds reports whether a rendered configuration contains all texts.
func (c *fixture) holds(name string, texts ...string) bool {
	c.T.Helper()
	mc := &mcfgv1.MachineConfig{}
	if err := c.Get(c.T.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		return false
	}
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(string(mc.Spec.Config.Raw), text) })
}

// waitForDesired waits until exactly these nodes have a configuration as the desired one.
func (c *fixture) waitForDesired(target string, names ...string) {
	c.T.Helper()
	c.eventually(fmt.Sprintf("%s is desired for %v", target, names), func() bool {
		var list corev1.NodeList
		c.Must(c.List(c.T.Context(), &list))
		var got []string
		for i := range list.Items {
			if pools.Desired(&list.Items[i]) == target {
				got = append(got, list.Items[i].Name)
			}
		}

		return slices.Equal(got, names)
	})
}

// event waits for an event.
func (c *fixture) event(reason, text string) {
	c.T.Helper()
	c.WaitForEvent(reason+" "+text, func(e *eventsv1.Event) bool { return e.Reason == reason && strings.Contains(e.Note, text) })
}

// pod creates a pod on a node. It terminates as soon as it is evicted.
func (c *fixture) pod(name, node string, labels map[string]string, edit ...func(*corev1.Pod)) {
	c.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
	p.Spec = corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0),
		Containers:  []corev1.Container{{Name: "a", Image: "registry.example.com/a"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
	for _, e := range edit {
		e(p)
	}

	c.Must(c.Create(c.T.Context(), p))
	// A disruption budget counts ready pods.
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	c.Must(c.Status().Update(c.T.Context(), p))
}

// daemonSimulator acts as the daemons of all nodes.
type daemonSimulator struct {
	client client.Client

	mu sync.Mutex
	// held are nodes that do not return from their reboot.
	held map[string]bool
	// configs are the configurations that each node has applied, in their order.
	configs map[string][]string
}

func (d *daemonSimulator) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("daemons").For(&corev1.Node{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).Complete(d)
}

func (d *daemonSimulator) hold(names ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		d.held[name] = true
	}
}

// recordConfig records that a node applies a configuration. It ignores a repetition, because the cache can be outdated.
func (d *daemonSimulator) recordConfig(name, config string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if applied := d.configs[name]; len(applied) == 0 || applied[len(applied)-1] != config {
		d.configs[name] = append(applied, config)
	}
}

func (d *daemonSimulator) count(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.configs[name])
}

func (d *daemonSimulator) isHeld(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[name]
}

// release allows a node to return from its reboot.
func (c *fixture) release(name string) {
	c.T.Helper()
	c.daemons.mu.Lock()
	delete(c.daemons.held, name)
	c.daemons.mu.Unlock()
	// A change of the node enqueues it.
	n := c.getNode(name)
	c.PatchObject(n, func() { n.Labels["released"] = n.ResourceVersion })
}

// Reconcile performs the next step of a node, unless a real daemon runs for it.
func (d *daemonSimulator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if strings.HasPrefix(req.Name, "real-") {
		return ctrl.Result{}, nil
	}

	n := &corev1.Node{}
	if err := d.client.Get(ctx, req.NamespacedName, n); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	before := n.DeepCopy()
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}

	a := n.Annotations
	desired := a[mcfgv1.AnnotationDesiredConfig]
	drain := mcfgv1.DrainPrefix + desired
	switch {
	case desired == "" || desired == a[mcfgv1.AnnotationCurrentConfig]:
		a[mcfgv1.AnnotationState] = string(mcfgv1.NodeDone)
	case a[mcfgv1.AnnotationLastAppliedDrain] != drain && a[mcfgv1.AnnotationTopology] != mcfgv1.TopologySingleReplica:
		a[mcfgv1.AnnotationState], a[mcfgv1.AnnotationDesiredDrain] = string(mcfgv1.NodeWorking), drain
	case d.isHeld(n.Name):
		a[mcfgv1.AnnotationState] = string(mcfgv1.NodeRebooting)
	default:
		d.recordConfig(n.Name, desired)
		a[mcfgv1.AnnotationState], a[mcfgv1.AnnotationCurrentConfig] = string(mcfgv1.NodeDone), desired
		a[mcfgv1.AnnotationDesiredDrain] = mcfgv1.UncordonPrefix + desired
		if a[mcfgv1.AnnotationTopology] == mcfgv1.TopologySingleReplica {
			delete(a, mcfgv1.AnnotationDesiredDrain)
		}
	}

	patch := client.MergeFrom(before)
	if data, err := patch.Data(n); err != nil || string(data) == "{}" {
		return ctrl.Result{}, err
	}

	return ctrl.Result{}, client.IgnoreNotFound(d.client.Patch(ctx, n, patch))
}

// restOf returns a connection without a rate limit.
func restOf(t testing.TB) *rest.Config {
	config := env.Start(t)
	config.QPS = -1
	return config
}

// makeNodes creates nodes with an earlier configuration, and a pod on each.
func makeNodes(c *fixture, count int) {
	c.T.Helper()
	work := errgroup.Group{}
	work.SetLimit(8)
	for i := range count {
		name := fmt.Sprintf("n%04d", i)
		work.Go(func() error {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role/worker": ""}, Annotations: map[string]string{
				mcfgv1.AnnotationCurrentConfig: "rendered-worker-before", mcfgv1.AnnotationDesiredConfig: "rendered-worker-before", mcfgv1.AnnotationState: string(mcfgv1.NodeDone),
			}}}
			if err := c.Create(c.T.Context(), n); err != nil {
				return err
			}

			before := n.DeepCopy()
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			if err := c.Status().Patch(c.T.Context(), n, client.MergeFrom(before)); err != nil {
				return err
			}

			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			p.Spec = corev1.PodSpec{
				NodeName: name, TerminationGracePeriodSeconds: ptr.To[int64](0),
				Containers: []corev1.Container{{Name: "a", Image: "registry.example.com/a"}},
			}
			return c.Create(c.T.Context(), p)
		})
	}

	c.Must(work.Wait())
}
