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

// fixture is a node whose root is a folder, and a fake client with its Node object. No test depends on the behavior of a real API
// server.
type fixture struct {
	t      *testing.T
	folder string
	client client.Client
	clock  *clocktesting.FakePassiveClock
	host   *host
	daemon *Daemon
}

// host records commands. A reboot changes the boot ID.
type host struct {
	commands []string
	boots    int
	// fails is the prefix of commands that fail.
	fails string
	// stuck means that the machine does not reboot.
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

func newFixture(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), mcfgv1.AddToScheme(scheme), operatorv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}

	f := &fixture{
		t: t, folder: t.TempDir(), host: &host{},
		client: fake.NewClientBuilder().WithScheme(scheme).Build(),
		clock:  clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)),
	}
	for name, content := range files {
		f.write(name, content)
	}

	f.must(f.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	f.restart(nil)
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// restart starts the program again. It calls before prior to each change of a file.
func (f *fixture) restart(before func(string)) {
	f.t.Helper()
	root, err := os.OpenRoot(f.folder)
	f.must(err)
	f.t.Cleanup(func() { _ = root.Close() })
	f.daemon = &Daemon{
		Root: root, Host: f.host, Client: f.client, Reader: f.client, Events: events.NewFakeRecorder(1000), Clock: f.clock,
		RuntimeUnit: DefaultRuntimeUnit, disk: &disk{root: root, before: before},
	}
}

func (f *fixture) path(name string) string { return filepath.Join(f.folder, name) }

func (f *fixture) write(name, content string) {
	f.t.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	f.must(os.WriteFile(f.path(name), []byte(content), 0o644))
}

func (f *fixture) remove(name string) { f.t.Helper(); f.must(os.Remove(f.path(name))) }

// files returns all files of the node except those of the daemon, with their modes.
func (f *fixture) files() map[string]string {
	f.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(f.folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		name := strings.TrimPrefix(p, f.folder)
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

	f.must(err)

	return found
}

// config creates a rendered configuration in the cluster, and returns its name.
func (f *fixture) config(parts string, edits ...func(*mcfgv1.MachineConfigSpec)) string {
	f.t.Helper()
	if parts != "" {
		parts = "," + parts
	}

	source := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	source.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.2.0"}` + parts + `}`)
	for _, e := range edits {
		e(&source.Spec)
	}

	rendered, err := config.Render("worker", config.Base{}, []*mcfgv1.MachineConfig{source})
	f.must(err)
	c := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: rendered.Name}, Spec: rendered.Spec}
	if err := f.client.Create(f.t.Context(), c); client.IgnoreAlreadyExists(err) != nil {
		f.t.Fatal(err)
	}

	return rendered.Name
}

func (f *fixture) node() *corev1.Node {
	f.t.Helper()
	n := &corev1.Node{}
	f.must(f.client.Get(f.t.Context(), client.ObjectKey{Name: "n"}, n))
	return n
}

func (f *fixture) annotate(pairs ...string) {
	f.t.Helper()
	n := f.node()
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}

	for i := 0; i < len(pairs); i += 2 {
		n.Annotations[pairs[i]] = pairs[i+1]
	}

	f.must(f.client.Update(f.t.Context(), n))
}

func (f *fixture) setDesiredConfig(name string) {
	f.t.Helper()
	f.annotate(mcfgv1.AnnotationDesiredConfig, name)
}

func (f *fixture) sync() time.Duration {
	f.t.Helper()
	after, err := f.daemon.Sync(f.t.Context(), f.node())
	f.must(err)
	return after
}

// drains acts as the controller of drains.
func (f *fixture) drains() {
	f.t.Helper()
	f.annotate(mcfgv1.AnnotationLastAppliedDrain, f.node().Annotations[mcfgv1.AnnotationDesiredDrain])
}

// settle runs the daemon and the controller of drains until nothing changes.
func (f *fixture) settle() {
	f.t.Helper()
	for range 10 {
		before := f.node().ResourceVersion
		f.sync()
		f.drains()
		if f.node().ResourceVersion == before {
			return
		}
	}
}

// update updates the node to a configuration.
func (f *fixture) update(name string) {
	f.t.Helper()
	f.setDesiredConfig(name)
	f.settle()
	f.expectReport(name, mcfgv1.NodeDone, "")
}

// expectReport checks the report of the daemon.
func (f *fixture) expectReport(current string, state mcfgv1.NodeState, reason string) {
	f.t.Helper()
	a := f.node().Annotations
	if a[mcfgv1.AnnotationCurrentConfig] != current || a[mcfgv1.AnnotationState] != string(state) || !strings.Contains(a[mcfgv1.AnnotationReason], reason) ||
		(reason == "" && a[mcfgv1.AnnotationReason] != "") {
		f.t.Errorf("got annotations %v, want configuration %s, state %s and reason %q", a, current, state, reason)
	}
}
