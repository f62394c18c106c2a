package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// stateTimeout is the timeout for a state of the cluster. A real node pulls images and starts
// containers meanwhile.
const stateTimeout = 3 * time.Minute

// fixture is a cluster that the steps of a test share.
type fixture struct {
	*cluster.Cluster
	t *testing.T
	// realNode is set if pods really run.
	realNode bool
	dir      string
	root     string
}

// newFixture starts a cluster, with a real node if that is wanted and possible.
func newFixture(t *testing.T, wantReal bool) *fixture {
	t.Helper()
	bin := requirePrograms(t, "devcluster", "mainstay", "hello-operator")
	f := &fixture{t: t, dir: t.TempDir(), root: filepath.Dir(bin)}
	node := "simulated"
	if f.realNode = wantReal && canRunRealNode(t); f.realNode {
		node = "containerd"
	}

	var log bytes.Buffer
	var err error
	f.Cluster, err = cluster.Up(t.Context(), cluster.Options{Bin: bin, Dir: f.dir, Node: node, Audit: f.realNode, Out: &log})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if t.Failed() {
			f.logState()
		}
		if f.realNode {
			collectRights(t, f.Cluster)
		}
		if err := f.Down(t.Context()); err != nil {
			t.Error(err)
		}
	})

	t.Logf("the cluster:\n%s", log.String())
	return f
}

// requirePrograms returns the folder of the built programs. If a required one is missing, the
// test is skipped or fails; see env.Program.
func requirePrograms(t *testing.T, programs ...string) string {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Fatal(err)
	}

	for _, program := range programs {
		checkout.FindProgram(t, filepath.Join(bin, program))
	}

	return bin
}

// canRunRealNode reports whether a real node can run here, and prints the reason if not.
func canRunRealNode(t *testing.T) bool {
	t.Helper()
	missing := missingForRealNode()
	if len(missing) == 0 {
		return true
	}
	if os.Getenv(checkout.RequireVariable) != "" && os.Geteuid() == 0 {
		t.Fatalf("a real node is required, and %s", strings.Join(missing, ", "))
	}

	fmt.Printf("no real node here: %s; running on simulated nodes\n", strings.Join(missing, ", "))
	return false
}

// missingForRealNode returns the missing requirements of a real node.
func missingForRealNode() []string {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "not root")
	}

	for _, program := range []string{"containerd", "runc", "iptables", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, "no "+program)
		}
	}

	if _, err := os.Stat("/usr/lib/cni/bridge"); err != nil {
		missing = append(missing, "no CNI plugins")
	}

	return missing
}

func (f *fixture) operatorImage() string { return f.Registry + "/e2e/hello-operator" }

// runWithRegistry runs a mainstay command that connects to the registry.
func (f *fixture) runWithRegistry(ctx context.Context, args ...string) (string, error) {
	if f.realNode {
		args = append(args, "--cert-dir", f.CertDir())
	}
	return f.Mainstay(ctx, args...)
}

func (f *fixture) publishCatalog(ctx context.Context, catalog string, versions ...string) error {
	dir := filepath.Join(f.dir, "bundles")
	if err := cluster.CopyExample(filepath.Join(f.root, "examples"), dir, f.operatorImage(), versions...); err != nil {
		return err
	}
	_, err := f.runWithRegistry(ctx, "catalog", "build", dir, "--push", catalog)
	return err
}

func (f *fixture) runStep(what string, do func(context.Context) error) {
	f.t.Helper()
	began := time.Now()
	if err := do(f.t.Context()); err != nil {
		f.t.Fatalf("%s: %v", what, err)
	}
	f.t.Logf("%6.1f s  %s", time.Since(began).Seconds(), what)
}

// checkOutput checks the output of kubectl.
func (f *fixture) checkOutput(ctx context.Context, want string, args ...string) error {
	out, err := f.Kubectl(ctx, args...)
	if err == nil && out != want {
		err = fmt.Errorf("kubectl %s printed %q, want %q", strings.Join(args, " "), out, want)
	}
	return err
}

func (f *fixture) waitFor(ctx context.Context, check func(context.Context) error) error {
	return steps.Eventually(ctx, stateTimeout, check)
}

// logState logs the state of the cluster after a failure.
func (f *fixture) logState() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"get", "clustercatalogs,clusterextensions,clusterobjectsets", "-o", "wide"},
		{"get", "clusterversion,clusteroperators", "-o", "wide"},
		{"get", "clusterversion", "-o", "jsonpath={.items[*].status.conditions}"},
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"logs", "-n", "olmv1-system", "deployment/catalogd-controller-manager", "--tail=40"},
		{"logs", "-n", "olmv1-system", "deployment/operator-controller-controller-manager", "--tail=40"},
		{"get", "catalogsources,subscriptions,installplans,clusterserviceversions", "-A", "-o", "wide"},
		{"logs", "-n", "openshift-operator-lifecycle-manager", "deployment/catalog-operator", "--tail=40"},
		{"logs", "-n", "openshift-operator-lifecycle-manager", "deployment/olm-operator", "--tail=40"},
		{"logs", "-n", "openshift-operator-lifecycle-manager", "deployment/packageserver", "--tail=40"},
		{"logs", "-n", "openshift-cluster-version", "deployment/cluster-version-operator", "--tail=40"},
		{"logs", "-n", "openshift-machine-config-operator", "deployment/machine-config-controller", "--tail=40"},
		{"logs", "-n", "hello", "deployment/hello-operator", "--tail=40"},
	} {
		out, err := f.Kubectl(ctx, args...)
		f.t.Logf("kubectl %s (%v):\n%s", strings.Join(args, " "), err, out)
	}

	if out, err := f.Mainstay(ctx, "extension", "status", "hello-operator"); err == nil {
		f.t.Log(out)
	}
}
