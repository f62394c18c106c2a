package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/test/payload"
)

// build builds the releases and pushes them.
func (d *demo) build(ctx context.Context) (string, error) {
	d.kubelet.versions = map[string]string{}
	previous := []string(nil)
	var lines strings.Builder
	for _, version := range []string{first, second, third} {
		dir := filepath.Join(d.dir, "payload", version)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}

		b := &payload.Build{
			Root: ".", Program: d.program(version), Version: version, Previous: previous,
			Image: d.Registry + "/platform/mainstay:" + version, Release: d.Registry + "/platform/release:" + version,
			More: map[string]string{
				"0000_05_trust_00_release-verification.yaml": d.site.Trust(),
				"0000_70_nodes_00_platform-release.yaml":     setting,
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

func (d *demo) sign(ctx context.Context) (string, error) {
	for _, version := range []string{first, second, third} {
		if _, err := d.Mainstay(ctx, "release", "sign", d.releases[version].Release, "--key", d.site.Key, "--to-store", d.site.Signatures); err != nil {
			return "", err
		}
	}
	return d.Mainstay(ctx, "release", "verify", d.releases[second].Release, "--keyring", d.site.Keyring, "--store", d.site.Store)
}

// serveUpdates starts the update service and waits for its first graph.
func (d *demo) serveUpdates(ctx context.Context) (string, error) {
	address, err := cluster.FreeAddress()
	if err != nil {
		return "", err
	}

	status, err := cluster.FreeAddress()
	if err != nil {
		return "", err
	}

	d.graphs = "http://" + address + "/api/upgrades_info/graph"
	d.kubelet.updates, err = d.launch(first, "update-service", d.Kubeconfig, "update-service", "--releases", d.Registry+"/platform/release",
		"--graph-data", d.site.Data, "--address", address, "--status-address", status, "--keyring", d.site.Keyring,
		"--store", d.site.Store, "--cache-dir", filepath.Join(d.dir, "cache", "update-service"))
	if err != nil {
		return "", err
	}

	err = d.eventually(ctx, func(ctx context.Context) error { return cluster.Answers(ctx, "http://"+status+"/readyz") })
	if err != nil {
		return "", err
	}

	return d.Mainstay(ctx, "updates", "graph", d.graphs, "--channel", channel)
}

// install starts the cluster-version-operator with the first release, and makes the
// ClusterVersion.
func (d *demo) install(ctx context.Context) (string, error) {
	k := d.kubelet
	catalogs, err := cluster.FreeAddress()
	if err != nil {
		return "", err
	}

	operator := k.add(&server{name: "cluster-version-operator", account: "cluster-version-operator", args: func(string) []string {
		return []string{"cluster-version-operator", "--release-image=" + d.releases[first].Release, "--prometheus-url=" + d.site.URL}
	}})
	k.add(&server{name: "catalogd", account: "catalogd-controller-manager", args: func(string) []string {
		return []string{"catalogd", "--catalogs-server-addr=" + catalogs, "--external-address=" + catalogs}
	}})
	k.add(&server{name: "operator-controller", account: "operator-controller-controller-manager", args: func(string) []string {
		return []string{"operator-controller"}
	}})
	k.add(&server{name: "machine-config-controller", account: "machine-config-controller", args: func(version string) []string {
		return []string{"machine-config-controller", "--release-version=" + version}
	}})
	for _, node := range k.nodes {
		if err := os.MkdirAll(d.root(node), 0o755); err != nil {
			return "", err
		}
		k.add(&server{name: "machine-config-daemon-" + node, account: "machine-config-daemon", node: node, args: func(string) []string {
			return []string{"machine-config-daemon", "--node=" + node, "--root=" + d.root(node), "--simulate"}
		}})
	}

	// Its account comes with the release that it applies: until then it acts as an administrator.
	if err := k.run(operator, first, d.Kubeconfig); err != nil {
		return "", err
	}

	// The optional parts are left out: the API server cannot reach the package server in a simulated pod.
	manifest := fmt.Sprintf(`apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11, channel: %s, upstream: %q, capabilities: {baselineCapabilitySet: None}}
`, channel, d.graphs)
	err = d.eventually(ctx, func(ctx context.Context) error { return d.Apply(ctx, manifest) })
	if err != nil {
		return "", err
	}
	if err := d.eventually(ctx, d.isAt(first)); err != nil {
		return "", err
	}

	out, err := d.Kubectl(ctx, "get", "clusterversion,clusteroperators")
	return "the simulated nodes mark what it deploys as running; the same components run as processes beside,\nwith tokens of their pods\n" + out, err
}

// version is the part of a ClusterVersion that the demo looks at.
type version struct {
	Status struct {
		History []struct{ Version, State string }
		// AvailableUpdates and ConditionalUpdates are what the cluster knows of updates.
		AvailableUpdates   []struct{ Version string }
		ConditionalUpdates []struct {
			Release    struct{ Version string }
			Conditions []condition
		}
		Conditions []condition
	}
}

type condition struct{ Type, Status, Reason, Message string }

func (d *demo) version(ctx context.Context) (*version, error) {
	out, err := d.Kubectl(ctx, "get", "clusterversion", "version", "-o", "json")
	if err != nil {
		return nil, err
	}
	v := &version{}
	return v, json.Unmarshal([]byte(out), v)
}

// isAt checks that a release was applied completely.
func (d *demo) isAt(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		v, err := d.version(ctx)
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

// offers waits until the risks have been evaluated.
func (d *demo) offers(ctx context.Context) (string, error) {
	err := d.eventually(ctx, func(ctx context.Context) error {
		v, err := d.version(ctx)
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

		if recommended[second] != "True" || recommended[third] != "False" {
			return fmt.Errorf("the cluster takes as recommended: %v", recommended)
		}

		return nil
	})
	if err != nil {
		return "", err
	}
	return d.Mainstay(ctx, "cluster", "upgrade", "--include-not-recommended")
}

// refused asks for the update whose risk applies.
func (d *demo) refused(ctx context.Context) (string, error) {
	_, err := d.Mainstay(ctx, "cluster", "upgrade", "--to", third)
	var refusal *cluster.Error
	if !errors.As(err, &refusal) {
		return "", errors.Join(err, errors.New("it was not refused"))
	}
	return refusal.Stderr, nil
}

// ask asks for the update whose risk does not apply, and begins to watch the nodes.
func (d *demo) ask(ctx context.Context) (string, error) {
	var err error
	if d.watch, err = d.watchNodes(); err != nil {
		return "", err
	}
	return d.Mainstay(ctx, "cluster", "upgrade", "--to", second)
}

// midway waits until a node is cordoned, and shows how the cluster is then.
func (d *demo) midway(ctx context.Context) (string, error) {
	err := d.eventually(ctx, func(ctx context.Context) error {
		if err := d.watch.begun(); err != nil {
			return errors.Join(err, d.isAt(second)(ctx))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return d.Mainstay(ctx, "cluster", "status")
}

// complete waits until the update is complete, and tells what became of the nodes.
func (d *demo) complete(ctx context.Context) (string, error) {
	if err := d.eventually(ctx, d.isAt(second)); err != nil {
		return "", err
	}

	result := ""
	err := d.eventually(ctx, func(context.Context) (err error) {
		result, err = d.watch.report(d.kubelet.nodes)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := d.eventually(ctx, func(context.Context) error { return d.kubelet.allAt(second) }); err != nil {
		return "", err
	}

	return fmt.Sprintf("%sall %d components run in version %s, the cluster-version-operator among them\n", result, len(d.kubelet.servers), second), d.kubelet.refused()
}
