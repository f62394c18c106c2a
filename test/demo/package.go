package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// packageDemo demonstrates a real package.
type packageDemo struct {
	*demo
	name string
}

// demonstrateRealPackage installs the oldest version of a real package that the cluster accepts
// and follows the upgrade graph to its head. It stops early at an update that is refused for a
// reason that an administrator cannot accept.
func (d *demo) demonstrateRealPackage(ctx context.Context, dir string) error {
	p := &packageDemo{demo: d, name: filepath.Base(filepath.Clean(dir))}
	versions, err := listBundleVersions(dir)
	if err != nil {
		return err
	}

	catalog := d.Registry + "/demo/catalog:latest"
	if err := steps.Do(ctx, fmt.Sprintf("A catalog of %d versions of %s is built and pushed", len(versions), p.name), func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "catalog", "build", dir, "--push", catalog)
	}); err != nil {
		return err
	}

	if err := steps.Do(ctx, "The catalog is added to the cluster", func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "catalog", "add", "demo", "--image", catalog, "--wait")
	}); err != nil {
		return err
	}

	installed, err := p.installOldestVersion(ctx, versions)
	if err != nil {
		return err
	}
	if !installed {
		return steps.Do(ctx, "No version of "+p.name+" can be installed on this cluster, for the reasons above", func(context.Context) (string, error) { return "", nil })
	}
	if err := p.followUpgradeGraph(ctx, versions[len(versions)-1].Original()); err != nil {
		return err
	}

	if p.console {
		return nil
	}
	return steps.Do(ctx, p.name+" is uninstalled, and nothing of it is left", func(ctx context.Context) (string, error) {
		return p.uninstallPackage(ctx)
	})
}

// installOldestVersion requests one version after the other until the cluster accepts one, and
// reports whether it did.
func (p *packageDemo) installOldestVersion(ctx context.Context, versions []*semver.Version) (bool, error) {
	for _, version := range versions {
		accepted := false
		err := steps.Do(ctx, fmt.Sprintf("Version %s is requested", version.Original()), func(ctx context.Context) (string, error) {
			_, err := p.Mainstay(ctx, "extension", "install", p.name, "--namespace", p.name, "--create-namespace", "--version", version.Original(), "--wait")
			if err == nil {
				accepted = true
				return "installed", p.checkInstalledVersion(ctx, p.name, version.Original())
			}

			// A refused version leaves the cluster unchanged. Any other error is a failure.
			out, getErr := p.Kubectl(ctx, "get", "clusterextension", p.name, "--ignore-not-found", "-o", "name")
			var failed *cluster.Error
			if getErr != nil || out != "" || !errors.As(err, &failed) {
				return "", errors.Join(err, getErr)
			}

			_, reason, _ := strings.Cut(failed.Stderr, "Error: ")
			return "refused: " + reason, nil
		})
		if err != nil || accepted {
			return accepted, err
		}
	}

	return false, nil
}

// extensionPlan is the output of `mainstay extension plan -o json`.
type extensionPlan struct {
	Action    string
	Installed struct{ Version string }
	Bundle    struct{ Version string }
	Problems  []struct{ Check, Message string }
}

// isUnsafeForCRDs reports whether CRD upgrade safety is the only problem of the plan. An
// administrator can switch it off if no custom resource is harmed.
func (p *extensionPlan) isUnsafeForCRDs() bool {
	return len(p.Problems) > 0 && !slices.ContainsFunc(p.Problems, func(problem struct{ Check, Message string }) bool {
		return problem.Check != "crdUpgradeSafety"
	})
}

// followUpgradeGraph unpins the version and follows the upgrade graph, with a step for each
// update.
func (p *packageDemo) followUpgradeGraph(ctx context.Context, newest string) error {
	if err := steps.Do(ctx, "The status of the extension", func(ctx context.Context) (string, error) {
		return p.Mainstay(ctx, "extension", "status", p.name)
	}); err != nil {
		return err
	}

	if err := steps.Do(ctx, "The version is no longer pinned", func(ctx context.Context) (string, error) {
		_, err := p.Mainstay(ctx, "extension", "upgrade", p.name, "--version", "", "--check=false")
		return "the operator follows the update graph", err
	}); err != nil {
		return err
	}

	for {
		next, err := p.planNextUpdate(ctx)
		switch {
		case err != nil:
			return err
		case next.Action == "none":
			return reportChannelHead(ctx, next.Installed.Version, newest)
		case next.isUnsafeForCRDs():
			err = p.updateWithoutCRDSafety(ctx, next.Bundle.Version)
		case len(next.Problems) > 0:
			return p.explainRefusedUpdate(ctx, next)
		default:
			err = steps.Do(ctx, "The operator updates by itself to "+next.Bundle.Version, func(ctx context.Context) (string, error) {
				return "", steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error { return p.checkVersionReached(ctx, next.Bundle.Version) })
			})
		}
		if err != nil {
			return err
		}
	}
}

// planNextUpdate returns the plan for the next update. The command returns an error if the plan
// has problems, but still prints the plan.
func (p *packageDemo) planNextUpdate(ctx context.Context) (*extensionPlan, error) {
	out, err := p.Mainstay(ctx, "extension", "plan", p.name, "-o", "json")
	plan := &extensionPlan{}
	if json.Unmarshal([]byte(out), plan) == nil {
		return plan, nil
	}

	return nil, err
}

// reportChannelHead prints where the upgrade graph ended.
func reportChannelHead(ctx context.Context, installed, newest string) error {
	return steps.Do(ctx, "The operator is at the head of its channel: "+installed, func(context.Context) (string, error) {
		if installed == newest {
			return "", nil
		}
		return "no update edge of the catalog leads to " + newest, nil
	})
}

// explainRefusedUpdate prints why an update is refused that an administrator cannot simply allow.
func (p *packageDemo) explainRefusedUpdate(ctx context.Context, next *extensionPlan) error {
	return steps.Do(ctx, fmt.Sprintf("The update to %s is refused, and %s stays", next.Bundle.Version, next.Installed.Version), func(ctx context.Context) (string, error) {
		return p.Mainstay(ctx, "extension", "explain", p.name)
	})
}

// updateWithoutCRDSafety shows that CRD upgrade safety refuses an update. It then switches the
// enforcement off for this update only, as an administrator would after a review of the changes.
func (p *packageDemo) updateWithoutCRDSafety(ctx context.Context, version string) error {
	if err := steps.Do(ctx, fmt.Sprintf("The update to %s is refused", version), func(ctx context.Context) (string, error) {
		err := steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error {
			message, err := p.Kubectl(ctx, "get", "clusterextension", p.name, "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].message}`)
			if err == nil && !strings.Contains(message, "validating upgrade for CRD") {
				err = fmt.Errorf("the extension reports %q", message)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		return p.Mainstay(ctx, "extension", "explain", p.name)
	}); err != nil {
		return err
	}

	return steps.Do(ctx, fmt.Sprintf("CRD upgrade safety is disabled for the update to %s only", version), func(ctx context.Context) (string, error) {
		if _, err := p.Mainstay(ctx, "extension", "upgrade", p.name, "--version", version, "--crd-upgrade-safety", "None", "--wait"); err != nil {
			return "", err
		}
		// The next update may be refused too. Its own step shows that.
		_, err := p.Mainstay(ctx, "extension", "upgrade", p.name, "--version", "", "--crd-upgrade-safety", "Strict", "--check=false")
		return "there are no custom resources of these CRDs here; if there are some, check them first", err
	})
}

// checkVersionReached returns an error unless a version, or a later one, is rolled out. The
// extension may already have been updated further.
func (p *packageDemo) checkVersionReached(ctx context.Context, want string) error {
	out, err := p.Kubectl(ctx, "get", "clusterextension", p.name, "-o", `jsonpath={.status.install.bundle.version}`)
	if err != nil {
		return err
	}

	installed, err := semver.NewVersion(out)
	if err != nil {
		return fmt.Errorf("the installed version %q: %w", out, err)
	}
	if wanted := semver.MustParse(want); installed.LessThan(wanted) {
		return fmt.Errorf("the extension is at %s, want %s", out, want)
	}

	return nil
}

func (p *packageDemo) uninstallPackage(ctx context.Context) (string, error) {
	if _, err := p.Mainstay(ctx, "extension", "uninstall", p.name, "--wait"); err != nil {
		return "", err
	}

	out, err := p.Kubectl(ctx, "get", "crds,clusterroles,clusterrolebindings,deployments", "-A",
		"-l", "olm.operatorframework.io/owner-name="+p.name, "-o", "name")
	if err == nil && out != "" {
		err = fmt.Errorf("left over: %s", out)
	}
	return "", err
}

// listBundleVersions returns the versions in a folder of bundles, oldest first.
func listBundleVersions(dir string) ([]*semver.Version, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}

	var versions []*semver.Version
	for _, entry := range entries {
		if v, err := semver.NewVersion(entry.Name()); err == nil && entry.IsDir() {
			versions = append(versions, v)
		}
	}

	if len(versions) == 0 {
		return nil, fmt.Errorf("%s has no folders named by versions", dir)
	}

	slices.SortFunc(versions, func(a, b *semver.Version) int { return a.Compare(b) })
	return versions, nil
}
