package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/platform"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/site"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// TestPlatform installs Mainstay's own release on a real node, and updates the cluster to the
// next one. Every component runs in its pod of the release, with its service account. The
// cluster-version-operator replaces itself during the update. The daemon of the node writes to a
// folder that replaces the node's root.
func TestPlatform(t *testing.T) {
	requirePrograms(t, "devcluster", "mainstay", "hello-operator", "releases/1.0.0/mainstay", "releases/1.1.0/mainstay")
	if !canRunRealNode(t) {
		t.Skip("simulated nodes run no pods")
	}

	p := &platformFixture{fixture: newFixture(t, true), releases: map[string]*platform.Images{}}
	p.runStep("a catalog is pushed", p.pushCatalog("1.0.0"))
	p.runStep("two releases are built, pushed and signed", p.buildReleases)
	p.runStep("the update service finds them", p.startUpdateService)
	p.runStep("the operator of 1.0.0 installs it", p.installRelease)
	p.runStep("its components run, and the node has its configuration", p.waitForComponents("1.0.0"))
	p.runStep("the cluster is updated to 1.1.0", p.requestUpdate)
	p.runStep("a Job of the release image copied the release to the node", p.checkRetrievedByJob)
	p.runStep("its components run in place of those of 1.0.0, and the node has its configuration", p.waitForComponents("1.1.0"))
	p.runStep("the operator of 1.1.0 took over in the middle of the update", p.checkOperatorReplaced)
	p.runStep("OLM Classic and the marketplace report the version", p.checkClassicVersion("1.1.0"))
	p.runStep("every namespace sees the default catalog", p.waitForPackageManifests)
	p.runStep("a Subscription installs an operator of it", p.createSubscription)
	p.runStep("its removal leaves no pods", p.deleteSubscription)
	p.runStep("the default catalogs are disabled", p.disableDefaultCatalogs)
	p.runStep("no request of a component was forbidden", p.checkNothingForbidden)
}

// platformFixture is a cluster that is installed from a release.
type platformFixture struct {
	*fixture
	site     *site.Site
	releases map[string]*platform.Images
	graphURL string
}

// nodeFile is a file that the releases set, below the folder that replaces the root of the node.
// Its change requires neither a drain nor a reboot. This is the only node, and it runs the
// components that would have to uncordon it.
const nodeFile = "var/lib/kubelet/config.json"

func (p *platformFixture) nodeRoot() string { return filepath.Join(p.dir, "node-root") }

// gatewayAddress returns the address for connections between the node and the machine.
func (p *platformFixture) gatewayAddress() string {
	host, _, _ := net.SplitHostPort(p.Registry)
	return host
}

// buildReleases builds the releases. They are pushed through localhost, but have the names by
// which the node pulls them.
func (p *platformFixture) buildReleases(ctx context.Context) error {
	var err error
	if p.site, err = site.Open(p.dir, p.gatewayAddress(), nil); err != nil {
		return err
	}

	p.t.Cleanup(func() { _ = p.site.Close() }) // The site is no longer needed.
	if err := errors.Join(p.site.WriteChannel("stable", "1.0.0", "1.1.0"), os.MkdirAll(p.nodeRoot(), 0o755)); err != nil {
		return err
	}

	_, port, err := net.SplitHostPort(p.Registry)
	if err != nil {
		return err
	}

	local, conf := "localhost:"+port+"/platform", filepath.Join(p.dir, "registries.conf")
	text := fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\ninsecure = true\n", p.Registry+"/platform", local)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return err
	}

	account, err := p.jobAccountManifest()
	if err != nil {
		return err
	}

	var previous []string
	for _, version := range []string{"1.0.0", "1.1.0"} {
		dir := filepath.Join(p.dir, "payload", version)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}

		daemons := 0
		b := &platform.Build{
			Root: p.root, Program: filepath.Join(p.root, "bin", "releases", version, "mainstay"), Version: version, Previous: previous,
			Image: local + "/mainstay:" + version, Release: local + "/release:" + version, Name: p.Registry + "/platform/mainstay", RegistriesConf: conf,
			Catalogs: map[string]string{"kitchen.yaml": p.defaultCatalogManifest()},
			More: map[string]string{
				"0000_05_trust_00_keys.yaml": p.site.TrustManifest(), "0000_05_trust_01_account.yaml": account, "0000_70_nodes_00_file.yaml": nodeMachineConfig,
			},
			Edit: func(object map[string]any) error {
				metadata, _ := object["metadata"].(map[string]any)
				switch {
				case object["kind"] == "DaemonSet" && metadata["name"] == "machine-config-daemon":
					daemons++
					return simulateDaemon(object, p.nodeRoot())
				case object["kind"] == "Deployment" && metadata["name"] == "cluster-version-operator" && version == "1.0.0":
					return p.retrieveByJobs(object)
				}
				return nil
			},
		}

		images, err := b.Run(ctx, dir)
		if err != nil || daemons != 1 {
			return fmt.Errorf("release %s, with %d daemons of nodes: %w", version, daemons, err)
		}
		if _, err := p.Mainstay(ctx, "release", "sign", images.Release, "--key", p.site.Key, "--to-store", p.site.Signatures); err != nil {
			return err
		}

		images.Component, images.Release = p.imageOnNode(images.Component), p.imageOnNode(images.Release)
		p.releases[version] = images
		previous = append(previous, version)
	}

	return nil
}

// imageOnNode returns the reference by which the node pulls an image.
func (p *platformFixture) imageOnNode(image string) string {
	_, path, _ := strings.Cut(image, "/")
	return p.Registry + "/" + path
}

// fieldAt returns the value at a path of field names, and of indexes in lists with one element.
// It returns nil if there is none.
func fieldAt(in any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := in.(map[string]any)
			in = m[step]
		case int:
			l, _ := in.([]any)
			if len(l) != 1 {
				return nil // The list does not have exactly one element.
			}
			in = l[step]
		}
	}

	return in
}

// simulateDaemon makes the daemon of nodes use a folder in place of the root of its node, and
// only record the commands that it would run.
func simulateDaemon(daemons map[string]any, root string) error {
	pod := fieldAt(daemons, "spec", "template", "spec")
	folder, _ := fieldAt(pod, "volumes", 0, "hostPath").(map[string]any)
	container, _ := fieldAt(pod, "containers", 0).(map[string]any)
	args, _ := container["args"].([]any)
	if folder["path"] != "/" || !slices.Contains(args, any("--root=/rootfs")) {
		return fmt.Errorf("the daemon of nodes has unexpected fields: folder %v, arguments %v", folder, args)
	}

	folder["path"] = root
	container["args"] = append(args, "--simulate")
	return nil
}

// nodeMachineConfig is the MachineConfig with which a release sets nodeFile.
const nodeMachineConfig = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-node-file
  labels: {machineconfiguration.openshift.io/role: master}
  annotations: {include.release.openshift.io/self-managed-high-availability: "true"}
spec:
  config:
    ignition: {version: 3.2.0}
    storage:
      files:
      - {path: /` + nodeFile + `, mode: 420, overwrite: true, contents: {source: "data:,0.0.1-snapshot"}}
`

// startUpdateService runs an update service on the machine, at an address that the node can
// reach.
func (p *platformFixture) startUpdateService(ctx context.Context) error {
	address, status := net.JoinHostPort(p.gatewayAddress(), "0"), ""
	l, err := net.Listen("tcp", address)
	if err == nil {
		address = l.Addr().String()
		err = l.Close()
	}
	if err == nil {
		status, err = cluster.FreeAddress()
	}
	if err != nil {
		return err
	}

	p.graphURL = "http://" + address + "/api/upgrades_info/graph"
	cmd := exec.Command(filepath.Join(p.root, "bin", "mainstay"), "run", "update-service", "--releases", p.Registry+"/platform/release",
		"--pull-cas-dir", filepath.Join(p.CertDir(), p.Registry), "--graph-data", p.site.Data, "--address", address, "--status-address", status,
		"--keyring", p.site.Keyring, "--store", p.site.Store, "--cache-dir", filepath.Join(p.dir, "updates"))
	updates, err := cluster.Launch("update-service", filepath.Join(p.dir, "update-service.log"), cmd)
	if err != nil {
		return err
	}

	p.t.Cleanup(func() {
		if err := updates.Stop(); err != nil {
			p.t.Error(err)
		}
	})
	return p.waitFor(ctx, func(ctx context.Context) error {
		return errors.Join(updates.CheckRunning(), cluster.CheckURL(ctx, "http://"+status+"/readyz"))
	})
}

// installRelease applies the manifests of the release's operator to an empty cluster and creates
// the ClusterVersion. The operator installs the rest.
func (p *platformFixture) installRelease(ctx context.Context) error {
	if _, err := p.Kubectl(ctx, "label", "nodes", "--all", "node-role.kubernetes.io/control-plane="); err != nil {
		return err
	}

	rendered := filepath.Join(p.dir, "rendered")
	if _, err := p.runWithRegistry(ctx, "release", "render", p.releases["1.0.0"].Release, "--output-dir", rendered); err != nil {
		return err
	}

	err := p.waitFor(ctx, func(ctx context.Context) error {
		_, err := p.Kubectl(ctx, "apply", "-f", filepath.Join(rendered, "manifests"))
		return err // Namespaces and CRDs exist at the second attempt.
	})
	if err != nil {
		return err
	}
	if err := p.createServerCertificate(ctx); err != nil {
		return err
	}

	_, err = p.Kubectl(ctx, "create", "configmap", "registry-authorities", "--namespace", operatorNamespace, "--from-file=ca.crt="+p.CA())
	if err != nil {
		return err
	}

	manifest := fmt.Sprintf(`
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11, channel: stable, upstream: %q}
`, p.graphURL)
	if err := p.waitFor(ctx, func(ctx context.Context) error { return p.Apply(ctx, manifest) }); err != nil {
		return err
	}

	return p.waitForRelease(ctx, "1.0.0")
}

// createServerCertificate creates the certificate of the server of new machines, which an
// administrator has to provide.
func (p *platformFixture) createServerCertificate(ctx context.Context) error {
	const namespace = "openshift-machine-config-operator"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}

	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"api-int.example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return err
	}

	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}

	encode := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return p.Apply(ctx, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: v1, kind: Secret, metadata: {name: machine-config-server-tls, namespace: %[1]s}, type: kubernetes.io/tls, data: {tls.crt: %[2]s, tls.key: %[3]s}}
`, namespace, encode("CERTIFICATE", certificate), encode("PRIVATE KEY", private)))
}

const operatorNamespace = "openshift-cluster-version"

// waitForRelease waits until a release is completely applied.
func (p *platformFixture) waitForRelease(ctx context.Context, version string) error {
	return steps.Eventually(ctx, 2*stateTimeout, func(ctx context.Context) error {
		return p.checkOutput(ctx, version+" Completed", "get", "clusterversion", "version", "-o", "jsonpath={.status.history[0].version} {.status.history[0].state}")
	})
}

func (p *platformFixture) requestUpdate(ctx context.Context) error {
	err := p.waitFor(ctx, func(ctx context.Context) error {
		return p.checkOutput(ctx, "1.1.0", "get", "clusterversion", "version", "-o", "jsonpath={.status.availableUpdates[*].version}")
	})
	if err != nil {
		return err
	}
	if _, err := p.Mainstay(ctx, "cluster", "upgrade", "--to", "1.1.0"); err != nil {
		return err
	}
	if err := p.waitForRelease(ctx, "1.1.0"); err != nil {
		return err
	}

	return p.checkOutput(ctx, "true", "get", "clusterversion", "version", "-o", "jsonpath={.status.history[0].verified}")
}

// waitForComponents returns a step that waits until each Deployment and DaemonSet of the platform
// has its pods, with an image of the release and its service account, and until the node has its
// file. The pods of catalogs are ignored.
func (p *platformFixture) waitForComponents(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		return p.waitFor(ctx, func(ctx context.Context) error {
			want, err := p.listLines(ctx, "deployments,daemonsets", `{range .items[*]}{.spec.replicas} {.spec.template.spec.serviceAccountName} {.spec.template.spec.containers[0].image}{"\n"}{end}`)
			if err != nil {
				return err
			}

			want = expandReplicas(want)
			got, err := p.listLines(ctx, "pods", `{range .items[?(@.status.containerStatuses[0].ready==true)]}{.spec.serviceAccountName} {.spec.containers[0].image}{"\n"}{end}`, "-l", "!olm.catalogSource")
			if err != nil {
				return err
			}

			images := p.releases[version]
			if len(want) < 5 || !slices.Contains(want, "cluster-version-operator "+images.Release) || !slices.Equal(got, want) {
				return fmt.Errorf("got ready pods %q, want %q", got, want)
			}

			for _, line := range want {
				if !strings.HasSuffix(line, " "+images.Component) && !strings.HasSuffix(line, " "+images.Release) {
					return fmt.Errorf("%s is not of release %s", line, version)
				}
			}

			data, err := os.ReadFile(filepath.Join(p.nodeRoot(), filepath.FromSlash(nodeFile)))
			if err == nil && string(data) != version {
				err = fmt.Errorf("got the content %q of /%s", data, nodeFile)
			}

			return err
		})
	}
}

// expandReplicas returns a line for each pod of workloads. Each line of workloads begins with its
// number of replicas, or with none.
func expandReplicas(workloads []string) []string {
	var pods []string
	for _, line := range workloads {
		replicas, pod, _ := strings.Cut(line, " ")
		count, err := strconv.Atoi(replicas)
		if err != nil {
			count = 1 // A DaemonSet has one pod, as there is one node.
		}
		pods = append(pods, slices.Repeat([]string{strings.TrimSpace(pod)}, count)...)
	}

	slices.Sort(pods)
	return pods
}

// listLines returns a sorted line for each object.
func (p *platformFixture) listLines(ctx context.Context, kinds, format string, more ...string) ([]string, error) {
	out, err := p.Kubectl(ctx, append([]string{"get", kinds, "-A", "-o", "jsonpath=" + format}, more...)...)
	return slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(out), "\n"))), err
}

// checkOperatorReplaced checks that the running operator was started during the update.
func (p *platformFixture) checkOperatorReplaced(ctx context.Context) error {
	update, err := p.Kubectl(ctx, "get", "clusterversion", "version", "-o", "jsonpath={.status.history[0].startedTime} {.status.history[0].completionTime}")
	if err != nil {
		return err
	}

	pod, err := p.Kubectl(ctx, "get", "pods", "-n", operatorNamespace, "-l", "k8s-app=cluster-version-operator", "-o", "jsonpath={.items[*].metadata.creationTimestamp} {.items[*].status.containerStatuses[0].state.running.startedAt}")
	if err != nil {
		return err
	}

	var times []time.Time
	for _, text := range []string{strings.Fields(update)[0], strings.Fields(pod)[0], strings.Fields(pod)[1], strings.Fields(update)[1]} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return err
		}
		times = append(times, at)
	}

	if !slices.IsSortedFunc(times, time.Time.Compare) {
		return fmt.Errorf("the update started and completed at %s, but the operator's pod was created and started at %s", update, pod)
	}

	return nil
}

// checkNothingForbidden searches the logs of all components for requests that the API server has
// rejected as forbidden.
func (p *platformFixture) checkNothingForbidden(ctx context.Context) error {
	for namespace, workloads := range map[string][]string{
		operatorNamespace:                      {"deployment/cluster-version-operator"},
		"olmv1-system":                         {"deployment/catalogd-controller-manager", "deployment/operator-controller-controller-manager"},
		"openshift-operator-lifecycle-manager": {"deployment/olm-operator", "deployment/catalog-operator", "deployment/packageserver"},
		"openshift-marketplace":                {"deployment/marketplace-operator"},
		"openshift-machine-config-operator":    {"deployment/machine-config-controller", "daemonset/machine-config-daemon"},
	} {
		for _, workload := range workloads {
			out, err := p.Kubectl(ctx, "logs", "-n", namespace, workload)
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				if strings.Contains(line, "forbidden: User") {
					return fmt.Errorf("got the line of the log of %s: %s", workload, line)
				}
			}
		}
	}

	return nil
}
