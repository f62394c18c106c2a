package cluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/simulated"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
	"github.com/mainstay-dev/mainstay/devcluster/internal/supervise"
)

// startTimeout bounds the start of the whole cluster, on a machine that is busy with other things.
const startTimeout = 3 * time.Minute

var errStartTimeout = fmt.Errorf("not ready within %s", startTimeout)

// start starts everything, each component as soon as those that it needs are ready:
//
//	node's namespaces and network ─▶ registry
//	                              └▶ etcd ─▶ API server ─▶ controller manager, scheduler, nodes
func (r *run) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)
	defer cancel()
	if err := r.report.phase(state.Starting, ""); err != nil {
		return err
	}

	if r.node != nil {
		if err := r.startNodeNamespaces(ctx); err != nil {
			return err
		}
	}

	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return r.startRegistry(ctx) })
	all.Go(func() error { return r.startControlPlane(ctx) })
	if err := all.Wait(); err != nil {
		return err
	}

	return r.report.ready(time.Since(r.began))
}

func (r *run) startControlPlane(ctx context.Context) error {
	for _, component := range []components.Component{r.config.Etcd(), r.config.APIServer()} {
		if err := r.startComponent(ctx, component); err != nil {
			return err
		}
	}

	rest, ctx := errgroup.WithContext(ctx)
	manager := r.config.ControllerManager()
	// A pod needs its namespace's service account: without it, the first `kubectl run` would fail.
	manager.Ready = inOrder(manager.Ready, r.defaultServiceAccount)
	rest.Go(func() error { return r.startComponent(ctx, manager) })
	rest.Go(func() error { return r.startComponent(ctx, r.config.Scheduler()) })
	rest.Go(func() error { return r.startNodes(ctx) })

	return rest.Wait()
}

func (r *run) startNodes(ctx context.Context) error {
	switch r.Node {
	case Simulated:
		nodes := r.config.Nodes(r.Nodes)
		nodes.Ready = r.nodesReady(simulatedNames(r.Nodes))
		nodes.Address = nodeNames(r.Nodes)
		return r.startComponent(ctx, nodes)
	case Containerd:
		if err := simulated.RemoveNodes(ctx, r.client); err != nil {
			return err
		}
		return r.startRealNode(ctx)
	default:
		return simulated.RemoveNodes(ctx, r.client)
	}
}

// startComponent starts a component and waits until it is ready.
func (r *run) startComponent(ctx context.Context, component components.Component) error {
	began := time.Now()
	process, err := r.launch(component, supervise.Command{})
	if err != nil {
		return err
	}

	if component.Ready != nil {
		if err := process.WaitReady(ctx, component.Ready); err != nil {
			return err
		}
	}

	return r.report.componentReady(component, process.PID(), time.Since(began))
}

// launch starts a component. base carries what a component does not know: namespaces and open files.
func (r *run) launch(component components.Component, base supervise.Command) (*supervise.Process, error) {
	command := base
	command.Name = component.Name
	command.Path = component.Executable
	command.Args = append([]string{component.Program}, component.Args...)
	command.Env = component.Env
	command.LogFile = r.Dir.Log(component.Name)
	command.StopGrace = component.StopGrace
	if command.Path == "" {
		var err error
		if command.Path, err = executable(); err != nil {
			return nil, err
		}
	}

	if component.InNode {
		command.Namespaces = r.node.PID()
	}

	process, err := r.group.Start(command)
	if err != nil {
		return nil, err
	}

	return process, r.report.componentStarted(component, process.PID())
}

// inOrder asks each question once the ones before are answered.
func inOrder(questions ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, question := range questions {
			if err := question(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
