package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestPackagesOfRunAll reads the packages of a CatalogSource with kubectl while `mainstay run all` runs outside of the
// cluster: the API server passes the requests on to that process.
func TestPackagesOfRunAll(t *testing.T) {
	requirePrograms(t, "opm")
	f := newFixture(t, false)
	f.runStep("the kinds of OLM Classic exist, and every server runs", func(ctx context.Context) error {
		if _, err := f.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(f.root, "config", "classic", "crd")); err != nil {
			return err
		}
		return f.Serve(ctx)
	})

	f.runStep("a catalog is pushed, and its CatalogSource is created", f.offerKettle)
	f.runStep("kubectl shows its package", func(ctx context.Context) error {
		return f.waitFor(ctx, func(ctx context.Context) error {
			return f.checkOutput(ctx, "kitchen stable", "get", "packagemanifest", "kettle", "-n", "default", "-o", "jsonpath={.status.catalogSource} {.status.defaultChannel}")
		})
	})

	f.runStep("the servers stop, and the API server does not forward requests for packages any more", func(ctx context.Context) error {
		if err := f.StopServers(); err != nil {
			return err
		}
		return f.checkOutput(ctx, "", "get", "apiservice", "v1.packages.operators.coreos.com", "--ignore-not-found", "-o", "name")
	})
}

// offerKettle pushes a catalog with one package, and creates a CatalogSource with it.
func (f *fixture) offerKettle(ctx context.Context) error {
	const content = `{"schema": "olm.package", "name": "kettle", "defaultChannel": "stable"}
{"schema": "olm.channel", "package": "kettle", "name": "stable", "entries": [{"name": "kettle.v1.0.0"}]}
{"schema": "olm.bundle", "package": "kettle", "name": "kettle.v1.0.0", "image": "registry.example.com/kettle:v1.0.0", "properties": [
{"type": "olm.package", "value": {"packageName": "kettle", "version": "1.0.0"}}, {"type": "olm.csv.metadata", "value": {"displayName": "Kettle"}}]}
`
	dir, image := filepath.Join(f.dir, "kettle-catalog"), f.Registry+"/e2e/kettle-catalog:latest"
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(content), 0o644)); err != nil {
		return err
	}
	if _, err := f.Run(ctx, "opm", "generate", "dockerfile", dir, "-i", "scratch", "--tag", image, "--push"); err != nil {
		return err
	}

	return f.Apply(ctx, fmt.Sprintf(`
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: kitchen, namespace: default}
spec: {sourceType: grpc, image: %q}
`, image))
}
