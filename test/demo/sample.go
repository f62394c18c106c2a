package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// stepTimeout is the timeout of a step that waits for the cluster.
const stepTimeout = time.Minute

// step is a step of the demo.
type step struct {
	what string
	do   func(context.Context) (string, error)
}

// demonstrateSampleOperator demonstrates the sample operator: installation, update, drift
// correction and removal.
func (d *demo) demonstrateSampleOperator(ctx context.Context) error {
	catalog := d.Registry + "/demo/catalog:latest"
	sampleSteps := []step{
		{"The sample operator's image is built and pushed, without a container engine", d.pushOperatorImages},
		{"A catalog with version 1.0.0 is built and pushed", func(ctx context.Context) (string, error) {
			return d.publishCatalog(ctx, catalog, "1.0.0")
		}},
		{"The catalog is added to the cluster", func(ctx context.Context) (string, error) {
			if _, err := d.Mainstay(ctx, "catalog", "add", "demo", "--image", catalog, "--poll-interval", "10m", "--wait"); err != nil {
				return "", err
			}
			return d.Mainstay(ctx, "catalog", "list")
		}},
		{"hello-operator is installed", func(ctx context.Context) (string, error) {
			_, err := d.Mainstay(ctx, "extension", "install", "hello-operator", "--namespace", "hello", "--create-namespace", "--wait")
			return "", err
		}},
		{"The status of the extension", func(ctx context.Context) (string, error) {
			if err := d.checkInstalledVersion(ctx, "hello-operator", "1.0.0"); err != nil {
				return "", err
			}
			return d.Mainstay(ctx, "extension", "status", "hello-operator")
		}},
		{"Version 1.1.0 is added to the catalog, and the cluster pulls the catalog again", func(ctx context.Context) (string, error) {
			if _, err := d.publishCatalog(ctx, catalog, "1.0.0", "1.1.0"); err != nil {
				return "", err
			}
			return d.Mainstay(ctx, "catalog", "refresh", "demo")
		}},
		{"The operator updates by itself", func(ctx context.Context) (string, error) {
			err := steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error { return d.checkInstalledVersion(ctx, "hello-operator", "1.1.0") })
			return "1.0.0 → 1.1.0", err
		}},
		{"A cluster administrator deletes its Deployment; it comes back", d.demonstrateRecreation},
		{"A cluster administrator changes its Service; the change is reverted", d.demonstrateDriftCorrection},
	}
	if !d.console {
		sampleSteps = append(sampleSteps, step{"hello-operator is uninstalled, and nothing of it is left", d.uninstallSampleOperator})
	}

	for _, s := range sampleSteps {
		if err := steps.Do(ctx, s.what, s.do); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) operatorImage() string { return d.Registry + "/demo/hello-operator" }

func (d *demo) pushOperatorImages(ctx context.Context) (string, error) {
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		if _, err := d.Mainstay(ctx, "image", "build", "--binary", "bin/hello-operator", "--push", d.operatorImage()+":"+version); err != nil {
			return "", err
		}
	}
	return d.operatorImage(), nil
}

// publishCatalog builds a catalog of some versions and pushes it with its bundles.
func (d *demo) publishCatalog(ctx context.Context, catalog string, versions ...string) (string, error) {
	dir := filepath.Join(d.dir, "bundles")
	if err := cluster.CopyExample("examples", dir, d.operatorImage(), versions...); err != nil {
		return "", err
	}
	return d.Mainstay(ctx, "catalog", "build", dir, "--push", catalog)
}

// checkInstalledVersion returns an error unless a version is installed and its rollout is
// complete.
func (d *demo) checkInstalledVersion(ctx context.Context, name, want string) error {
	out, err := d.Kubectl(ctx, "get", "clusterextension", name, "-o",
		`jsonpath={.status.install.bundle.version} {.status.conditions[?(@.type=="Progressing")].reason}`)
	if err != nil {
		return err
	}
	if out != want+" Succeeded" {
		return fmt.Errorf("the extension is at %q, want %s", out, want)
	}
	return nil
}

func (d *demo) demonstrateRecreation(ctx context.Context) (string, error) {
	const path = `jsonpath={.metadata.uid} {.status.readyReplicas}`
	before, err := d.Kubectl(ctx, "get", "deployment", "hello-operator", "-n", "hello", "-o", path)
	if err != nil {
		return "", err
	}
	if _, err := d.Kubectl(ctx, "delete", "deployment", "hello-operator", "-n", "hello"); err != nil {
		return "", err
	}

	return "", steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error {
		after, err := d.Kubectl(ctx, "get", "deployment", "hello-operator", "-n", "hello", "-o", path)
		if err == nil && (after == before || !strings.HasSuffix(after, " 1")) {
			err = errors.New("the Deployment is not back and ready")
		}
		return err
	})
}

func (d *demo) demonstrateDriftCorrection(ctx context.Context) (string, error) {
	patch := `{"spec":{"selector":{"app.kubernetes.io/name":"wrong"}}}`
	if _, err := d.Kubectl(ctx, "patch", "service", "hello-operator", "-n", "hello", "--type", "merge", "-p", patch); err != nil {
		return "", err
	}
	return "", steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error {
		out, err := d.Kubectl(ctx, "get", "service", "hello-operator", "-n", "hello", "-o", "jsonpath={.spec.selector}")
		if err == nil && !strings.Contains(out, "hello-operator") {
			err = fmt.Errorf("the Service selects %s", out)
		}
		return err
	})
}

func (d *demo) uninstallSampleOperator(ctx context.Context) (string, error) {
	if _, err := d.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--delete-custom-resources", "--wait"); err != nil {
		return "", err
	}

	const owned = "olm.operatorframework.io/owner-name=hello-operator"
	out, err := d.Kubectl(ctx, "get", "crds,clusterroles,clusterrolebindings,deployments,services,serviceaccounts", "-A", "-l", owned, "-o", "name")
	if err != nil {
		return "", err
	}
	if out != "" {
		return "", fmt.Errorf("left over: %s", out)
	}

	return "", os.RemoveAll(filepath.Join(d.dir, "bundles"))
}
