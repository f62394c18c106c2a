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
	// payloadLimit is how long one run may take.
	payloadLimit = 10 * time.Minute
	// creators is how many objects the plain client creates side by side: as many as the
	// payload has components.
	creators = 60
	// createPause is how long it waits for what an object needs, its kind or namespace. Asking
	// more often keeps the API server from making it.
	createPause = 500 * time.Millisecond
)

// applied is what a process that works on a payload tells of itself.
type applied struct {
	// Seconds until all of it was applied.
	Seconds float64
	// SteadySeconds, SteadyProcessor (in seconds) and SteadyWrites are about a pass with nothing to do.
	SteadySeconds, SteadyProcessor float64
	SteadyWrites                   int64
	// Peak and Anonymous are its memory in MB.
	Peak, Anonymous float64
}

// measurePayload measures how long a payload of 900 manifests takes on an empty cluster,
// beside a client that creates the same objects and does nothing else.
func measurePayload(ctx context.Context, dir string, runs int) error {
	payload := filepath.Join(dir, "payload")
	count, err := generate.Payload(payload)
	if err != nil {
		return err
	}

	var create, apply, ratio, pass, processor, memory figures
	var writes int64
	for i := range runs {
		created, err := payloadRun(ctx, filepath.Join(dir, fmt.Sprint("create-", i)), payload, "create-payload")
		if err != nil {
			return err
		}

		done, err := payloadRun(ctx, filepath.Join(dir, fmt.Sprint("apply-", i)), payload, "apply-payload")
		if err != nil {
			return err
		}

		create, apply, ratio = append(create, created.Seconds), append(apply, done.Seconds), append(ratio, done.Seconds/created.Seconds)
		pass, processor, memory = append(pass, done.SteadySeconds), append(processor, done.SteadyProcessor), append(memory, done.Peak)
		writes += done.SteadyWrites
	}

	create.print(fmt.Sprintf("%d manifests, created by a plain parallel client", count), "s", 2)
	apply.print(fmt.Sprintf("%d manifests, applied until all is done", count), "s", 2)
	ratio.print("  times what the plain client takes", "", 2)
	pass.print("  a pass with nothing to do", "s", 2)
	processor.print("  processor time of that", "s", 2)
	memory.print("  peak memory", "MB", 0)
	fmt.Printf("%-62s %10d\n", "  writes in passes with nothing to do", writes)

	return nil
}

// payloadRun has a process of its own work on the payload in an empty cluster. It gives what
// the process tells.
func payloadRun(ctx context.Context, dir, payload, command string) (result applied, err error) {
	ctx, cancel := context.WithTimeout(ctx, payloadLimit)
	defer cancel()
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: dir, Node: "none"})
	if err != nil {
		return applied{}, err
	}

	defer func() { err = errors.Join(err, c.Down(ctx), os.RemoveAll(dir)) }()
	for _, kind := range []string{"clusteroperators", "clusterversions"} {
		if _, err := c.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join("config", "platform", "config.openshift.io_"+kind+".yaml")); err != nil {
			return applied{}, err
		}
		if _, err := c.Kubectl(ctx, "wait", "crd/"+kind+".config.openshift.io", "--for=condition=Established"); err != nil {
			return applied{}, err
		}
	}

	if err := c.Apply(ctx, clusterVersion); err != nil {
		return applied{}, err
	}

	ctx, end := context.WithCancel(ctx)
	defer end()
	api, err := payloadClient(c.Kubeconfig)
	if err != nil {
		return applied{}, err
	}
	if err := playOperators(ctx, api); err != nil {
		return applied{}, err
	}

	program, err := os.Executable()
	if err != nil {
		return applied{}, err
	}

	cmd := exec.CommandContext(ctx, program, command, c.Kubeconfig, payload)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return applied{}, fmt.Errorf("%s: %w", command, err)
	}

	err = json.Unmarshal(out, &result)
	return result, err
}

// clusterVersion is the owner of what is applied.
const clusterVersion = `
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 00000000-0000-4000-8000-000000000000}
`

func payloadClient(kubeconfig string) (controller.WithWatch, error) {
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

// playOperators makes every ClusterOperator say at once that all is well.
func playOperators(ctx context.Context, api controller.WithWatch) error {
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

// createPayload is the plain client: it creates every object, and waits only for what an
// object cannot be created without.
func createPayload(ctx context.Context, kubeconfig, dir string) error {
	api, err := payloadClient(kubeconfig)
	if err != nil {
		return err
	}

	payload, err := release.Load(os.DirFS(dir), release.Options{})
	if err != nil {
		return err
	}

	began := time.Now()
	var group errgroup.Group
	group.SetLimit(creators)
	byComponent := map[string][]release.Manifest{}
	for _, m := range payload.Manifests {
		name, _ := m.FileName()
		byComponent[name.Component] = append(byComponent[name.Component], m)
	}

	for _, manifests := range byComponent {
		group.Go(func() error {
			for _, m := range manifests {
				if err := createOne(ctx, api, m); err != nil {
					return err
				}
			}
			return nil
		})
	}

	if err := group.Wait(); err != nil {
		return err
	}

	return tell(applied{Seconds: since(began)})
}

func createOne(ctx context.Context, api controller.Client, m release.Manifest) error {
	for {
		object := m.Object.DeepCopy()
		err := api.Create(ctx, object)
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return err
		}
		if !pause(ctx, createPause) {
			return ctx.Err()
		}
	}
}

// applyPayload is the worker, and what it does afterwards.
func applyPayload(ctx context.Context, kubeconfig, dir string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}

	config.QPS = -1
	var writes writeCounter
	config.Wrap(writes.wrap)
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
	if err := awaitPass(ctx, w, failed, 1); err != nil {
		return err
	}

	result := applied{Seconds: since(began)}
	// The first pass after it looks at what the server made of everything; the next has
	// nothing to do. Work of another generation with other overrides begins one.
	for i := range int64(2) {
		before, err := processorSeconds(os.Getpid())
		if err != nil {
			return err
		}
		writes.count.Store(0)
		began = time.Now()
		work.Generation, work.Overrides = i+1, []configv1.ComponentOverride{{Kind: "ConfigMap", Namespace: "none", Name: fmt.Sprint("none-", i)}}
		w.Update(work)
		if err := awaitPass(ctx, w, failed, int(i)+2); err != nil {
			return err
		}
		after, err := processorSeconds(os.Getpid())
		if err != nil {
			return err
		}
		result.SteadySeconds, result.SteadyProcessor, result.SteadyWrites = since(began), after-before, writes.count.Load()
	}

	if result.Peak, result.Anonymous, err = memoryOf(os.Getpid()); err != nil {
		return err
	}

	return tell(result)
}

// awaitPass waits until a number of passes have succeeded.
func awaitPass(ctx context.Context, w *worker.Worker, failed <-chan error, passes int) error {
	told := ""
	for w.Status().Completed < passes {
		select {
		case err := <-failed:
			return fmt.Errorf("the worker ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Changed():
		}
		if failure := w.Status().Failure; failure != nil && failure.Error() != told {
			told = failure.Error()
			log.Printf("bench: a pass failed: %s", told)
		}
	}

	return nil
}

func tell(result applied) error { return json.NewEncoder(os.Stdout).Encode(result) }

// writeCounter counts the requests that may change something.
type writeCounter struct{ count atomic.Int64 }

func (w *writeCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet && !strings.Contains(req.URL.RawQuery, "dryRun") {
			w.count.Add(1)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
