package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	controller "sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/bench/generate"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

const (
	// payloadTimeout is the timeout of one run.
	payloadTimeout = 10 * time.Minute
	// payloadCreators is the number of concurrent requests of the plain client, which is the
	// number of components of the payload.
	payloadCreators = 60
	// createRetryInterval is the interval between tries to create an object whose CRD or namespace
	// is missing. A shorter interval delays the API server.
	createRetryInterval = 500 * time.Millisecond
)

// payloadResult is the measurement of a process that applies a payload.
type payloadResult struct {
	// Seconds is the time until everything was applied.
	Seconds float64
	// SteadySeconds, SteadyProcessor (in seconds) and SteadyWrites are those of a pass without
	// changes.
	SteadySeconds, SteadyProcessor float64
	SteadyWrites                   int64
	// Peak and Anonymous are the memory of the process in MB.
	Peak, Anonymous float64
}

// measurePayload measures the time to apply a payload of 900 manifests to an empty cluster, in
// comparison with a client that only creates the same objects.
func measurePayload(ctx context.Context, dir string, runs int) error {
	payload := filepath.Join(dir, "payload")
	count, err := generate.Payload(payload)
	if err != nil {
		return err
	}

	var create, apply, ratio, pass, processor, memory samples
	var writes int64
	for i := range runs {
		created, err := runPayload(ctx, filepath.Join(dir, fmt.Sprint("create-", i)), payload, "create-payload")
		if err != nil {
			return err
		}

		done, err := runPayload(ctx, filepath.Join(dir, fmt.Sprint("apply-", i)), payload, "apply-payload")
		if err != nil {
			return err
		}

		create, apply, ratio = append(create, created.Seconds), append(apply, done.Seconds), append(ratio, done.Seconds/created.Seconds)
		pass, processor, memory = append(pass, done.SteadySeconds), append(processor, done.SteadyProcessor), append(memory, done.Peak)
		writes += done.SteadyWrites
	}

	create.printSummary(fmt.Sprintf("%d manifests, created by a plain parallel client", count), "s", 2)
	apply.printSummary(fmt.Sprintf("%d manifests, applied until all is done", count), "s", 2)
	ratio.printSummary("  times what the plain client takes", "", 2)
	pass.printSummary("  a pass with nothing to do", "s", 2)
	processor.printSummary("  processor time of that", "s", 2)
	memory.printSummary("  peak memory", "MB", 0)
	fmt.Printf("%-62s %10d\n", "  writes in passes with nothing to do", writes)

	return nil
}

// runPayload runs a command of this program on the payload in an empty cluster, as a separate
// process. It returns the result of that process.
func runPayload(ctx context.Context, dir, payload, command string) (result payloadResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, payloadTimeout)
	defer cancel()
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: dir, Node: "none"})
	if err != nil {
		return payloadResult{}, err
	}
	defer func() { err = errors.Join(err, c.Down(ctx), os.RemoveAll(dir)) }()
	for _, kind := range []string{"clusteroperators", "clusterversions"} {
		if _, err := c.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join("config", "platform", "config.openshift.io_"+kind+".yaml")); err != nil {
			return payloadResult{}, err
		}
		if _, err := c.Kubectl(ctx, "wait", "crd/"+kind+".config.openshift.io", "--for=condition=Established"); err != nil {
			return payloadResult{}, err
		}
	}

	if err := c.Apply(ctx, clusterVersion); err != nil {
		return payloadResult{}, err
	}

	ctx, end := context.WithCancel(ctx)
	defer end()
	api, err := newPayloadClient(c.Kubeconfig)
	if err != nil {
		return payloadResult{}, err
	}
	if err := reportOperatorsAvailable(ctx, api); err != nil {
		return payloadResult{}, err
	}

	program, err := os.Executable()
	if err != nil {
		return payloadResult{}, err
	}

	cmd := exec.CommandContext(ctx, program, command, c.Kubeconfig, payload)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return payloadResult{}, fmt.Errorf("%s: %w", command, err)
	}

	err = json.Unmarshal(out, &result)
	return result, err
}

// clusterVersion is the owner of the applied objects.
const clusterVersion = `
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 00000000-0000-4000-8000-000000000000}
`

func newPayloadClient(kubeconfig string) (controller.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}

	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return nil, err
	}

	return controller.NewWithWatch(config, controller.Options{Scheme: scheme})
}

// reportOperatorsAvailable reports every ClusterOperator as available immediately.
func reportOperatorsAvailable(ctx context.Context, api controller.WithWatch) error {
	events, err := api.Watch(ctx, &configv1.ClusterOperatorList{})
	if err != nil {
		return err
	}

	go func() {
		for event := range events.ResultChan() {
			operator, ok := event.Object.(*configv1.ClusterOperator)
			if !ok || event.Type == watch.Deleted || len(operator.Status.Conditions) > 0 {
				continue
			}

			for kind, status := range map[string]metav1.ConditionStatus{"Available": "True", "Progressing": "False", "Degraded": "False"} {
				operator.Status.Conditions = append(operator.Status.Conditions, configv1.ClusterOperatorStatusCondition{
					Type: kind, Status: status, Reason: configv1.ReasonAsExpected, LastTransitionTime: metav1.Now(),
				})
			}

			operator.Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: "1.0.0"}}
			if err := api.Status().Update(ctx, operator); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
				log.Printf("bench: reporting for ClusterOperator %s: %v", operator.Name, err)
			}
		}
	}()

	return nil
}

// createPayload is the plain client. It creates every object, and only waits for the CRD or the
// namespace that an object needs.
func createPayload(ctx context.Context, kubeconfig, dir string) error {
	api, err := newPayloadClient(kubeconfig)
	if err != nil {
		return err
	}

	payload, err := release.Load(os.DirFS(dir), release.Options{})
	if err != nil {
		return err
	}

	began := time.Now()
	var group errgroup.Group
	group.SetLimit(payloadCreators)
	byComponent := map[string][]release.Manifest{}
	for _, m := range payload.Manifests {
		name, _ := m.FileName()
		byComponent[name.Component] = append(byComponent[name.Component], m)
	}

	for _, manifests := range byComponent {
		group.Go(func() error {
			for _, m := range manifests {
				if err := createManifest(ctx, api, m); err != nil {
					return err
				}
			}
			return nil
		})
	}

	if err := group.Wait(); err != nil {
		return err
	}

	return printResult(payloadResult{Seconds: secondsSince(began)})
}

func createManifest(ctx context.Context, api controller.Client, m release.Manifest) error {
	for {
		object := m.Object.DeepCopy()
		err := api.Create(ctx, object)
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return err
		}
		if !sleepContext(ctx, createRetryInterval) {
			return ctx.Err()
		}
	}
}

// applyPayload runs the worker until the payload is applied, and then measures passes without
// changes.
func applyPayload(ctx context.Context, kubeconfig, dir string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}

	config.QPS = -1
	var writes writeCounter
	config.Wrap(writes.wrapTransport)
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return err
	}

	api, err := controller.New(config, controller.Options{Scheme: scheme})
	if err != nil {
		return err
	}

	informers, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return err
	}

	payload, err := release.Load(os.DirFS(dir), release.Options{})
	if err != nil {
		return err
	}

	var group sync.WaitGroup
	defer group.Wait()
	defer end()
	group.Go(func() { _ = informers.Start(ctx) })
	owner := &configv1.ClusterVersion{}
	if err := api.Get(ctx, controller.ObjectKey{Name: "version"}, owner); err != nil {
		return err
	}

	began := time.Now()
	w := worker.New(worker.Options{Client: api, Informers: informers})
	work := worker.Work{
		Desired: configv1.Release{Version: "1.0.0", Image: "registry.example.com/release:1.0.0"}, Payload: payload, State: release.Initializing,
		Owner: metav1.OwnerReference{APIVersion: configv1.GroupVersion.String(), Kind: configv1.ClusterVersionKind, Name: owner.Name, UID: owner.UID},
	}
	w.Update(work)
	failed := make(chan error, 1)
	group.Go(func() { failed <- w.Run(ctx) })
	if err := waitForPasses(ctx, w, failed, 1); err != nil {
		return err
	}

	result := payloadResult{Seconds: secondsSince(began)}
	// The first pass after it reads the defaults that the server has set; the next has nothing
	// to do. Work with another generation and other overrides begins a pass.
	for i := range int64(2) {
		before, err := readProcessorSeconds(os.Getpid())
		if err != nil {
			return err
		}
		writes.count.Store(0)
		began = time.Now()
		work.Generation, work.Overrides = i+1, []configv1.ComponentOverride{{Kind: "ConfigMap", Namespace: "none", Name: fmt.Sprint("none-", i)}}
		w.Update(work)
		if err := waitForPasses(ctx, w, failed, int(i)+2); err != nil {
			return err
		}
		after, err := readProcessorSeconds(os.Getpid())
		if err != nil {
			return err
		}
		result.SteadySeconds, result.SteadyProcessor, result.SteadyWrites = secondsSince(began), after-before, writes.count.Load()
	}

	if result.Peak, result.Anonymous, err = readProcessMemory(os.Getpid()); err != nil {
		return err
	}

	return printResult(result)
}

// waitForPasses waits until a number of passes have succeeded.
func waitForPasses(ctx context.Context, w *worker.Worker, failed <-chan error, passes int) error {
	lastFailure := ""
	for w.Status().Completed < passes {
		select {
		case err := <-failed:
			return fmt.Errorf("the worker ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Changed():
		}
		if failure := w.Status().Failure; failure != nil && failure.Error() != lastFailure {
			lastFailure = failure.Error()
			log.Printf("bench: a pass failed: %s", lastFailure)
		}
	}

	return nil
}

func printResult(result payloadResult) error { return json.NewEncoder(os.Stdout).Encode(result) }

// writeCounter counts requests that may change objects.
type writeCounter struct{ count atomic.Int64 }

func (w *writeCounter) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet && !strings.Contains(req.URL.RawQuery, "dryRun") {
			w.count.Add(1)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
