package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// TestCatalogSource runs a catalog image on a real node, in a namespace with restricted pod
// security. The catalog serves its packages. Its pod is replaced when the tag has moved and when
// a user has changed the pod. It is removed with its CatalogSource. catalog-operator runs from
// the shipped manifests.
func TestCatalogSource(t *testing.T) {
	requirePrograms(t, "devcluster", "mainstay", "opm")
	if !canRunRealNode(t) {
		t.Skip("simulated nodes run no pods")
	}

	c := &catalogSourceFixture{fixture: newFixture(t, true)}
	c.runStep("catalog-operator runs", c.installCatalogOperator)
	c.runStep("a catalog is pushed, and its CatalogSource is created", c.createCatalogSource)
	c.runStep("it is READY, and responds", func(ctx context.Context) error { return c.waitForPackage(ctx, "kettle") })
	c.runStep("its tag is moved, and another pod serves the new content", c.moveTag)
	c.runStep("a changed pod is replaced", c.changePod)
	c.runStep("a broken image is reported, and the former pod serves on", c.breakTag)
	c.runStep("the CatalogSource is deleted, and nothing of it is left", c.deleteCatalogSource)
}

const catalogNamespace = "catalogs"

// catalogSourceFixture is the fixture for one catalog.
type catalogSourceFixture struct{ *fixture }

func (c *catalogSourceFixture) catalogImage() string {
	return c.Registry + "/e2e/classic-catalog:latest"
}

// installCatalogOperator pushes this build of Mainstay, and applies the manifests of
// catalog-operator with it.
func (c *catalogSourceFixture) installCatalogOperator(ctx context.Context) error {
	own := c.Registry + "/e2e/mainstay:classic"
	if _, err := c.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(c.root, "bin", "mainstay"), "--push", own); err != nil {
		return err
	}

	config := filepath.Join(c.root, "config", "classic")
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(config, "crd")); err != nil {
		return err
	}

	shipped, err := c.Kubectl(ctx, "kustomize", filepath.Join(config, "catalog-operator"))
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: olm}}\n---\n"+strings.ReplaceAll(shipped, "ghcr.io/mainstay-dev/mainstay:latest", own)); err != nil {
		return err
	}

	return c.waitFor(ctx, func(ctx context.Context) error {
		return c.checkOutput(ctx, "1", "get", "deployment", "catalog-operator", "-n", "olm", "-o", "jsonpath={.status.availableReplicas}")
	})
}

// publishPackage pushes a catalog image with one package under the tag.
func (c *catalogSourceFixture) publishPackage(ctx context.Context, name string) error {
	dir := filepath.Join(c.dir, "classic-"+name)
	catalog := fmt.Sprintf(`
{"schema": "olm.package", "name": %[1]q, "defaultChannel": "stable"}
{"schema": "olm.channel", "package": %[1]q, "name": "stable", "entries": [{"name": "%[1]s.v1.0.0"}]}
{"schema": "olm.bundle", "package": %[1]q, "name": "%[1]s.v1.0.0", "image": "registry.example.com/%[1]s:v1.0.0", "properties": [{"type": "olm.package", "value": {"packageName": %[1]q, "version": "1.0.0"}}]}
`, name)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(catalog), 0o644)); err != nil {
		return err
	}

	_, err := c.Run(ctx, "opm", "generate", "dockerfile", dir, "--tag", c.catalogImage(), "--push", "--cert-dir", c.CertDir())
	return err
}

func (c *catalogSourceFixture) createCatalogSource(ctx context.Context) error {
	if err := c.publishPackage(ctx, "kettle"); err != nil {
		return err
	}
	return c.Apply(ctx, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s, labels: {pod-security.kubernetes.io/enforce: restricted}}}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: kitchen, namespace: %[1]s}
spec:
  sourceType: grpc
  image: %[2]s
  updateStrategy: {registryPoll: {interval: 20s}}
`, catalogNamespace, c.catalogImage()))
}

// waitForPackage waits until the catalog is READY and contains exactly one package.
func (c *catalogSourceFixture) waitForPackage(ctx context.Context, name string) error {
	err := c.waitFor(ctx, func(ctx context.Context) error {
		return c.checkOutput(ctx, "READY", "get", "catalogsource", "kitchen", "-n", catalogNamespace, "-o", "jsonpath={.status.connectionState.lastObservedState}")
	})
	if err != nil {
		return err
	}

	address, err := c.Kubectl(ctx, "get", "service", "kitchen", "-n", catalogNamespace, "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
	if err != nil {
		return err
	}

	return c.waitFor(ctx, func(ctx context.Context) error {
		got, err := listPackages(ctx, address)
		if err == nil && !slices.Equal(got, []string{name}) {
			err = fmt.Errorf("got packages %q, want %q", got, name)
		}
		return err
	})
}

// listPackages returns the packages of the catalog at an address.
func listPackages(ctx context.Context, address string) ([]string, error) {
	pool, name := dial.New(dial.Options{}), types.NamespacedName{Name: "kitchen"}
	defer pool.Close()
	if err := pool.Set(name, address); err != nil {
		return nil, err
	}

	client, _ := pool.Client(name)
	stream, err := client.ListPackages(ctx, &registrypb.ListPackageRequest{})
	if err != nil {
		return nil, err
	}

	var names []string
	for {
		found, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names = append(names, found.GetName())
	}
}

// servingPod returns the name of the only serving pod.
func (c *catalogSourceFixture) servingPod(ctx context.Context) (string, error) {
	out, err := c.Kubectl(ctx, "get", "pods", "-n", catalogNamespace, "-l", "olm.catalogSource=kitchen", "-o", "jsonpath={.items[*].metadata.name}")
	if err == nil && len(strings.Fields(out)) != 1 {
		err = fmt.Errorf("got serving pods %q, want one", out)
	}
	return out, err
}

// waitForOtherPod waits until another pod serves.
func (c *catalogSourceFixture) waitForOtherPod(ctx context.Context, than string) error {
	return c.waitFor(ctx, func(ctx context.Context) error {
		name, err := c.servingPod(ctx)
		if err == nil && name == than {
			err = fmt.Errorf("pod %s still serves, want another one", name)
		}
		return err
	})
}

func (c *catalogSourceFixture) moveTag(ctx context.Context) error {
	first, err := c.servingPod(ctx)
	if err != nil {
		return err
	}
	if err := c.publishPackage(ctx, "teapot"); err != nil {
		return err
	}
	if err := c.waitForOtherPod(ctx, first); err != nil {
		return err
	}

	return c.waitForPackage(ctx, "teapot")
}

func (c *catalogSourceFixture) changePod(ctx context.Context) error {
	return c.waitFor(ctx, func(ctx context.Context) error {
		name, err := c.servingPod(ctx)
		if err != nil {
			return err
		}
		// A poll may replace the pod at the same time.
		if _, err := c.Kubectl(ctx, "set", "image", "pod/"+name, "-n", catalogNamespace, "registry-server="+c.Registry+"/e2e/other:v1"); err != nil {
			return err
		}
		if err := c.waitForOtherPod(ctx, name); err != nil {
			return err
		}

		return c.waitForPackage(ctx, "teapot")
	})
}

// breakTag moves the tag to an image that is not a catalog.
func (c *catalogSourceFixture) breakTag(ctx context.Context) error {
	if _, err := c.runWithRegistry(ctx, "image", "build", "--binary", filepath.Join(c.root, "bin", "mainstay"), "--push", c.catalogImage()); err != nil {
		return err
	}

	err := c.waitFor(ctx, func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "get", "catalogsource", "kitchen", "-n", catalogNamespace, "-o", "jsonpath={.status.reason}: {.status.message}")
		if err == nil && (!strings.HasPrefix(out, "RegistryServerError: couldn't ensure registry server - update pod kitchen-") || !strings.Contains(out, "deleted update pod")) {
			err = fmt.Errorf("got the message %q of the catalog", out)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.waitForPackage(ctx, "teapot")
}

func (c *catalogSourceFixture) deleteCatalogSource(ctx context.Context) error {
	if _, err := c.Kubectl(ctx, "delete", "catalogsource", "kitchen", "-n", catalogNamespace); err != nil {
		return err
	}
	return c.waitFor(ctx, func(ctx context.Context) error {
		return c.checkOutput(ctx, "", "get", "pods,services,networkpolicies", "-n", catalogNamespace, "-o", "name")
	})
}
