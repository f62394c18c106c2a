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

// TestSparseBundles installs, updates, heals, rolls back and removes an operator whose bundles
// state no more than the field asks for: the package in the annotations, and in the
// ClusterServiceVersion neither a version nor an install strategy. The nodes are simulated,
// for what is sparse is read before any pod starts.
func TestSparseBundles(t *testing.T) {
	built(t, "opm")
	s := &sparse{journey: start(t, false)}
	s.step("Mainstay runs", s.runMainstay)
	s.step("a catalog with 1.0.0 is served", func(ctx context.Context) error {
		if err := s.offer(ctx, "1.0.0"); err != nil {
			return err
		}
		_, err := s.Mainstay(ctx, "catalog", "add", "sparse", "--image", s.catalog(), "--poll-interval", "10m", "--wait")
		return err
	})

	s.step("opm renders what is installed", s.renders)
	s.step("1.0.0 is installed", func(ctx context.Context) error {
		_, err := s.Mainstay(ctx, "extension", "install", sparseName, "--namespace", "sparse", "--create-namespace", "--wait", "--timeout", limit.String())
		if err != nil {
			return err
		}
		return s.has(ctx, "1.0.0")
	})

	s.step("1.1.0 is published, and the operator updates by itself", func(ctx context.Context) error {
		if err := s.offer(ctx, "1.0.0", "1.1.0"); err != nil {
			return err
		}
		if _, err := s.Mainstay(ctx, "catalog", "refresh", "sparse"); err != nil {
			return err
		}
		return s.eventually(ctx, func(ctx context.Context) error { return s.has(ctx, "1.1.0") })
	})

	s.step("a deleted Deployment comes back", func(ctx context.Context) error {
		if _, err := s.Kubectl(ctx, "delete", "deployment", sparseName, "-n", "sparse"); err != nil {
			return err
		}
		return s.eventually(ctx, func(ctx context.Context) error {
			return s.prints(ctx, "1", "get", "deployment", sparseName, "-n", "sparse", "-o", "jsonpath={.status.availableReplicas}")
		})
	})

	s.step("it is rolled back, to 1.0.0", func(ctx context.Context) error {
		if _, err := s.Mainstay(ctx, "extension", "rollback", sparseName, "--wait", "--timeout", limit.String()); err != nil {
			return err
		}
		return s.has(ctx, "1.0.0")
	})

	s.step("it is removed, and nothing is left", func(ctx context.Context) error {
		if _, err := s.Mainstay(ctx, "extension", "uninstall", sparseName, "--wait", "--timeout", limit.String()); err != nil {
			return err
		}
		return s.prints(ctx, "", "get", "deployments,serviceaccounts", "-A", "-l", "olm.operatorframework.io/owner-name="+sparseName, "-o", "name")
	})
}

const sparseName = "sparse-operator"

// sparse is the journey of the sparse bundles.
type sparse struct{ *journey }

func (s *sparse) catalog() string { return s.Registry + "/e2e/sparse-catalog:latest" }

func (s *sparse) image(version string) string {
	return s.Registry + "/e2e/" + sparseName + ":v" + version
}

// offer pushes the bundles of versions, and a catalog of them that an author wrote by hand.
func (s *sparse) offer(ctx context.Context, versions ...string) error {
	var entries, bundles []string
	before := ""
	for _, version := range versions {
		if _, err := s.push(ctx, "bundle", "push", filepath.Join("testdata", sparseName, version), s.image(version)); err != nil {
			return err
		}

		name := sparseName + ".v" + version
		entries = append(entries, fmt.Sprintf(`{"name": %q, "replaces": %q}`, name, before))
		bundles = append(bundles, fmt.Sprintf(`{"schema": "olm.bundle", "package": %q, "name": %q, "image": %q, "properties": [{"type": "olm.package", "value": {"packageName": %[1]q, "version": %[4]q}}]}`,
			sparseName, name, s.image(version), version))
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

	_, err := s.Run(ctx, "opm", "generate", "dockerfile", dir, "-i", "scratch", "--tag", s.catalog(), "--push")
	return err
}

// renders has opm render the image of a bundle, which it does of every bundle that installs.
func (s *sparse) renders(ctx context.Context) error {
	out, err := s.Run(ctx, "opm", "render", s.image("1.0.0"), "-o", "yaml")
	if err == nil && !strings.Contains(out, "name: "+sparseName+".v1.0.0") {
		err = fmt.Errorf("opm render printed:\n%s", out)
	}
	return err
}

// has checks that a version is installed.
func (s *sparse) has(ctx context.Context, version string) error {
	return s.prints(ctx, version+" Succeeded", "get", "clusterextension", sparseName, "-o",
		`jsonpath={.status.install.bundle.version} {.status.conditions[?(@.type=="Progressing")].reason}`)
}
