package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// realPackage installs the oldest version of a real package that the cluster accepts
// and follows the update graph as far as it goes.
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
	first, err := d.installOldest(ctx, name, versions)
	if err != nil {
		return err
	}
	if err := steps.Do(ctx, "Its status", func(ctx context.Context) (string, error) {
		return d.Mainstay(ctx, "extension", "status", name)
	}); err != nil {
		return err
	}
	if err := steps.Do(ctx, "The version is no longer pinned, and the operator follows the update graph", func(ctx context.Context) (string, error) {
		return d.follow(ctx, name, first)
	}); err != nil {
		return err
	}
	return steps.Do(ctx, name+" is uninstalled, and nothing of it is left", func(ctx context.Context) (string, error) {
		return d.removePackage(ctx, name)
	})
}

// installOldest asks for one version after the other until one is accepted.
func (d *demo) installOldest(ctx context.Context, name string, versions []*semver.Version) (*semver.Version, error) {
	for i, version := range versions {
		accepted := false
		err := steps.Do(ctx, fmt.Sprintf("Version %s is asked for", version.Original()), func(ctx context.Context) (string, error) {
			args := []string{"extension", "upgrade", name, "--version", version.Original(), "--check=false", "--wait"}
			if i == 0 {
				args = []string{"extension", "install", name, "--namespace", name, "--create-namespace", "--version", version.Original(), "--check=false", "--wait"}
			}
			_, err := d.Mainstay(ctx, args...)
			if err == nil {
				accepted = true
				return "installed", d.version(ctx, name, version.Original())
			}
			reason, ok := d.refusal(ctx, name)
			if !ok {
				return "", err
			}
			return "refused: " + reason, nil
		})
		if err != nil || accepted {
			return version, err
		}
	}
	return nil, errors.New("no version was accepted")
}

// refusal gives the reason for which the chosen bundle cannot be installed.
func (d *demo) refusal(ctx context.Context, name string) (string, bool) {
	out, err := d.Kubectl(ctx, "get", "clusterextension", name, "-o",
		`jsonpath={.status.conditions[?(@.type=="Progressing")].status} {.status.conditions[?(@.type=="Progressing")].message}`)
	message, refused := strings.CutPrefix(out, "False ")
	return message, err == nil && refused
}

// follow unpins the version and waits until the extension has gone as far as the
// graph and the bundles allow: to the head, or to where the next bundle is refused.
func (d *demo) follow(ctx context.Context, name string, first *semver.Version) (string, error) {
	if _, err := d.Mainstay(ctx, "extension", "upgrade", name, "--version", "", "--check=false"); err != nil {
		return "", err
	}
	path := []string{first.Original()}
	refused := ""
	settled := 0
	err := steps.Eventually(ctx, 5*limit, func(ctx context.Context) error {
		out, err := d.Kubectl(ctx, "get", "clusterextension", name, "-o",
			`jsonpath={.metadata.generation} {.status.conditions[?(@.type=="Progressing")].observedGeneration} `+
				`{.status.install.bundle.version} {.status.conditions[?(@.type=="Progressing")].reason}`)
		if err != nil {
			return err
		}
		fields := strings.Fields(out)
		if len(fields) != 4 || fields[0] != fields[1] {
			return fmt.Errorf("the extension was not looked at yet: %s", out)
		}
		if path[len(path)-1] != fields[2] {
			path = append(path, fields[2])
			settled = 0
		}
		reason, isRefused := d.refusal(ctx, name)
		if refused = ""; isRefused {
			refused = reason
		}
		// A complete roll-out is followed by the next hop at once; it is the end when
		// it stays.
		if settled++; (fields[3] == "Succeeded" || isRefused) && settled > 20 {
			return nil
		}
		return fmt.Errorf("on the way at %s (%s)", fields[2], fields[3])
	})
	result := strings.Join(path, " → ")
	if refused != "" {
		result += "\nthe next version is refused, and this one stays: " + refused
	}
	return result, err
}

func (d *demo) removePackage(ctx context.Context, name string) (string, error) {
	if _, err := d.Mainstay(ctx, "extension", "uninstall", name, "--delete-custom-resources", "--wait"); err != nil {
		return "", err
	}
	out, err := d.Kubectl(ctx, "get", "crds,clusterroles,clusterrolebindings,deployments", "-A",
		"-l", "olm.operatorframework.io/owner-name="+name, "-o", "name")
	if err == nil && out != "" {
		err = fmt.Errorf("left over: %s", out)
	}
	return "", err
}

// versionsIn gives the versions that a folder of bundles has, oldest first.
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
