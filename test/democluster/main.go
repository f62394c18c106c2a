// Command democluster demonstrates the update of a whole cluster on an embedded one, with three
// signed releases of Mainstay itself, an update service, conditional updates, and nodes that are
// updated one after the other. It prints a line for each step. `make demo-cluster` builds and
// runs it.
//
// Nodes are simulated: they mark the pods of a release as running. The same components run as
// processes outside of the cluster, each in the version of its Deployment, as a kubelet would run
// them.
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

	"github.com/mainstay-dev/mainstay/internal/platform"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/site"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// Releases of the demo.
const (
	firstVersion, secondVersion, thirdVersion = "1.0.0", "1.1.0", "1.2.0"
	updateChannel                             = "stable"
)

// stepTimeout is the timeout of each step.
const stepTimeout = 4 * time.Minute

func main() {
	programs := flag.String("programs", "bin/releases", "folder of <version>/mainstay")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runDemo(ctx, *programs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo-cluster:", err)
		os.Exit(1)
	}
}

// demo is the state that the steps share.
type demo struct {
	*cluster.Cluster
	folders
	began time.Time

	site     *site.Site
	releases map[string]*platform.Images
	// graphURL is the address of the update service.
	graphURL  string
	kubelet   *fakeKubelet
	nodeWatch *nodeWatcher
}

func runDemo(ctx context.Context, programs string) (err error) {
	dir, err := os.MkdirTemp("", "mainstay-demo-cluster-")
	if err != nil {
		return err
	}

	d := &demo{folders: folders{dir: dir, programs: programs}, began: time.Now(), releases: map[string]*platform.Images{}}
	fmt.Printf("The demo runs in %s\n\n", dir)
	defer func() { err = errors.Join(err, d.tearDown(ctx, err != nil)) }()
	for _, s := range []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"A real Kubernetes with three simulated nodes and a registry starts", d.startCluster},
		{"Releases " + firstVersion + ", " + secondVersion + " and " + thirdVersion + " are built and pushed, without a container engine", d.buildReleases},
		{"The releases are signed with a new key", d.signReleases},
		{"The update service finds the releases, and reads their known issues from a folder", d.startUpdateService},
		{"The cluster is installed from the release image " + firstVersion, d.installCluster},
		{"The nodes have the configuration of " + firstVersion, d.waitForNodesAt(firstVersion)},
		{"The cluster lists its updates, and the known issues that apply to it", d.showAvailableUpdates},
		{"The update to " + thirdVersion + " is requested, and refused", d.requestRiskyUpdate},
		{"The update to " + secondVersion + " is requested", d.requestUpdate},
		{"The first node is being updated", d.showStatusDuringUpdate},
		{"The cluster is updated, one node after the other", d.waitForUpdate},
		{"The nodes have the configuration of " + secondVersion, d.waitForNodesAt(secondVersion)},
		{"The history of the cluster version", func(ctx context.Context) (string, error) { return d.Mainstay(ctx, "cluster", "history") }},
	} {
		err := steps.Do(ctx, s.what, func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			return s.do(ctx)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// startCluster starts the cluster and labels its nodes as control plane.
func (d *demo) startCluster(ctx context.Context) (string, error) {
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

	states, err := listNodeStates(ctx, d.Cluster)
	if err != nil {
		return "", err
	}

	d.kubelet = &fakeKubelet{demo: d}
	for _, s := range states {
		d.kubelet.nodes = append(d.kubelet.nodes, s.name)
	}

	return "images go to " + c.Registry + "\nPrometheus is simulated: the query of one known issue returns 0, the query of the other returns 1", nil
}

// tearDown stops everything that was started.
func (d *demo) tearDown(ctx context.Context, failed bool) error {
	began := time.Now()
	var wrong []error
	if d.nodeWatch != nil {
		d.nodeWatch.stopWatching()
	}
	if d.kubelet != nil {
		wrong = append(wrong, d.kubelet.stopAll())
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

	fmt.Printf("%6.2f s  Everything is stopped and removed\n\nThe demo took %.0f s.\n", time.Since(began).Seconds(), time.Since(d.began).Seconds())
	return nil
}

// waitFor waits for a state of the cluster. Meanwhile it keeps the processes in sync with their
// Deployments.
func (d *demo) waitFor(ctx context.Context, check func(context.Context) error) error {
	return steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error {
		if err := d.kubelet.syncProcesses(ctx); err != nil {
			return err
		}
		return check(ctx)
	})
}
