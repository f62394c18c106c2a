package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/platform"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// buildReleases builds the releases and pushes them.
func (d *demo) buildReleases(ctx context.Context) (string, error) {
	d.kubelet.versions = map[string]string{}
	previous := []string(nil)
	var lines strings.Builder
	for _, version := range []string{firstVersion, secondVersion, thirdVersion} {
		dir := filepath.Join(d.dir, "payload", version)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}

		b := &platform.Build{
			Root: ".", Program: d.programPath(version), Version: version, Previous: previous,
			Image: d.Registry + "/platform/mainstay:" + version, Release: d.Registry + "/platform/release:" + version,
			More: map[string]string{
				"0000_05_trust_00_release-verification.yaml": d.site.TrustManifest(),
				"0000_70_nodes_00_platform-release.yaml":     settingManifest,
			},
		}

		images, err := b.Run(ctx, dir)
		if err != nil {
			return "", fmt.Errorf("release %s: %w", version, err)
		}

		d.releases[version] = images
		d.kubelet.versions[images.Component], d.kubelet.versions[images.Release] = version, version
		previous = append(previous, version)
		fmt.Fprintf(&lines, "%s  %s\n", version, images.Release)
	}

	return lines.String(), nil
}

func (d *demo) signReleases(ctx context.Context) (string, error) {
	for _, version := range []string{firstVersion, secondVersion, thirdVersion} {
		if _, err := d.Mainstay(ctx, "release", "sign", d.releases[version].Release, "--key", d.site.Key, "--to-store", d.site.Signatures); err != nil {
			return "", err
		}
	}
	return d.Mainstay(ctx, "release", "verify", d.releases[secondVersion].Release, "--keyring", d.site.Keyring, "--store", d.site.Store)
}

// startUpdateService starts the update service and waits for its first graph.
func (d *demo) startUpdateService(ctx context.Context) (string, error) {
	address, err := cluster.FreeAddress()
	if err != nil {
		return "", err
	}

	status, err := cluster.FreeAddress()
	if err != nil {
		return "", err
	}

	d.graphURL = "http://" + address + "/api/upgrades_info/graph"
	d.kubelet.updateService, err = d.launchProgram(firstVersion, "update-service", d.Kubeconfig, "update-service", "--releases", d.Registry+"/platform/release",
		"--graph-data", d.site.Data, "--address", address, "--status-address", status, "--keyring", d.site.Keyring,
		"--store", d.site.Store, "--cache-dir", filepath.Join(d.dir, "cache", "update-service"))
	if err != nil {
		return "", err
	}

	err = d.waitFor(ctx, func(ctx context.Context) error { return cluster.CheckURL(ctx, "http://"+status+"/readyz") })
	if err != nil {
		return "", err
	}

	return d.Mainstay(ctx, "updates", "graph", d.graphURL, "--channel", updateChannel)
}

// installCluster starts the cluster-version-operator with the first release and creates the
// ClusterVersion.
func (d *demo) installCluster(ctx context.Context) (string, error) {
	k := d.kubelet
	catalogs, err := cluster.FreeAddress()
	if err != nil {
		return "", err
	}

	operator := k.addProcess(&componentProcess{name: "cluster-version-operator", account: "cluster-version-operator", args: func(string) []string {
		return []string{"cluster-version-operator", "--release-image=" + d.releases[firstVersion].Release, "--prometheus-url=" + d.site.URL}
	}})
	k.addProcess(&componentProcess{name: "catalogd", account: "catalogd-controller-manager", args: func(string) []string {
		return []string{"catalogd", "--catalogs-server-addr=" + catalogs, "--external-address=" + catalogs}
	}})
	k.addProcess(&componentProcess{name: "operator-controller", account: "operator-controller-controller-manager", args: func(string) []string {
		return []string{"operator-controller"}
	}})
	k.addProcess(&componentProcess{name: "machine-config-controller", account: "machine-config-controller", args: func(version string) []string {
		return []string{"machine-config-controller", "--release-version=" + version}
	}})
	for _, node := range k.nodes {
		if err := os.MkdirAll(d.nodeRoot(node), 0o755); err != nil {
			return "", err
		}
		k.addProcess(&componentProcess{name: "machine-config-daemon-" + node, account: "machine-config-daemon", node: node, args: func(string) []string {
			return []string{"machine-config-daemon", "--node=" + node, "--root=" + d.nodeRoot(node), "--simulate"}
		}})
	}

	// Its service account is part of the release that it applies. Until then it acts as an
	// administrator.
	if err := k.startProcess(operator, firstVersion, d.Kubeconfig); err != nil {
		return "", err
	}

	// The optional parts are left out: the API server cannot reach the package server in a
	// simulated pod.
	manifest := fmt.Sprintf(`apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11, channel: %s, upstream: %q, capabilities: {baselineCapabilitySet: None}}
`, updateChannel, d.graphURL)
	err = d.waitFor(ctx, func(ctx context.Context) error { return d.Apply(ctx, manifest) })
	if err != nil {
		return "", err
	}
	if err := d.waitFor(ctx, d.checkClusterAt(firstVersion)); err != nil {
		return "", err
	}

	out, err := d.Kubectl(ctx, "get", "clusterversion,clusteroperators")
	return "the simulated nodes report its pods as running; the same components run as processes,\nwith the tokens of these pods\n" + out, err
}

// clusterVersion has the fields of a ClusterVersion that the demo reads.
type clusterVersion struct {
	Status struct {
		History []struct{ Version, State string }
		// AvailableUpdates and ConditionalUpdates are the updates that the cluster knows.
		AvailableUpdates   []struct{ Version string }
		ConditionalUpdates []struct {
			Release    struct{ Version string }
			Conditions []statusCondition
		}
		Conditions []statusCondition
	}
}

type statusCondition struct{ Type, Status, Reason, Message string }

func getClusterVersion(ctx context.Context, c *cluster.Cluster) (*clusterVersion, error) {
	out, err := c.Kubectl(ctx, "get", "clusterversion", "version", "-o", "json")
	if err != nil {
		return nil, err
	}
	v := &clusterVersion{}
	return v, json.Unmarshal([]byte(out), v)
}

// checkClusterAt returns a check that a release is completely applied.
func (d *demo) checkClusterAt(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		v, err := getClusterVersion(ctx, d.Cluster)
		if err != nil {
			return err
		}
		if h := v.Status.History; len(h) > 0 && h[0].Version == want && h[0].State == "Completed" {
			return nil
		}

		var said []string
		for _, c := range v.Status.Conditions {
			if c.Type == "Progressing" || c.Type == "Failing" || c.Type == "ReleaseAccepted" {
				said = append(said, c.Type+" "+c.Status+": "+c.Message)
			}
		}

		return fmt.Errorf("the cluster is not at %s: %s", want, strings.Join(said, "; "))
	}
}

// showAvailableUpdates waits until the risks have been evaluated and prints the updates.
func (d *demo) showAvailableUpdates(ctx context.Context) (string, error) {
	err := d.waitFor(ctx, func(ctx context.Context) error {
		v, err := getClusterVersion(ctx, d.Cluster)
		if err != nil {
			return err
		}

		recommended := map[string]string{}
		for _, u := range v.Status.ConditionalUpdates {
			for _, c := range u.Conditions {
				if c.Type == "Recommended" {
					recommended[u.Release.Version] = c.Status
				}
			}
		}

		if recommended[secondVersion] != "True" || recommended[thirdVersion] != "False" {
			return fmt.Errorf("the cluster takes as recommended: %v", recommended)
		}

		return nil
	})
	if err != nil {
		return "", err
	}
	return d.Mainstay(ctx, "cluster", "upgrade", "--include-not-recommended")
}

// requestRiskyUpdate requests the update whose risk applies, and returns the error.
func (d *demo) requestRiskyUpdate(ctx context.Context) (string, error) {
	_, err := d.Mainstay(ctx, "cluster", "upgrade", "--to", thirdVersion)
	var refusal *cluster.Error
	if !errors.As(err, &refusal) {
		return "", errors.Join(err, errors.New("it was not refused"))
	}
	return refusal.Stderr, nil
}

// requestUpdate requests the update whose risk does not apply, and starts to watch the nodes.
func (d *demo) requestUpdate(ctx context.Context) (string, error) {
	var err error
	if d.nodeWatch, err = startNodeWatcher(d.Kubeconfig); err != nil {
		return "", err
	}
	return d.Mainstay(ctx, "cluster", "upgrade", "--to", secondVersion)
}

// showStatusDuringUpdate waits until a node is cordoned, and prints the status of the cluster.
func (d *demo) showStatusDuringUpdate(ctx context.Context) (string, error) {
	err := d.waitFor(ctx, func(ctx context.Context) error {
		if err := d.nodeWatch.checkUpdateBegun(); err != nil {
			return errors.Join(err, d.checkClusterAt(secondVersion)(ctx))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return d.Mainstay(ctx, "cluster", "status")
}

// waitForUpdate waits until the update is complete, and prints the updates of the nodes.
func (d *demo) waitForUpdate(ctx context.Context) (string, error) {
	if err := d.waitFor(ctx, d.checkClusterAt(secondVersion)); err != nil {
		return "", err
	}

	result := ""
	err := d.waitFor(ctx, func(context.Context) (err error) {
		result, err = d.nodeWatch.reportUpdates(d.kubelet.nodes)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := d.waitFor(ctx, func(context.Context) error { return d.kubelet.checkAllAtVersion(secondVersion) }); err != nil {
		return "", err
	}

	return fmt.Sprintf("%sall %d components run in version %s, the cluster-version-operator among them\n", result, len(d.kubelet.processes), secondVersion), d.kubelet.checkNothingForbidden()
}
