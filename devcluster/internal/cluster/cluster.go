// Package cluster runs a cluster. It prepares the data directory, starts the components in the order of their
// dependencies, watches them and stops them. It is the supervisor behind `devcluster up`.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/pki"
	"github.com/mainstay-dev/mainstay/devcluster/internal/realnode"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
	"github.com/mainstay-dev/mainstay/devcluster/internal/supervise"
)

// NodeKind is what runs the pods.
type NodeKind string

// Kinds of nodes.
const (
	// Simulated nodes and their pods are simulated (package simulated).
	Simulated NodeKind = "simulated"
	// Containerd is one real node (package realnode).
	Containerd NodeKind = "containerd"
	// NoNodes leaves every pod pending.
	NoNodes NodeKind = "none"
)

// Options are the options of a run.
type Options struct {
	Dir  state.Dir
	Node NodeKind
	// Nodes is the number of simulated nodes. It is 1 for Containerd and ignored for NoNodes.
	Nodes int
	// RegistryPort is the port of the registry. If 0, the registry keeps the port of the previous run, or gets any free
	// port.
	RegistryPort int
	// Kubeconfig is a file that the cluster's context is merged into, or "". The data directory always has its own
	// kubeconfig.
	Kubeconfig string
	// Audit makes the API server write an audit log. Its name among the logs is components.AuditLog.
	Audit bool
	// Out receives a line for each component that is ready.
	Out io.Writer
	// OnReady is called once all components are ready. It may be nil.
	OnReady func()
}

// stopTimeout bounds the stop of all components. A component that still runs then is killed.
const stopTimeout = 30 * time.Second

// Up runs a cluster until ctx ends, then stops it and returns nil. It returns an error, with everything stopped, when
// the cluster cannot start or a component dies (*supervise.DiedError). It returns a *state.LockedError when a cluster
// already runs on the data directory.
func Up(ctx context.Context, options Options) error {
	if err := options.Dir.Create(); err != nil {
		return err
	}

	lock, err := state.AcquireLock(options.Dir)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // The process ends.
	if err := realnode.Cleanup(options.Dir); err != nil {
		return fmt.Errorf("clean up after an earlier run: %w", err)
	}

	run, err := prepareRun(options)
	if err != nil {
		return err
	}

	err = run.startAndWait(ctx)
	return errors.Join(err, run.stopAndRecord(context.WithoutCancel(ctx), err))
}

// errInterrupted is the result of a run that was stopped before it was ready.
var errInterrupted = errors.New("told to stop before the cluster was ready")

// startAndWait starts all components and waits until ctx ends or a component dies. The end of ctx is no error once all
// components are ready.
func (r *run) startAndWait(ctx context.Context) error {
	// The first component that dies ends both the start and the run.
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case died := <-r.group.Died():
			cancel(died)
		case <-running.Done():
		}
	}()

	err := r.startComponents(running)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return errInterrupted
	case running.Err() != nil:
		return context.Cause(running) // The component that died, not the one that waited for it.
	default:
		return err
	}

	if r.OnReady != nil {
		r.OnReady()
	}

	<-running.Done()
	if ctx.Err() != nil {
		return nil
	}

	return context.Cause(running)
}

// run is one run of a cluster.
type run struct {
	Options
	addresses state.Addresses
	config    components.Config
	client    kubernetes.Interface
	node      *realnode.Node // nil unless the kind is Containerd
	group     supervise.Group
	reporter  *reporter
	startedAt time.Time
}

// prepareRun chooses addresses and writes certificates and kubeconfig files: everything that needs no running process.
func prepareRun(options Options) (*run, error) {
	run := &run{Options: options, startedAt: time.Now()}
	addresses, notes, err := state.ChooseAddresses(options.Dir, options.RegistryPort, state.Machine{})
	if err != nil {
		return nil, err
	}

	for _, note := range notes {
		fmt.Fprintf(options.Out, "Note: %s\n", note)
	}

	run.addresses = addresses
	run.config = components.Config{Dir: options.Dir, Addresses: addresses, Kubeconfig: options.Dir.ComponentKubeconfig, Audit: options.Audit}
	run.reporter = newReporter(options, run.config)
	run.config.PKI, err = pki.Ensure(options.Dir.PKI(), pki.Names{
		KubernetesService: run.config.KubernetesService(),
		Gateway:           addresses.Gateway(),
		NodeName:          realnode.NodeName,
		NodeIP:            addresses.NodeIP(),
	})
	if err != nil {
		return nil, err
	}
	if err := run.writeKubeconfigs(); err != nil {
		return nil, err
	}

	if options.Audit {
		if err := options.Dir.WriteAuditPolicy([]byte(components.AuditPolicy)); err != nil {
			return nil, err
		}
	}

	if run.client, err = newAdminClient(options.Dir); err != nil {
		return nil, err
	}

	if options.Node == Containerd {
		if run.node, err = realnode.New(run.config); err != nil {
			return nil, err
		}
	}

	return run, nil
}

func (r *run) writeKubeconfigs() error {
	server := r.apiServerURL()
	files := []struct {
		component string
		pair      pki.Pair
	}{
		{"kube-controller-manager", r.config.PKI.ControllerManager},
		{"kube-scheduler", r.config.PKI.Scheduler},
		{"nodes", r.config.PKI.Nodes},
		{"coredns", r.config.PKI.CoreDNS},
	}

	for _, file := range files {
		path := r.Dir.ComponentKubeconfig(file.component)
		if err := pki.WriteKubeconfig(path, server, r.config.PKI.CA, file.pair); err != nil {
			return err
		}
	}

	if err := pki.WriteKubeconfig(r.Dir.Kubeconfig(), server, r.config.PKI.CA, r.config.PKI.Admin); err != nil {
		return err
	}
	if r.Kubeconfig == "" {
		return nil
	}

	return pki.MergeKubeconfig(r.Kubeconfig, server, r.config.PKI.CA, r.config.PKI.Admin)
}

func (r *run) apiServerURL() string {
	return "https://127.0.0.1:" + strconv.Itoa(r.addresses.APIServerPort)
}

// newAdminClient returns a client of the API server that uses the administrator's kubeconfig.
func newAdminClient(dir state.Dir) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("log in as administrator: %w", err)
	}
	config.QPS = -1 // No client-side rate limit: the supervisor polls until components are ready.
	return kubernetes.NewForConfig(config)
}

// stopAndRecord stops all components, reverts the changes of a real node to the machine and records how the run ended.
// cause is the error of the run, or nil.
func (r *run) stopAndRecord(ctx context.Context, cause error) error {
	// The stop continues when the record cannot be written, for example to a full disk. The error is returned at the end.
	failed := []error{r.reporter.recordPhase(state.Stopping, "")}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	r.group.Stop(ctx)
	if r.node != nil {
		failed = append(failed, r.node.Stop())
	}

	phase, message := state.Stopped, ""
	if cause != nil && !errors.Is(cause, errInterrupted) {
		phase, message = state.Failed, cause.Error()
	}

	return errors.Join(append(failed, r.reporter.recordPhase(phase, message))...)
}

// ownExecutablePath returns the path of the executable of this process. Child processes are started from it.
func ownExecutablePath() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find devcluster's own executable: %w", err)
	}
	return filepath.EvalSymlinks(path)
}
