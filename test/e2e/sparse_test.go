package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSparseBundles installs, updates, rolls back and removes an operator with minimal bundles,
// and corrects its drift. The bundles only state the package in the annotations. Their
// ClusterServiceVersion has neither a version nor an install strategy. The nodes are simulated,
// as the bundles are read before any pod starts.
func TestSparseBundles(t *testing.T) {
	requirePrograms(t, "opm")
	s := &sparseFixture{fixture: newFixture(t, false)}
	s.runStep("Mainstay runs", s.startMainstay)
	s.runStep("a catalog with 1.0.0 is served", func(ctx context.Context) error {
		if err := s.publishBundles(ctx, "1.0.0"); err != nil {
			return err
		}
		_, err := s.Mainstay(ctx, "catalog", "add", "sparse", "--image", s.catalogImage(), "--poll-interval", "10m", "--wait")
		return err
	})

	s.runStep("opm renders the installed bundle", s.checkRender)
	s.runStep("1.0.0 is installed", func(ctx context.Context) error {
		_, err := s.Mainstay(ctx, "extension", "install", sparseName, "--namespace", "sparse", "--create-namespace", "--wait", "--timeout", stateTimeout.String())
		if err != nil {
			return err
		}
		return s.checkInstalled(ctx, "1.0.0")
	})

	s.runStep("1.1.0 is published, and the operator updates by itself", func(ctx context.Context) error {
		if err := s.publishBundles(ctx, "1.0.0", "1.1.0"); err != nil {
			return err
		}
		if _, err := s.Mainstay(ctx, "catalog", "refresh", "sparse"); err != nil {
			return err
		}
		return s.waitFor(ctx, func(ctx context.Context) error { return s.checkInstalled(ctx, "1.1.0") })
	})

	s.runStep("a deleted Deployment comes back", func(ctx context.Context) error {
		if _, err := s.Kubectl(ctx, "delete", "deployment", sparseName, "-n", "sparse"); err != nil {
			return err
		}
		return s.waitFor(ctx, func(ctx context.Context) error {
			return s.checkOutput(ctx, "1", "get", "deployment", sparseName, "-n", "sparse", "-o", "jsonpath={.status.availableReplicas}")
		})
	})

	s.runStep("it is rolled back, to 1.0.0", func(ctx context.Context) error {
		if _, err := s.Mainstay(ctx, "extension", "rollback", sparseName, "--wait", "--timeout", stateTimeout.String()); err != nil {
			return err
		}
		return s.checkInstalled(ctx, "1.0.0")
	})

	s.runStep("it is removed, and nothing is left", func(ctx context.Context) error {
		if _, err := s.Mainstay(ctx, "extension", "uninstall", sparseName, "--wait", "--timeout", stateTimeout.String()); err != nil {
			return err
		}
		return s.checkOutput(ctx, "", "get", "deployments,serviceaccounts", "-A", "-l", "olm.operatorframework.io/owner-name="+sparseName, "-o", "name")
	})
}

const sparseName = "sparse-operator"

// sparseFixture is the fixture for minimal bundles.
type sparseFixture struct{ *fixture }

func (s *sparseFixture) catalogImage() string { return s.Registry + "/e2e/sparse-catalog:latest" }

func (s *sparseFixture) bundleImage(version string) string {
	return s.Registry + "/e2e/" + sparseName + ":v" + version
}

// publishBundles pushes the bundles of versions, and a catalog of them that was written by hand.
func (s *sparseFixture) publishBundles(ctx context.Context, versions ...string) error {
	var entries, bundles []string
	before := ""
	for _, version := range versions {
		if _, err := s.runWithRegistry(ctx, "bundle", "push", filepath.Join("testdata", sparseName, version), s.bundleImage(version)); err != nil {
			return err
		}

		name := sparseName + ".v" + version
		entries = append(entries, fmt.Sprintf(`{"name": %q, "replaces": %q}`, name, before))
		bundles = append(bundles, fmt.Sprintf(`{"schema": "olm.bundle", "package": %q, "name": %q, "image": %q, "properties": [{"type": "olm.package", "value": {"packageName": %[1]q, "version": %[4]q}}]}`,
			sparseName, name, s.bundleImage(version), version))
		before = name
	}

	content := fmt.Sprintf(`{"schema": "olm.package", "name": %q, "defaultChannel": "stable"}
{"schema": "olm.channel", "package": %[1]q, "name": "stable", "entries": [%[2]s]}
%[3]s
`, sparseName, strings.Join(entries, ", "), strings.Join(bundles, "\n"))

	dir := filepath.Join(s.dir, fmt.Sprintf("sparse-catalog-%d", len(versions)))
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(content), 0o644)); err != nil {
		return err
	}

	_, err := s.Run(ctx, "opm", "generate", "dockerfile", dir, "-i", "scratch", "--tag", s.catalogImage(), "--push")
	return err
}

// checkRender checks that opm renders the image of a bundle, as it does for every bundle that can
// be installed.
func (s *sparseFixture) checkRender(ctx context.Context) error {
	out, err := s.Run(ctx, "opm", "render", s.bundleImage("1.0.0"), "-o", "yaml")
	if err == nil && !strings.Contains(out, "name: "+sparseName+".v1.0.0") {
		err = fmt.Errorf("opm render printed:\n%s", out)
	}
	return err
}

// checkInstalled checks that a version is installed.
func (s *sparseFixture) checkInstalled(ctx context.Context, version string) error {
	return s.checkOutput(ctx, version+" Succeeded", "get", "clusterextension", sparseName, "-o",
		`jsonpath={.status.install.bundle.version} {.status.conditions[?(@.type=="Progressing")].reason}`)
}
