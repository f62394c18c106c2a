// Package cluster runs a cluster: it prepares the data directory, starts the components in the order in which they need
// one another, watches them, and stops them. It is the supervisor behind `devcluster up`.
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

// NodeKind says what runs the pods.
type NodeKind string

// Kinds of nodes.
const (
	// Simulated nodes and their pods are played (package simulated).
	Simulated NodeKind = "simulated"
	// Containerd is one real node (package realnode).
	Containerd NodeKind = "containerd"
	// NoNodes leaves every pod pending.
	NoNodes NodeKind = "none"
)

// Options of a run.
type Options struct {
	Dir  state.Dir
	Node NodeKind
	// Nodes is the number of simulated nodes. It is 1 for Containerd and ignored for NoNodes.
	Nodes int
	// RegistryPort is 0 for the port of the run before, or any free one at the first.
	RegistryPort int
	// Kubeconfig is a file that the cluster's context is merged into, "" for none. The data directory has its own always.
	Kubeconfig string
	// Audit makes the API server write an audit log, which is components.AuditLog among the logs.
	Audit bool
	// Out is told about each component that is ready.
	Out io.Writer
	// OnReady is called once everything is ready. Nil does nothing.
	OnReady func()
}

// stopTimeout bounds the whole stop; a component that is still there then is killed.
const stopTimeout = 30 * time.Second

// Up runs a cluster until ctx ends, and then stops it and returns nil. It returns an error when the cluster could not
// start or a component died (*supervise.DiedError), with everything stopped, and a *state.LockedError when a cluster runs
// on the data directory already.
func Up(ctx context.Context, options Options) error {
	if err := options.Dir.Create(); err != nil {
		return err
	}

	lock, err := options.Dir.Acquire()
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // The process ends.
	if err := realnode.Cleanup(options.Dir); err != nil {
		return fmt.Errorf("clean up after an earlier run: %w", err)
	}

	run, err := prepare(options)
	if err != nil {
		return err
	}

	err = run.untilEnd(ctx)
	return errors.Join(err, run.stop(context.WithoutCancel(ctx), err))
}

// errInterrupted is the end of a run that was told to stop before it was ready.
var errInterrupted = errors.New("told to stop before the cluster was ready")

// untilEnd starts everything and waits for the end: of ctx, which is no error once all is ready, or of a component.
func (r *run) untilEnd(ctx context.Context) error {
	// The first component that dies ends the start as well as the run.
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case died := <-r.group.Died():
			cancel(died)
		case <-running.Done():
		}
	}()

	err := r.start(running)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return errInterrupted
	case running.Err() != nil:
		return context.Cause(running) // What died, rather than who waited for it.
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
	report    *report
	began     time.Time
}

// prepare does all that needs no process: addresses, certificates, kubeconfig files.
func prepare(options Options) (*run, error) {
	run := &run{Options: options, began: time.Now()}
	addresses, notes, err := options.Dir.ChooseAddresses(options.RegistryPort, state.Machine{})
	if err != nil {
		return nil, err
	}

	for _, note := range notes {
		fmt.Fprintf(options.Out, "Note: %s\n", note)
	}

	run.addresses = addresses
	run.config = components.Config{Dir: options.Dir, Addresses: addresses, Kubeconfig: options.Dir.ComponentKubeconfig, Audit: options.Audit}
	run.report = newReport(options, run.config)
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

	if run.client, err = adminClient(options.Dir); err != nil {
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
	server := r.server()
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

func (r *run) server() string { return "https://127.0.0.1:" + strconv.Itoa(r.addresses.APIServerPort) }

func adminClient(dir state.Dir) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("log in as administrator: %w", err)
	}
	config.QPS = -1 // The supervisor asks again and again whether things are ready; client-go would slow it down.
	return kubernetes.NewForConfig(config)
}

// stop ends every component, removes what a real node left on the machine and records how the run ended.
func (r *run) stop(ctx context.Context, cause error) error {
	// A full disk is no reason to leave anything running: what cannot be recorded is reported at the end.
	failed := []error{r.report.phase(state.Stopping, "")}
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

	return errors.Join(append(failed, r.report.phase(phase, message))...)
}

// executable is the program that children are started from: this very one, also when its file was replaced meanwhile.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find devcluster's own executable: %w", err)
	}
	return filepath.EvalSymlinks(path)
}
