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

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// limit is how long the cluster may take to reach a state by itself. A real node
// pulls images and starts containers meanwhile.
const limit = 3 * time.Minute

// journey is a cluster that the steps of a test share.
type journey struct {
	*cluster.Cluster
	t *testing.T
	// real says that pods really run.
	real bool
	dir  string
	root string
}

// start starts a cluster: with a real node if that is wanted and can be had here.
func start(t *testing.T, wantReal bool) *journey {
	t.Helper()
	bin := built(t, "devcluster", "mainstay", "hello-operator")
	j := &journey{t: t, dir: t.TempDir(), root: filepath.Dir(bin)}
	node := "simulated"
	if j.real = wantReal && canBeReal(t); j.real {
		node = "containerd"
	}

	var log bytes.Buffer
	var err error
	j.Cluster, err = cluster.Up(t.Context(), cluster.Options{Bin: bin, Dir: j.dir, Node: node, Audit: j.real, Out: &log})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if t.Failed() {
			j.explain()
		}
		if j.real {
			collectRights(t, j.Cluster)
		}
		if err := j.Down(t.Context()); err != nil {
			t.Error(err)
		}
	})

	t.Logf("the cluster:\n%s", log.String())
	return j
}

// built returns the folder of the built programs, of which the test needs some.
func built(t *testing.T, programs ...string) string {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Fatal(err)
	}

	for _, program := range programs {
		env.Program(t, filepath.Join(bin, program))
	}

	return bin
}

// canBeReal reports whether a real node can run here, and says so when it cannot.
func canBeReal(t *testing.T) bool {
	t.Helper()
	missing := missingForRealNode()
	if len(missing) == 0 {
		return true
	}
	if os.Getenv(env.RequireVariable) != "" && os.Geteuid() == 0 {
		t.Fatalf("a real node is required, and %s", strings.Join(missing, ", "))
	}

	fmt.Printf("no real node here: %s; running on simulated nodes\n", strings.Join(missing, ", "))
	return false
}

// missingForRealNode says what is not there that a real node needs.
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

func (j *journey) operator() string { return j.Registry + "/e2e/hello-operator" }

// push runs a command that talks to the registry.
func (j *journey) push(ctx context.Context, args ...string) (string, error) {
	if j.real {
		args = append(args, "--cert-dir", j.CertDir())
	}
	return j.Mainstay(ctx, args...)
}

func (j *journey) publish(ctx context.Context, catalog string, versions ...string) error {
	dir := filepath.Join(j.dir, "bundles")
	if err := cluster.CopyExample(filepath.Join(j.root, "examples"), dir, j.operator(), versions...); err != nil {
		return err
	}
	_, err := j.push(ctx, "catalog", "build", dir, "--push", catalog)
	return err
}

func (j *journey) step(what string, do func(context.Context) error) {
	j.t.Helper()
	began := time.Now()
	if err := do(j.t.Context()); err != nil {
		j.t.Fatalf("%s: %v", what, err)
	}
	j.t.Logf("%6.1f s  %s", time.Since(began).Seconds(), what)
}

// prints checks what kubectl prints.
func (j *journey) prints(ctx context.Context, want string, args ...string) error {
	out, err := j.Kubectl(ctx, args...)
	if err == nil && out != want {
		err = fmt.Errorf("kubectl %s printed %q, want %q", strings.Join(args, " "), out, want)
	}
	return err
}

func (j *journey) eventually(ctx context.Context, check func(context.Context) error) error {
	return steps.Eventually(ctx, limit, check)
}

// explain prints what a person would look at after a failure.
func (j *journey) explain() {
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
		out, err := j.Kubectl(ctx, args...)
		j.t.Logf("kubectl %s (%v):\n%s", strings.Join(args, " "), err, out)
	}

	if out, err := j.Mainstay(ctx, "extension", "status", "hello-operator"); err == nil {
		j.t.Log(out)
	}
}
