package cluster

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/devcluster/internal/realnode"
)

// startNodeNamespaces creates the namespaces and the network of the real node. After it, the gateway address exists and
// programs can be started in the node.
func (r *run) startNodeNamespaces(ctx context.Context) error {
	began := time.Now()
	if err := r.node.Prepare(); err != nil {
		return err
	}

	component, base := r.node.Init()
	process, err := r.launchProcess(component, base)
	if err != nil {
		return err
	}
	if err := r.node.Connect(process.PID()); err != nil {
		return err
	}
	if err := process.WaitReady(ctx, component.Ready); err != nil {
		return err
	}

	return r.reporter.recordComponentReady(component, process.PID(), time.Since(began))
}

// startRealNode starts the programs of the node. The API server must be ready.
func (r *run) startRealNode(ctx context.Context) error {
	containerd, err := r.node.Containerd()
	if err != nil {
		return err
	}

	kubelet := r.node.Kubelet()
	kubelet.Ready = r.nodesReadyCheck([]string{realnode.NodeName})

	programs, ctx := errgroup.WithContext(ctx)
	programs.Go(func() error {
		if err := r.startComponent(ctx, containerd); err != nil {
			return err
		}
		return r.startComponent(ctx, kubelet)
	})

	programs.Go(func() error { return r.startComponent(ctx, r.node.KubeProxy()) })
	programs.Go(func() error {
		if err := r.node.ApplyDNS(ctx, r.client); err != nil {
			return err
		}
		return r.startComponent(ctx, r.node.CoreDNS())
	})

	return programs.Wait()
}

// startRegistry starts the registry. For a real node, it also pushes the pause image.
func (r *run) startRegistry(ctx context.Context) error {
	if err := r.startComponent(ctx, r.config.Registry(r.node != nil)); err != nil || r.node == nil {
		return err
	}
	return r.node.PushPauseImage(ctx)
}
