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

// realPackage installs the oldest version of a real package that the cluster accepts and follows the update graph to its
// head, or to where an update is refused for a reason that an administrator cannot accept.
func (d *demo) realPackage(ctx context.Context, dir string) error {
	name := filepath.Base(filepath.Clean(dir))
	versions, err := versionsIn(dir)
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

	installed, err := d.installOldest(ctx, name, versions)
	if err != nil {
		return err
	}
	if !installed {
		return steps.Do(ctx, "No version of "+name+" can be installed on this cluster, for the reasons above", func(context.Context) (string, error) { return "", nil })
	}
	if err := d.followGraph(ctx, name, versions[len(versions)-1].Original()); err != nil {
		return err
	}

	return steps.Do(ctx, name+" is uninstalled, and nothing of it is left", func(ctx context.Context) (string, error) {
		return d.removePackage(ctx, name)
	})
}

// installOldest asks for one version after the other until the cluster accepts one, and reports whether it did.
func (d *demo) installOldest(ctx context.Context, name string, versions []*semver.Version) (bool, error) {
	for _, version := range versions {
		accepted := false
		err := steps.Do(ctx, fmt.Sprintf("Version %s is asked for", version.Original()), func(ctx context.Context) (string, error) {
			_, err := d.Mainstay(ctx, "extension", "install", name, "--namespace", name, "--create-namespace", "--version", version.Original(), "--wait")
			if err == nil {
				accepted = true
				return "installed", d.version(ctx, name, version.Original())
			}

			// A version that is refused changes nothing on the cluster. Anything else is a failure.
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

// plan is what `mainstay extension plan -o json` prints.
type plan struct {
	Action    string
	Installed struct{ Version string }
	Bundle    struct{ Version string }
	Problems  []struct{ Check, Message string }
}

// isUnsafeForCRDs reports whether CRD upgrade safety alone stands against the plan. An administrator who knows that no
// custom resource is harmed can switch that off.
func (p *plan) isUnsafeForCRDs() bool {
	return len(p.Problems) > 0 && !slices.ContainsFunc(p.Problems, func(problem struct{ Check, Message string }) bool {
		return problem.Check != "crdUpgradeSafety"
	})
}

// followGraph unpins the version and goes along the update graph, a step for each update.
func (d *demo) followGraph(ctx context.Context, name, newest string) error {
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
		next, err := d.plan(ctx, name)
		switch {
		case err != nil:
			return err
		case next.Action == "none":
			return d.reportHead(ctx, next.Installed.Version, newest)
		case next.isUnsafeForCRDs():
			err = d.updateUnsafely(ctx, name, next.Bundle.Version)
		case len(next.Problems) > 0:
			return d.reportRefusal(ctx, name, next)
		default:
			err = steps.Do(ctx, "It updates by itself to "+next.Bundle.Version, func(ctx context.Context) (string, error) {
				return "", steps.Eventually(ctx, limit, func(ctx context.Context) error { return d.hasReached(ctx, name, next.Bundle.Version) })
			})
		}
		if err != nil {
			return err
		}
	}
}

// plan asks what would be done next. The command fails when something stands against it, and prints it all the same.
func (d *demo) plan(ctx context.Context, name string) (*plan, error) {
	out, err := d.Mainstay(ctx, "extension", "plan", name, "-o", "json")
	p := &plan{}
	if json.Unmarshal([]byte(out), p) == nil {
		return p, nil
	}

	return nil, err
}

// reportHead says how far the update graph led.
func (d *demo) reportHead(ctx context.Context, installed, newest string) error {
	return steps.Do(ctx, "It is at the head of its channel: "+installed, func(context.Context) (string, error) {
		if installed == newest {
			return "", nil
		}
		return "no update edge of the catalog leads on to " + newest, nil
	})
}

// reportRefusal shows why an update is refused that an administrator cannot simply allow.
func (d *demo) reportRefusal(ctx context.Context, name string, next *plan) error {
	return steps.Do(ctx, fmt.Sprintf("The update to %s is refused, and %s stays", next.Bundle.Version, next.Installed.Version), func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "extension", "explain", name)
	})
}

// updateUnsafely shows that CRD upgrade safety refuses an update, and then makes it as an administrator would who looked
// at the changes: with the enforcement off for this update alone.
func (d *demo) updateUnsafely(ctx context.Context, name, version string) error {
	if err := steps.Do(ctx, fmt.Sprintf("The update to %s is refused", version), func(ctx context.Context) (string, error) {
		err := steps.Eventually(ctx, limit, func(ctx context.Context) error {
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
		// The update after this one may be refused in turn, which is for its own step to show.
		_, err := d.Mainstay(ctx, "extension", "upgrade", name, "--version", "", "--crd-upgrade-safety", "Strict", "--check=false")
		return "no custom resource of these CRDs exists here; with some, look at them first", err
	})
}

// hasReached fails unless a version, or one after it, is rolled out: an extension may go on before the next look.
func (d *demo) hasReached(ctx context.Context, name, want string) error {
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

func (d *demo) removePackage(ctx context.Context, name string) (string, error) {
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

// versionsIn returns the versions that a folder of bundles has, oldest first.
func versionsIn(dir string) ([]*semver.Version, error) {
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
