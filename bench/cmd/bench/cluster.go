package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// measureCluster measures the start of the embedded cluster, and installations of the sample
// operator on it.
func measureCluster(ctx context.Context, dir string, runs int) error {
	var ready samples
	for i := range runs {
		began := time.Now()
		c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: filepath.Join(dir, fmt.Sprintf("up-%d", i))})
		if err != nil {
			return err
		}

		ready = append(ready, secondsSince(began))
		if err := c.Down(ctx); err != nil {
			return err
		}
	}

	ready.printSummary("devcluster is ready, from nothing", "s", 2)
	return measureInstall(ctx, filepath.Join(dir, "install"), runs)
}

func measureInstall(ctx context.Context, dir string, runs int) (err error) {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down(ctx)) }()
	if err := c.Serve(ctx); err != nil {
		return err
	}

	bundles := filepath.Join(dir, "bundles")
	if err := cluster.CopyExample("examples", bundles, c.Registry+"/bench/hello-operator", "1.0.0"); err != nil {
		return err
	}

	catalog := c.Registry + "/bench/catalog:v1"
	if _, err := c.Mainstay(ctx, "catalog", "build", bundles, "--push", catalog); err != nil {
		return err
	}
	if _, err := c.Mainstay(ctx, "catalog", "add", "bench", "--image", catalog, "--wait"); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "create", "namespace", "bench"); err != nil {
		return err
	}

	var install, remove samples
	// The first installation fills the caches and is not counted.
	for i := range runs + 1 {
		name := fmt.Sprintf("bench-%d", i)
		installed, removed, err := measureOneInstall(ctx, c, name)
		if err != nil {
			return err
		}
		if i > 0 {
			install, remove = append(install, installed), append(remove, removed)
		}
	}

	install.printSummary("kubectl apply of a ClusterExtension until Installed=True", "s", 2)
	remove.printSummary("kubectl delete of a ClusterExtension until it is gone", "s", 2)
	return nil
}

const extensionManifest = `
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {name: %s}
spec:
  namespace: bench
  source: {sourceType: Catalog, catalog: {packageName: hello-operator}}
`

// measureOneInstall measures one installation and removal as a user observes them, including the
// time of kubectl.
func measureOneInstall(ctx context.Context, c *cluster.Cluster, name string) (installed, removed float64, err error) {
	began := time.Now()
	if err := c.Apply(ctx, fmt.Sprintf(extensionManifest, name)); err != nil {
		return 0, 0, err
	}
	if _, err := c.Kubectl(ctx, "wait", "clusterextension/"+name, "--for=condition=Installed", "--timeout=60s"); err != nil {
		return 0, 0, err
	}

	installed = secondsSince(began)
	began = time.Now()
	if _, err := c.Kubectl(ctx, "delete", "clusterextension", name, "--timeout=60s"); err != nil {
		return 0, 0, err
	}

	removed = secondsSince(began)
	out, err := c.Kubectl(ctx, "get", "crds", "-o", "name")
	if err == nil && strings.Contains(out, "greetings") {
		err = errors.New("the CRD is still there after the extension has gone")
	}

	return installed, removed, err
}
