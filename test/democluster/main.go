// Command democluster walks the update of a whole cluster through, on an embedded one: three
// signed releases of Mainstay itself, an update service, risks, and nodes that are updated one
// after the other. It prints a line for each step. `make demo-cluster` builds and runs it.
//
// Nodes are simulated: they mark what a release deploys as running. The same components run as
// processes beside the cluster, each in the version that its Deployment names, as a kubelet would
// run them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/site"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
	"github.com/mainstay-dev/mainstay/test/payload"
)

// The releases of the demo.
const (
	first, second, third = "1.0.0", "1.1.0", "1.2.0"
	channel              = "stable"
)

// stepTime bounds each step.
const stepTime = 4 * time.Minute

func main() {
	programs := flag.String("programs", "bin/releases", "folder of <version>/mainstay")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *programs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo-cluster:", err)
		os.Exit(1)
	}
}

// demo is what the steps share.
type demo struct {
	*cluster.Cluster
	dir, programs string
	began         time.Time

	site     *site.Site
	releases map[string]*payload.Images
	// graphs is the address of the update service.
	graphs  string
	kubelet *kubelet
	watch   *watch
}

func run(ctx context.Context, programs string) (err error) {
	dir, err := os.MkdirTemp("", "mainstay-demo-cluster-")
	if err != nil {
		return err
	}

	d := &demo{dir: dir, programs: programs, began: time.Now(), releases: map[string]*payload.Images{}}
	fmt.Printf("The demo runs in %s\n\n", dir)
	defer func() { err = errors.Join(err, d.end(ctx, err != nil)) }()
	for _, s := range []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"A real Kubernetes with three simulated nodes and a registry starts", d.start},
		{"Releases " + first + ", " + second + " and " + third + " are built and pushed, without a container engine", d.build},
		{"They are signed, by a key made now", d.sign},
		{"The update service finds them, with what a folder says of their risks", d.serveUpdates},
		{"The cluster is installed by the release image " + first, d.install},
		{"Its nodes are at the configuration of " + first, d.nodesHave(first)},
		{"The cluster knows which updates there are, and which risks apply to it", d.offers},
		{"Update to " + third + " is asked for, and refused", d.refused},
		{"Update to " + second + " is asked for", d.ask},
		{"The first node is on its way", d.midway},
		{"The cluster is updated, its nodes one after the other", d.complete},
		{"Its nodes are at the configuration of " + second, d.nodesHave(second)},
		{"Its history", func(ctx context.Context) (string, error) { return d.Mainstay(ctx, "cluster", "history") }},
	} {
		err := steps.Do(ctx, s.what, func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, stepTime)
			defer cancel()
			return s.do(ctx)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// start starts the cluster, and makes its nodes a control plane.
func (d *demo) start(ctx context.Context) (string, error) {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: d.dir, Nodes: 3})
	d.Cluster = c
	if err != nil {
		return "", err
	}
	if d.site, err = openSite(d.dir); err != nil {
		return "", err
	}
	if _, err := d.Kubectl(ctx, "label", "nodes", "--all", "node-role.kubernetes.io/control-plane="); err != nil {
		return "", err
	}

	states, err := d.nodeStates(ctx)
	if err != nil {
		return "", err
	}

	d.kubelet = &kubelet{demo: d}
	for _, s := range states {
		d.kubelet.nodes = append(d.kubelet.nodes, s.name)
	}

	return "images go to " + c.Registry + "\nno Prometheus is needed: a stand-in answers the query of one risk by 0, that of the other by 1", nil
}

// end stops what was started.
func (d *demo) end(ctx context.Context, failed bool) error {
	began := time.Now()
	var wrong []error
	if d.watch != nil {
		d.watch.stop()
	}
	if d.kubelet != nil {
		wrong = append(wrong, d.kubelet.stop())
	}
	if d.site != nil {
		wrong = append(wrong, d.site.Close())
	}
	if d.Cluster != nil {
		wrong = append(wrong, d.Down(ctx))
	}
	if failed {
		fmt.Fprintln(os.Stderr, "\nlogs are in", d.dir)
		return errors.Join(wrong...)
	}

	wrong = append(wrong, os.RemoveAll(d.dir))
	if err := errors.Join(wrong...); err != nil {
		return err
	}

	fmt.Printf("%6.2f s  All is stopped and removed\n\nThe demo took %.0f s.\n", time.Since(began).Seconds(), time.Since(d.began).Seconds())
	return nil
}

// eventually waits for a state that the cluster reaches by itself. Meanwhile the components are
// kept at what their Deployments say.
func (d *demo) eventually(ctx context.Context, check func(context.Context) error) error {
	return steps.Eventually(ctx, stepTime, func(ctx context.Context) error {
		if err := d.kubelet.sync(ctx); err != nil {
			return err
		}
		return check(ctx)
	})
}
