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

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/site"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
	"github.com/mainstay-dev/mainstay/test/payload"
)

// TestPlatform installs Mainstay's own release on a real node, and updates the cluster to the
// next one: every component runs as the pod that the release says, as its ServiceAccount, and
// the cluster-version-operator replaces itself on the way. The daemon of the node writes into a
// folder that stands for the node's root.
func TestPlatform(t *testing.T) {
	built(t, "devcluster", "mainstay", "hello-operator", "releases/1.0.0/mainstay", "releases/1.1.0/mainstay")
	if !canBeReal(t) {
		t.Skip("no pods run here")
	}

	p := &platform{journey: start(t, true), releases: map[string]*payload.Images{}}
	p.step("a catalog is pushed", p.stock("1.0.0"))
	p.step("two releases are built, pushed and signed", p.build)
	p.step("the update service finds them", p.serveUpdates)
	p.step("the operator of 1.0.0 installs it", p.install)
	p.step("its components run, and the node has its configuration", p.runs("1.0.0"))
	p.step("the cluster is updated to 1.1.0", p.update)
	p.step("a Job of the release image brought the release to the node", p.retrievedByJob)
	p.step("its components run in place of those of 1.0.0, and the node has its configuration", p.runs("1.1.0"))
	p.step("the operator of 1.1.0 took over in the middle of the update", p.tookOver)
	p.step("OLM Classic and the marketplace report the version", p.classicReports("1.1.0"))
	p.step("every namespace sees the default catalog", p.classicShows)
	p.step("a Subscription brings an operator of it", p.subscribe)
	p.step("its removal leaves nothing that runs", p.unsubscribe)
	p.step("the default catalogs are switched off", p.switchOff)
	p.step("no component was refused anything", p.notRefused)
}

// platform is a cluster that is installed by a release.
type platform struct {
	*journey
	site     *site.Site
	releases map[string]*payload.Images
	graphs   string
}

// nodeFile is a file that the releases set, below the folder that stands for the root of the
// node. Its change asks neither for a drain nor for a reboot: this node is the only one, and holds
// those who would bring it back.
const nodeFile = "var/lib/kubelet/config.json"

func (p *platform) nodeRoot() string { return filepath.Join(p.dir, "node-root") }

// gateway is the address by which node and machine reach each other.
func (p *platform) gateway() string {
	host, _, _ := net.SplitHostPort(p.Registry)
	return host
}

// build builds the releases. They are pushed by way of localhost, and called as the node reaches
// them.
func (p *platform) build(ctx context.Context) error {
	var err error
	if p.site, err = site.Open(p.dir, p.gateway(), nil); err != nil {
		return err
	}

	p.t.Cleanup(func() { _ = p.site.Close() }) // It was only read.
	if err := errors.Join(p.site.Channel("stable", "1.0.0", "1.1.0"), os.MkdirAll(p.nodeRoot(), 0o755)); err != nil {
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

	account, err := p.jobAccount()
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
		b := &payload.Build{
			Root: p.root, Program: filepath.Join(p.root, "bin", "releases", version, "mainstay"), Version: version, Previous: previous,
			Image: local + "/mainstay:" + version, Release: local + "/release:" + version, Name: p.Registry + "/platform/mainstay", RegistriesConf: conf,
			Catalogs: map[string]string{"kitchen.yaml": p.defaultCatalog()},
			More: map[string]string{
				"0000_05_trust_00_keys.yaml": p.site.Trust(), "0000_05_trust_01_account.yaml": account, "0000_70_nodes_00_file.yaml": nodeSetting,
			},
			Edit: func(object map[string]any) error {
				metadata, _ := object["metadata"].(map[string]any)
				switch {
				case object["kind"] == "DaemonSet" && metadata["name"] == "machine-config-daemon":
					daemons++
					return confine(object, p.nodeRoot())
				case object["kind"] == "Deployment" && metadata["name"] == "cluster-version-operator" && version == "1.0.0":
					return p.byJobs(object)
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

		images.Component, images.Release = p.named(images.Component), p.named(images.Release)
		p.releases[version] = images
		previous = append(previous, version)
	}

	return nil
}

// named is an image as the node calls it.
func (p *platform) named(image string) string {
	_, path, _ := strings.Cut(image, "/")
	return p.Registry + "/" + path
}

// at returns what is in an object, by names of fields and places in lists that have one element. What
// is not there is nil.
func at(in any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := in.(map[string]any)
			in = m[step]
		case int:
			l, _ := in.([]any)
			if len(l) != 1 {
				return nil // What is not there once is not known.
			}
			in = l[step]
		}
	}

	return in
}

// confine has the daemon of nodes act in a folder that stands for the root of its node, and only
// note the commands that it would run.
func confine(daemons map[string]any, root string) error {
	pod := at(daemons, "spec", "template", "spec")
	folder, _ := at(pod, "volumes", 0, "hostPath").(map[string]any)
	container, _ := at(pod, "containers", 0).(map[string]any)
	args, _ := container["args"].([]any)
	if folder["path"] != "/" || !slices.Contains(args, any("--root=/rootfs")) {
		return fmt.Errorf("the daemon of nodes is not as it was: folder %v, arguments %v", folder, args)
	}

	folder["path"] = root
	container["args"] = append(args, "--simulate")
	return nil
}

// nodeSetting is the MachineConfig by which a release sets nodeFile.
const nodeSetting = `apiVersion: machineconfiguration.openshift.io/v1
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

// serveUpdates runs an update service on the machine, where the node reaches it.
func (p *platform) serveUpdates(ctx context.Context) error {
	address, status := net.JoinHostPort(p.gateway(), "0"), ""
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

	p.graphs = "http://" + address + "/api/upgrades_info/graph"
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
	return p.eventually(ctx, func(ctx context.Context) error {
		return errors.Join(updates.Alive(), cluster.Answers(ctx, "http://"+status+"/readyz"))
	})
}

// install applies what the release says to apply to an empty cluster, that is its operator, and
// makes the ClusterVersion. The rest is the operator's.
func (p *platform) install(ctx context.Context) error {
	if _, err := p.Kubectl(ctx, "label", "nodes", "--all", "node-role.kubernetes.io/control-plane="); err != nil {
		return err
	}

	rendered := filepath.Join(p.dir, "rendered")
	if _, err := p.push(ctx, "release", "render", p.releases["1.0.0"].Release, "--output-dir", rendered); err != nil {
		return err
	}

	err := p.eventually(ctx, func(ctx context.Context) error {
		_, err := p.Kubectl(ctx, "apply", "-f", filepath.Join(rendered, "manifests"))
		return err // Namespaces and kinds are there at the second try.
	})
	if err != nil {
		return err
	}
	if err := p.certify(ctx); err != nil {
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
`, p.graphs)
	if err := p.eventually(ctx, func(ctx context.Context) error { return p.Apply(ctx, manifest) }); err != nil {
		return err
	}

	return p.reaches(ctx, "1.0.0")
}

// certify makes the certificate of the server of new machines, which is the administrator's to give.
func (p *platform) certify(ctx context.Context) error {
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

// reaches waits until a release was applied completely.
func (p *platform) reaches(ctx context.Context, version string) error {
	return steps.Eventually(ctx, 2*limit, func(ctx context.Context) error {
		return p.prints(ctx, version+" Completed", "get", "clusterversion", "version", "-o", "jsonpath={.status.history[0].version} {.status.history[0].state}")
	})
}

func (p *platform) update(ctx context.Context) error {
	err := p.eventually(ctx, func(ctx context.Context) error {
		return p.prints(ctx, "1.1.0", "get", "clusterversion", "version", "-o", "jsonpath={.status.availableUpdates[*].version}")
	})
	if err != nil {
		return err
	}
	if _, err := p.Mainstay(ctx, "cluster", "upgrade", "--to", "1.1.0"); err != nil {
		return err
	}
	if err := p.reaches(ctx, "1.1.0"); err != nil {
		return err
	}

	return p.prints(ctx, "true", "get", "clusterversion", "version", "-o", "jsonpath={.status.history[0].verified}")
}

// runs waits until each Deployment and DaemonSet of the platform has its pods, in an image of a
// release and as the account that it names, and the node has its file. Catalogs have pods too.
func (p *platform) runs(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		return p.eventually(ctx, func(ctx context.Context) error {
			want, err := p.lines(ctx, "deployments,daemonsets", `{range .items[*]}{.spec.replicas} {.spec.template.spec.serviceAccountName} {.spec.template.spec.containers[0].image}{"\n"}{end}`)
			if err != nil {
				return err
			}

			want = eachPod(want)
			got, err := p.lines(ctx, "pods", `{range .items[?(@.status.containerStatuses[0].ready==true)]}{.spec.serviceAccountName} {.spec.containers[0].image}{"\n"}{end}`, "-l", "!olm.catalogSource")
			if err != nil {
				return err
			}

			images := p.releases[version]
			if len(want) < 5 || !slices.Contains(want, "cluster-version-operator "+images.Release) || !slices.Equal(got, want) {
				return fmt.Errorf("pods that are ready: %q, want %q", got, want)
			}

			for _, line := range want {
				if !strings.HasSuffix(line, " "+images.Component) && !strings.HasSuffix(line, " "+images.Release) {
					return fmt.Errorf("%s is not of release %s", line, version)
				}
			}

			data, err := os.ReadFile(filepath.Join(p.nodeRoot(), filepath.FromSlash(nodeFile)))
			if err == nil && string(data) != version {
				err = fmt.Errorf("/%s says %q", nodeFile, data)
			}

			return err
		})
	}
}

// eachPod returns a line for each pod of workloads, of which each line begins with a number of replicas, or with none.
func eachPod(workloads []string) []string {
	var pods []string
	for _, line := range workloads {
		replicas, pod, _ := strings.Cut(line, " ")
		count, err := strconv.Atoi(replicas)
		if err != nil {
			count = 1 // A DaemonSet has one: there is one node.
		}
		pods = append(pods, slices.Repeat([]string{strings.TrimSpace(pod)}, count)...)
	}

	slices.Sort(pods)
	return pods
}

// lines asks for a line of each object, and sorts them.
func (p *platform) lines(ctx context.Context, kinds, format string, more ...string) ([]string, error) {
	out, err := p.Kubectl(ctx, append([]string{"get", kinds, "-A", "-o", "jsonpath=" + format}, more...)...)
	return slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(out), "\n"))), err
}

// tookOver checks that the operator that runs began after the update, and before its end.
func (p *platform) tookOver(ctx context.Context) error {
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
		return fmt.Errorf("the update went from and to %s, the operator was made and began to run at %s", update, pod)
	}

	return nil
}

// notRefused looks for what the API server refused a component, in the logs of all.
func (p *platform) notRefused(ctx context.Context) error {
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
					return fmt.Errorf("%s says: %s", workload, line)
				}
			}
		}
	}

	return nil
}
