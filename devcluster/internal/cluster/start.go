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

// startTimeout bounds the start of the whole cluster. It allows for a busy machine.
const startTimeout = 3 * time.Minute

var errStartTimeout = fmt.Errorf("not ready within %s", startTimeout)

// startComponents starts all components, each one as soon as its dependencies are ready:
//
//	node's namespaces and network ─▶ registry
//	                              └▶ etcd ─▶ API server ─▶ controller manager, scheduler, nodes
func (r *run) startComponents(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)
	defer cancel()
	if err := r.reporter.recordPhase(state.Starting, ""); err != nil {
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

	return r.reporter.recordClusterReady(time.Since(r.startedAt))
}

func (r *run) startControlPlane(ctx context.Context) error {
	for _, component := range []components.Component{r.config.Etcd(), r.config.APIServer()} {
		if err := r.startComponent(ctx, component); err != nil {
			return err
		}
	}

	rest, ctx := errgroup.WithContext(ctx)
	manager := r.config.ControllerManager()
	// A pod needs the service account of its namespace. Without it, the first `kubectl run` would fail.
	manager.Ready = chainReadinessChecks(manager.Ready, r.checkDefaultServiceAccount)
	rest.Go(func() error { return r.startComponent(ctx, manager) })
	rest.Go(func() error { return r.startComponent(ctx, r.config.Scheduler()) })
	rest.Go(func() error { return r.startNodesOfKind(ctx) })

	return rest.Wait()
}

// startNodesOfKind starts the nodes of the chosen kind. If none are simulated, it deletes those that an earlier run
// simulated.
func (r *run) startNodesOfKind(ctx context.Context) error {
	switch r.Node {
	case Simulated:
		nodes := r.config.Nodes(r.Nodes)
		nodes.Ready = r.nodesReadyCheck(simulatedNodeNames(r.Nodes))
		nodes.Address = describeNodeNames(r.Nodes)
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
	process, err := r.launchProcess(component, supervise.Command{})
	if err != nil {
		return err
	}

	if component.Ready != nil {
		if err := process.WaitReady(ctx, component.Ready); err != nil {
			return err
		}
	}

	return r.reporter.recordComponentReady(component, process.PID(), time.Since(began))
}

// launchProcess starts the process of a component. base has what a component does not define: namespaces and open
// files.
func (r *run) launchProcess(component components.Component, base supervise.Command) (*supervise.Process, error) {
	command := base
	command.Name = component.Name
	command.Path = component.Executable
	command.Args = append([]string{component.Program}, component.Args...)
	command.Env = component.Env
	command.LogFile = r.Dir.Log(component.Name)
	command.StopGrace = component.StopGrace
	if command.Path == "" {
		var err error
		if command.Path, err = ownExecutablePath(); err != nil {
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

	return process, r.reporter.recordComponentStarted(component, process.PID())
}

// chainReadinessChecks returns a check that runs the given checks in order and returns the first error.
func chainReadinessChecks(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
