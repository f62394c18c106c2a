package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// kit is a node that is a folder, and a cluster that holds little more than its object. What an
// API server does beyond that has no part here.
type kit struct {
	t      *testing.T
	folder string
	client client.Client
	clock  *clocktesting.FakePassiveClock
	host   *host
	daemon *Daemon
}

// host records commands. A reboot gives another start.
type host struct {
	commands []string
	boots    int
	// fails names a command that fails.
	fails string
	// stuck has reboots not happen.
	stuck bool
}

func (h *host) Run(ctx context.Context, name string, args ...string) error {
	line := strings.Join(append([]string{name}, args...), " ")
	h.commands = append(h.commands, line)
	if h.fails != "" && strings.HasPrefix(line, h.fails) {
		return fmt.Errorf("running %s: exit status 1", line)
	}
	if line == "systemctl reboot" && !h.stuck {
		h.boots++
	}

	return ctx.Err()
}

func (h *host) BootID() (string, error) { return fmt.Sprint("boot ", h.boots), nil }

func newKit(t *testing.T, files map[string]string) *kit {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), mcfgv1.AddToScheme(scheme), operatorv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}

	k := &kit{
		t: t, folder: t.TempDir(), host: &host{},
		client: fake.NewClientBuilder().WithScheme(scheme).Build(),
		clock:  clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)),
	}
	for name, content := range files {
		k.write(name, content)
	}

	k.must(k.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	k.restart(nil)
	return k
}

func (k *kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// restart is a new start of the program. before is called before each change that it makes.
func (k *kit) restart(before func(string)) {
	k.t.Helper()
	root, err := os.OpenRoot(k.folder)
	k.must(err)
	k.t.Cleanup(func() { _ = root.Close() })
	k.daemon = &Daemon{
		Root: root, Host: k.host, Client: k.client, Reader: k.client, Events: events.NewFakeRecorder(1000), Clock: k.clock,
		RuntimeUnit: DefaultRuntimeUnit, disk: &disk{root: root, before: before},
	}
}

func (k *kit) path(name string) string { return filepath.Join(k.folder, name) }

func (k *kit) write(name, content string) {
	k.t.Helper()
	k.must(os.MkdirAll(filepath.Dir(k.path(name)), 0o755))
	k.must(os.WriteFile(k.path(name), []byte(content), 0o644))
}

func (k *kit) remove(name string) { k.t.Helper(); k.must(os.Remove(k.path(name))) }

// files returns all files of the node but the daemon's own, with their modes.
func (k *kit) files() map[string]string {
	k.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(k.folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		name := strings.TrimPrefix(p, k.folder)
		if strings.HasPrefix(name, config.Home) {
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			found[name] = "-> " + target
			return err
		}

		data, err := os.ReadFile(p)
		found[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), data)
		return err
	})

	k.must(err)

	return found
}

// config makes a rendered configuration in the cluster, and gives its name.
func (k *kit) config(parts string, edits ...func(*mcfgv1.MachineConfigSpec)) string {
	k.t.Helper()
	if parts != "" {
		parts = "," + parts
	}

	source := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	source.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.2.0"}` + parts + `}`)
	for _, e := range edits {
		e(&source.Spec)
	}

	rendered, err := config.Render("worker", config.Base{}, []*mcfgv1.MachineConfig{source})
	k.must(err)
	c := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: rendered.Name}, Spec: rendered.Spec}
	if err := k.client.Create(k.t.Context(), c); client.IgnoreAlreadyExists(err) != nil {
		k.t.Fatal(err)
	}

	return rendered.Name
}

func (k *kit) node() *corev1.Node {
	k.t.Helper()
	n := &corev1.Node{}
	k.must(k.client.Get(k.t.Context(), client.ObjectKey{Name: "n"}, n))
	return n
}

func (k *kit) annotate(pairs ...string) {
	k.t.Helper()
	n := k.node()
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}

	for i := 0; i < len(pairs); i += 2 {
		n.Annotations[pairs[i]] = pairs[i+1]
	}

	k.must(k.client.Update(k.t.Context(), n))
}

func (k *kit) want(name string) { k.t.Helper(); k.annotate(mcfgv1.AnnotationDesiredConfig, name) }

func (k *kit) sync() time.Duration {
	k.t.Helper()
	after, err := k.daemon.Sync(k.t.Context(), k.node())
	k.must(err)
	return after
}

// drains does what the controller of drains would.
func (k *kit) drains() {
	k.t.Helper()
	k.annotate(mcfgv1.AnnotationLastAppliedDrain, k.node().Annotations[mcfgv1.AnnotationDesiredDrain])
}

// settle has the daemon and the controller of drains work until neither has more to do.
func (k *kit) settle() {
	k.t.Helper()
	for range 10 {
		before := k.node().ResourceVersion
		k.sync()
		k.drains()
		if k.node().ResourceVersion == before {
			return
		}
	}
}

// update brings the node to a configuration.
func (k *kit) update(name string) {
	k.t.Helper()
	k.want(name)
	k.settle()
	k.is(name, mcfgv1.NodeDone, "")
}

// is checks what the daemon says of the node.
func (k *kit) is(current string, state mcfgv1.NodeState, reason string) {
	k.t.Helper()
	a := k.node().Annotations
	if a[mcfgv1.AnnotationCurrentConfig] != current || a[mcfgv1.AnnotationState] != string(state) || !strings.Contains(a[mcfgv1.AnnotationReason], reason) ||
		(reason == "" && a[mcfgv1.AnnotationReason] != "") {
		k.t.Errorf("the node says %v; want %s %s %q", a, current, state, reason)
	}
}
