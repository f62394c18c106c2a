package worker_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const image = "registry.example.com/release@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// serial makes names unique among tests, however often they run.
var serial atomic.Int64

// uniqueName returns a name that no other test uses.
func uniqueName(name string) string { return fmt.Sprint(name, serial.Add(1)) }

// loadPayload loads a payload from files by name. Their manifests belong to the cluster unless
// they have annotations of their own.
func loadPayload(t testing.TB, files map[string]string) *release.Payload {
	t.Helper()
	fsys := fstest.MapFS{
		release.FileMetadata: {Data: []byte(`{"kind": "cincinnati-metadata-v0", "version": "1.0.0"}`)},
		release.FileImages:   {Data: []byte(`{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.0.0"}}`)},
		release.FolderOwn:    {Mode: os.ModeDir | 0o755},
	}
	for name, text := range files {
		text = strings.ReplaceAll(text, "{included", `{annotations: {include.release.openshift.io/self-managed-high-availability: "true"}`)
		text = strings.ReplaceAll(text, "INCLUDED", `include.release.openshift.io/self-managed-high-availability: "true"`)
		fsys[release.FolderRelease+"/"+name+".yaml"] = &fstest.MapFile{Data: []byte(text)}
	}

	payload, err := release.Load(fsys, release.Options{})
	if err != nil {
		t.Fatal(err)
	}

	return payload
}

// work returns the work of a payload.
func work(payload *release.Payload, state release.Mode) worker.Work {
	return worker.Work{
		Generation: 1, Payload: payload, State: state,
		Desired: configv1.Release{Version: "1.0.0", Image: image},
	}
}

// ownerReference creates a ClusterVersion for a test and returns a reference to it.
func ownerReference(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: configv1.GroupVersion.String(), Kind: "ClusterVersion", Name: name, UID: "7f5c2d4e-0000-4000-8000-000000000001"}
}

// recordingClient is a client that records its writes and can make them fail.
type recordingClient struct {
	client.Client
	mu sync.Mutex
	// writes are the successful writes, attempts is the number of all writes.
	writes   []string
	attempts int
	// before, if set, is called before each write. Its error is returned to the caller.
	before func(what string) error
}

// newRecordingClient returns a client of the API server of the tests.
func newRecordingClient(t testing.TB) *recordingClient {
	t.Helper()
	config := env.Start(t)
	config.QPS = -1
	scheme := env.Scheme(t, clientgoscheme.AddToScheme, configv1.AddToScheme)
	inner, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}

	r := &recordingClient{}
	r.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return r.write("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if isDryRun(opts) {
				return c.Update(ctx, obj, opts...)
			}
			return r.write("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return r.write("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
	})

	return r
}

func isDryRun(opts []client.UpdateOption) bool {
	all := &client.UpdateOptions{}
	all.ApplyOptions(opts)
	return len(all.DryRun) > 0
}

// write counts an attempt and records it if it succeeds.
func (r *recordingClient) write(verb string, object client.Object, do func() error) error {
	what := fmt.Sprintf("%s %s %s", verb, object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
	r.mu.Lock()
	before := r.before
	r.attempts++
	r.mu.Unlock()
	if before != nil {
		if err := before(what); err != nil {
			return err
		}
	}

	if err := do(); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, what)

	return nil
}

// takeWrites returns the writes since the last call.
func (r *recordingClient) takeWrites() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := r.writes
	r.writes, r.attempts = nil, 0
	return writes
}

// expectNoWrites fails the test if the next passes try to write anything.
func (r *recordingClient) expectNoWrites(t testing.TB, w *worker.Worker, passes int) {
	t.Helper()
	waitForStatus(t, w, "a pass", completed(w.Status().Completed+1)) // A pass may have been in progress.
	r.takeWrites()
	waitForStatus(t, w, "passes", completed(w.Status().Completed+passes))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts > 0 {
		t.Errorf("got %d attempts to write without a change, successful: %q; want none", r.attempts, r.writes)
	}
}

// fastClock is a clock whose timers run 200 times faster.
type fastClock struct{ clock.RealClock }

func (h fastClock) NewTimer(d time.Duration) clock.Timer { return h.RealClock.NewTimer(d / 200) }

// startWorker runs a Worker until the test ends or the returned function is called.
func startWorker(t testing.TB, w *worker.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})

	t.Cleanup(stop)

	return stop
}

// newWorker returns a Worker with fast timers.
func newWorker(c client.Client) *worker.Worker {
	return worker.New(worker.Options{Client: c, Clock: fastClock{}, ResyncInterval: 2 * time.Minute})
}

// waitForStatus waits until the status meets a condition.
func waitForStatus(t testing.TB, w *worker.Worker, what string, is func(worker.Status) bool) worker.Status {
	t.Helper()
	deadline := time.After(env.WaitTimeout)
	for {
		status := w.Status()
		if is(status) {
			return status
		}
		select {
		case <-w.Changed():
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s: not within %s: %+v", what, env.WaitTimeout, w.Status())
		}
	}
}

func completed(times int) func(worker.Status) bool {
	return func(s worker.Status) bool { return s.Completed >= times }
}

// getObject reads an object.
func getObject(t testing.TB, c client.Client, apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
		t.Fatal(err)
	}
	return u
}

// reportOperatorStatus sets the status of a ClusterOperator, as its operator would.
func reportOperatorStatus(t testing.TB, c client.Client, name, version string, conditions ...string) {
	t.Helper()
	operator := &configv1.ClusterOperator{}
	if err := c.Get(context.Background(), client.ObjectKey{Name: name}, operator); err != nil {
		t.Fatal(err)
	}

	operator.Status.Conditions = nil
	for _, condition := range conditions {
		kind, status, _ := strings.Cut(condition, "=")
		operator.Status.Conditions = append(operator.Status.Conditions, configv1.ClusterOperatorStatusCondition{
			Type: kind, Status: metav1.ConditionStatus(status), LastTransitionTime: metav1.Now(),
		})
	}

	operator.Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: version}}
	if err := c.Status().Update(context.Background(), operator); err != nil {
		t.Fatal(err)
	}
}

func newCapabilities(known, enabled []string) release.Capabilities {
	return release.Capabilities{Known: sets.New(known...), Enabled: sets.New(enabled...)}
}
