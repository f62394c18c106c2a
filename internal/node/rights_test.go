package node_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node"
	"github.com/mainstay-dev/mainstay/internal/node/daemon"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	nodeserver "github.com/mainstay-dev/mainstay/internal/node/server"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// tokenOf returns a connection as the service account of the daemon, with the token of its pod on a node. Without a node, the
// token belongs to no pod.
func (c *fixture) tokenOf(onNode string) *rest.Config {
	c.T.Helper()
	request := &authenticationv1.TokenRequest{}
	if onNode != "" {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "daemon-" + onNode}}
		pod.Spec = corev1.PodSpec{
			ServiceAccountName: "machine-config-daemon", NodeName: onNode, Containers: []corev1.Container{{Name: "a", Image: "a"}},
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			// Drains ignore the pods of a DaemonSet, as the daemon has.
		}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "1", Controller: ptr.To(true)}}
		c.Must(c.Create(c.T.Context(), pod))
		c.T.Cleanup(func() {
			_ = c.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) // If the deletion fails, creating the pod in the next test fails.
		})
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}

	holder := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "machine-config-daemon"}}
	c.Must(c.SubResource("token").Create(c.T.Context(), holder, request))
	return connectWithToken(c.T, request)
}

// run runs a manager with rights until it is stopped, or the test ends.
func (c *fixture) run(rights *rest.Config, options ctrl.Options, setup func(ctrl.Manager) error) (stop func()) {
	c.T.Helper()
	_, stop = c.StartManager(env.Manager{Connect: func(connection *rest.Config) { *connection = *rights }, Options: options, Setup: setup})
	return stop
}

// daemon runs a real daemon, with a folder instead of its host and the rights of a pod of its node.
func (c *fixture) daemon(name string) *os.Root {
	c.T.Helper()
	root, err := os.OpenRoot(c.T.TempDir())
	c.Must(err)
	c.T.Cleanup(func() { _ = root.Close() })
	own := ctrl.Options{Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", name)},
	}}}
	c.run(c.tokenOf(name), own, func(mgr ctrl.Manager) error {
		return daemon.Setup(mgr, daemon.Options{Node: name, Root: root, Host: daemon.Simulated(root)})
	})

	return root
}

// sequence starts a watch of a node. It returns a function that returns the states that the watch has seen.
func (c *fixture) sequence(name string) (seen func() []string) {
	c.T.Helper()
	watcher, err := client.NewWithWatch(restOf(c.T), client.Options{Scheme: c.Scheme()})
	c.Must(err)
	w, err := watcher.Watch(c.T.Context(), &corev1.NodeList{}, client.MatchingFields{"metadata.name": name})
	c.Must(err)
	var mu sync.Mutex
	var states []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok || pools.State(n) == "" {
				continue
			}

			state := string(pools.State(n))
			if strings.HasPrefix(n.Annotations[mcfgv1.AnnotationLastAppliedDrain], mcfgv1.DrainPrefix) {
				state = "drained " + state
			}
			if n.Spec.Unschedulable {
				state = "cordoned " + state
			}

			mu.Lock()
			if len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}

			mu.Unlock()
		}
	}()

	c.T.Cleanup(func() { w.Stop(); <-done })

	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(states)
	}
}

// The server returns the configuration of the pool to a new machine. It runs with only the rights that it is shipped with.
func TestServer(t *testing.T) {
	c := start(t, node.Options{})
	c.pool("worker", "")
	c.config("a", "worker", "one")
	address := make(chan string, 1)
	rights := c.connectAs("machine-config-server")
	c.run(rights, ctrl.Options{}, func(mgr ctrl.Manager) error {
		return nodeserver.Setup(t.Context(), mgr, nodeserver.Options{
			PlainAddress: "127.0.0.1:0", Listening: func(_ string, at net.Addr) { address <- at.String() },
		})
	})
	url := "http://" + <-address
	has := func(text string) func() bool {
		return func() bool {
			resp, err := http.Get(url + "/config/worker")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(body), text)
		}
	}

	c.eventually("a machine gets the configuration", has("data:,one"))
	c.config("a", "worker", "two")
	c.eventually("a machine gets the next one", has("data:,two"))
	// The server may not read Secrets.
	limited, err := client.New(rights, client.Options{Scheme: c.Scheme()})
	c.Must(err)
	if err := limited.List(t.Context(), &corev1.SecretList{}, client.InNamespace(systemNamespace)); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets: got error %v, want Forbidden", err)
	}
	if err := limited.Delete(t.Context(), &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting a MachineConfig: got error %v, want Forbidden", err)
	}
}

// A daemon may only change its own node, and only the annotations that it reports.
func TestDaemonIsBound(t *testing.T) {
	c := start(t, node.Options{})
	c.node("real-a", "worker")
	c.node("real-b", "worker")
	own, err := client.New(c.tokenOf("real-a"), client.Options{Scheme: c.Scheme()})
	c.Must(err)
	none, err := client.New(c.tokenOf(""), client.Options{Scheme: c.Scheme()})
	c.Must(err)
	annotation := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Annotations = map[string]string{key: "x"}
		}
	}
	try := func(by client.Client, name string, change func(*corev1.Node)) error {
		n := c.getNode(name)
		before := n.DeepCopy()
		change(n)
		return by.Patch(t.Context(), n, client.MergeFrom(before), client.DryRunAll)
	}

	// The API server applies a new policy with a short delay.
	c.eventually("the policy is in force", func() bool { return apierrors.IsForbidden(try(own, "real-b", annotation(mcfgv1.AnnotationState))) })
	cases := map[string]struct {
		by      client.Client
		node    string
		change  func(*corev1.Node)
		refused string
	}{
		"its report":         {own, "real-a", annotation(mcfgv1.AnnotationState), ""},
		"its drain":          {own, "real-a", annotation(mcfgv1.AnnotationDesiredDrain), ""},
		"another node":       {own, "real-b", annotation(mcfgv1.AnnotationState), "may change the node that its pod runs on alone, which is real-a"},
		"a token of no pod":  {none, "real-a", annotation(mcfgv1.AnnotationState), "its token is not that of a pod"},
		"its desired config": {own, "real-a", annotation(mcfgv1.AnnotationDesiredConfig), "may change no annotations of its node but"},
		"its last drain":     {own, "real-a", annotation(mcfgv1.AnnotationLastAppliedDrain), "may change no annotations of its node but"},
		"another annotation": {own, "real-a", annotation("example.com/a"), "may change no annotations of its node but"},
		"a cordon":           {own, "real-a", func(n *corev1.Node) { n.Spec.Unschedulable = true }, "may change nothing of its node but annotations"},
		"a label":            {own, "real-a", func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }, "may change nothing of its node but annotations"},
		"a finalizer":        {own, "real-a", func(n *corev1.Node) { n.Finalizers = []string{"example.com/a"} }, "may change nothing of its node but annotations"},
	}

	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			err := try(x.by, x.node, x.change)
			switch {
			case x.refused == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case x.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), x.refused)):
				t.Errorf("got error %v, want %q", err, x.refused)
			}
		})
	}

	// The daemon cannot remove annotations of others.
	n := c.getNode("real-a")
	c.PatchObject(n, func() { n.Annotations = map[string]string{"example.com/kept": "x"} })
	if err := try(own, "real-a", func(n *corev1.Node) { delete(n.Annotations, "example.com/kept") }); !apierrors.IsForbidden(err) {
		t.Errorf("removing an annotation of others: got error %v, want Forbidden", err)
	}
	// The policy does not apply to other users.
	if err := try(c, "real-b", annotation("example.com/a")); err != nil {
		t.Errorf("got error %v for an administrator, want none", err)
	}
}
