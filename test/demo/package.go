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

// demonstrateRealPackage installs the oldest version of a real package that the cluster accepts
// and follows the upgrade graph to its head. It stops early at an update that is refused for a
// reason that an administrator cannot accept.
func (d *demo) demonstrateRealPackage(ctx context.Context, dir string) error {
	name := filepath.Base(filepath.Clean(dir))
	versions, err := listBundleVersions(dir)
	if err != nil {
		return err
	}

	catalog := d.Registry + "/demo/catalog:latest"
	if err := steps.Do(ctx, fmt.Sprintf("A catalog of %d versions of %s is built and pushed", len(versions), name), func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "catalog", "build", dir, "--push", catalog)
	}); err != nil {
		return err
	}

	if err := steps.Do(ctx, "The catalog is added to the cluster", func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "catalog", "add", "demo", "--image", catalog, "--wait")
	}); err != nil {
		return err
	}

	installed, err := d.installOldestVersion(ctx, name, versions)
	if err != nil {
		return err
	}
	if !installed {
		return steps.Do(ctx, "No version of "+name+" can be installed on this cluster, for the reasons above", func(context.Context) (string, error) { return "", nil })
	}
	if err := d.followUpgradeGraph(ctx, name, versions[len(versions)-1].Original()); err != nil {
		return err
	}

	return steps.Do(ctx, name+" is uninstalled, and nothing of it is left", func(ctx context.Context) (string, error) {
		return d.uninstallPackage(ctx, name)
	})
}

// installOldestVersion requests one version after the other until the cluster accepts one, and
// reports whether it did.
func (d *demo) installOldestVersion(ctx context.Context, name string, versions []*semver.Version) (bool, error) {
	for _, version := range versions {
		accepted := false
		err := steps.Do(ctx, fmt.Sprintf("Version %s is asked for", version.Original()), func(ctx context.Context) (string, error) {
			_, err := d.Mainstay(ctx, "extension", "install", name, "--namespace", name, "--create-namespace", "--version", version.Original(), "--wait")
			if err == nil {
				accepted = true
				return "installed", d.checkInstalledVersion(ctx, name, version.Original())
			}

			// A refused version leaves the cluster unchanged. Any other error is a failure.
			out, getErr := d.Kubectl(ctx, "get", "clusterextension", name, "--ignore-not-found", "-o", "name")
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
func (d *demo) followUpgradeGraph(ctx context.Context, name, newest string) error {
	if err := steps.Do(ctx, "Its status", func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "extension", "status", name)
	}); err != nil {
		return err
	}

	if err := steps.Do(ctx, "The version is no longer pinned", func(ctx context.Context) (string, error) {
		_, err := d.Mainstay(ctx, "extension", "upgrade", name, "--version", "", "--check=false")
		return "the operator follows the update graph", err
	}); err != nil {
		return err
	}

	for {
		next, err := d.planNextUpdate(ctx, name)
		switch {
		case err != nil:
			return err
		case next.Action == "none":
			return d.reportChannelHead(ctx, next.Installed.Version, newest)
		case next.isUnsafeForCRDs():
			err = d.updateWithoutCRDSafety(ctx, name, next.Bundle.Version)
		case len(next.Problems) > 0:
			return d.explainRefusedUpdate(ctx, name, next)
		default:
			err = steps.Do(ctx, "It updates by itself to "+next.Bundle.Version, func(ctx context.Context) (string, error) {
				return "", steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error { return d.checkVersionReached(ctx, name, next.Bundle.Version) })
			})
		}
		if err != nil {
			return err
		}
	}
}

// planNextUpdate returns the plan for the next update. The command returns an error if the plan
// has problems, but still prints the plan.
func (d *demo) planNextUpdate(ctx context.Context, name string) (*extensionPlan, error) {
	out, err := d.Mainstay(ctx, "extension", "plan", name, "-o", "json")
	p := &extensionPlan{}
	if json.Unmarshal([]byte(out), p) == nil {
		return p, nil
	}

	return nil, err
}

// reportChannelHead prints where the upgrade graph ended.
func (d *demo) reportChannelHead(ctx context.Context, installed, newest string) error {
	return steps.Do(ctx, "It is at the head of its channel: "+installed, func(context.Context) (string, error) {
		if installed == newest {
			return "", nil
		}
		return "no update edge of the catalog leads on to " + newest, nil
	})
}

// explainRefusedUpdate prints why an update is refused that an administrator cannot simply allow.
func (d *demo) explainRefusedUpdate(ctx context.Context, name string, next *extensionPlan) error {
	return steps.Do(ctx, fmt.Sprintf("The update to %s is refused, and %s stays", next.Bundle.Version, next.Installed.Version), func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "extension", "explain", name)
	})
}

// updateWithoutCRDSafety shows that CRD upgrade safety refuses an update. It then switches the
// enforcement off for this update only, as an administrator would after a review of the changes.
func (d *demo) updateWithoutCRDSafety(ctx context.Context, name, version string) error {
	if err := steps.Do(ctx, fmt.Sprintf("The update to %s is refused", version), func(ctx context.Context) (string, error) {
		err := steps.Eventually(ctx, stepTimeout, func(ctx context.Context) error {
			message, err := d.Kubectl(ctx, "get", "clusterextension", name, "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].message}`)
			if err == nil && !strings.Contains(message, "validating upgrade for CRD") {
				err = fmt.Errorf("the extension reports %q", message)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		return d.Mainstay(ctx, "extension", "explain", name)
	}); err != nil {
		return err
	}

	return steps.Do(ctx, fmt.Sprintf("CRD upgrade safety is switched off for the update to %s alone", version), func(ctx context.Context) (string, error) {
		if _, err := d.Mainstay(ctx, "extension", "upgrade", name, "--version", version, "--crd-upgrade-safety", "None", "--wait"); err != nil {
			return "", err
		}
		// The next update may be refused too. Its own step shows that.
		_, err := d.Mainstay(ctx, "extension", "upgrade", name, "--version", "", "--crd-upgrade-safety", "Strict", "--check=false")
		return "no custom resource of these CRDs exists here; with some, look at them first", err
	})
}

// checkVersionReached returns an error unless a version, or a later one, is rolled out. The
// extension may already have been updated further.
func (d *demo) checkVersionReached(ctx context.Context, name, want string) error {
	out, err := d.Kubectl(ctx, "get", "clusterextension", name, "-o", `jsonpath={.status.install.bundle.version}`)
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

func (d *demo) uninstallPackage(ctx context.Context, name string) (string, error) {
	if _, err := d.Mainstay(ctx, "extension", "uninstall", name, "--wait"); err != nil {
		return "", err
	}

	out, err := d.Kubectl(ctx, "get", "crds,clusterroles,clusterrolebindings,deployments", "-A",
		"-l", "olm.operatorframework.io/owner-name="+name, "-o", "name")
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
