package cli

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/devcluster/internal/cluster"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares output with the golden file of the given name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}

// execute runs a command line.
func execute(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	var out bytes.Buffer
	command := NewCommand()
	command.SetArgs(args)
	command.SetOut(&out)
	err = command.ExecuteContext(t.Context())
	return out.String(), err
}

func TestUpValidate(t *testing.T) {
	for _, test := range []struct {
		name       string
		options    upOptions
		nodesGiven bool
		want       string // a part of the error
	}{
		{"defaults", upOptions{node: "simulated", nodes: 1}, false, ""},
		{"many nodes", upOptions{node: "simulated", nodes: maxNodes}, true, ""},
		{"a real node", upOptions{node: "containerd", nodes: 1}, false, ""},
		{"one real node", upOptions{node: "containerd", nodes: 1}, true, ""},
		{"two real nodes", upOptions{node: "containerd", nodes: 2}, true, "fixed number"},
		{"no nodes, some", upOptions{node: "none", nodes: 1}, true, "fixed number"},
		{"unknown kind", upOptions{node: "docker", nodes: 1}, false, "simulated, containerd, none"},
		{"zero nodes", upOptions{node: "simulated", nodes: 0}, true, "--node none"},
		{"too many nodes", upOptions{node: "simulated", nodes: maxNodes + 1}, true, "1 to 100"},
		{"no port", upOptions{node: "simulated", nodes: 1, registryPort: 70000}, false, "--registry-port"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.options.validateFlags(test.nodesGiven)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// TestSupervisorArgs parses the arguments of the supervisor in the background with the command itself.
func TestSupervisorArgs(t *testing.T) {
	for _, options := range []upOptions{
		{node: "simulated", nodes: 3, registryPort: 5001, kubeconfig: "/home/me/.kube/config", audit: true},
		{node: "containerd", nodes: 1},
		{node: "none", nodes: 1},
	} {
		t.Run(options.node, func(t *testing.T) {
			command, args, err := NewCommand().Find(options.supervisorArgs("/data"))
			if err != nil {
				t.Fatal(err)
			}

			var got upOptions
			command.RunE = func(command *cobra.Command, _ []string) error {
				flags := command.Flags()
				got.node, _ = flags.GetString("node")
				got.nodes, _ = flags.GetInt("nodes")
				got.registryPort, _ = flags.GetInt("registry-port")
				got.kubeconfig, _ = flags.GetString("kubeconfig")
				got.audit, _ = flags.GetBool("audit")

				return got.validateFlags(flags.Changed("nodes"))
			}

			command.Root().SetArgs(append([]string{"up"}, args...))
			if err := command.Root().ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got != options {
				t.Errorf("got %+v, want %+v", got, options)
			}
		})
	}
}

func TestPrintStatus(t *testing.T) {
	record := state.Record{
		Phase: state.Running, PID: 100, Node: string(cluster.Simulated),
		Registry: "127.0.0.1:5001", Kubeconfig: "/data/kubeconfig",
		Components: []state.ComponentRecord{
			{Name: "etcd", State: state.Running, PID: 101, Address: "https://127.0.0.1:2379"},
			{Name: "kube-controller-manager", State: state.Starting, PID: 102},
		},
	}

	failed := state.Record{
		Phase: state.Failed, Node: "none", Message: "etcd died: exit status 1; its log /data/logs/etcd.log is empty",
		Components: []state.ComponentRecord{{Name: "etcd", State: state.Stopped}},
	}
	for _, test := range []struct {
		name, output string
		record       state.Record
	}{
		{"status-running", "", record},
		{"status-running-json", "json", record},
		{"status-failed", "", failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printStatus(&out, test.record, test.output); err != nil {
				t.Fatal(err)
			}
			golden(t, test.name, out.String())
		})
	}

	if err := printStatus(io.Discard, record, "yaml"); err == nil {
		t.Error("got no error for an unknown output format")
	}
}

func TestCommandsWithoutACluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, test := range []struct {
		args []string
		want string // a part of the error, "" for none
	}{
		{[]string{"status"}, "does not run"},
		{[]string{"kubeconfig"}, "no cluster ever ran"},
		{[]string{"logs", "etcd"}, "no cluster ever ran"},
		{[]string{"down"}, ""},
		{[]string{"reset"}, ""},
		{[]string{"logs"}, "accepts 1 arg"},
		{[]string{"sing"}, "unknown command"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			_, err := execute(t, append(test.args, "--data-dir", dir)...)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func TestLogs(t *testing.T) {
	dir := state.Dir(t.TempDir())
	if err := dir.Create(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Log("etcd"), []byte("ready\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := execute(t, "logs", "etcd", "--data-dir", string(dir)); err != nil || output != "ready\n" {
		t.Errorf("got %q and error %v, want the log", output, err)
	}

	_, err := execute(t, "logs", "nodes", "--data-dir", string(dir))
	if err == nil || !strings.Contains(err.Error(), "those that have: etcd") {
		t.Errorf("got error %v for a component without a log, want the names of those that have one", err)
	}
}

func TestHelp(t *testing.T) {
	for _, name := range []string{"", "up", "status", "kubeconfig", "logs", "down", "reset"} {
		t.Run(name, func(t *testing.T) {
			output, err := execute(t, strings.Fields(name+" --help")...)
			if err != nil || !strings.Contains(output, "Examples:") {
				t.Fatalf("got error %v and help without examples:\n%s", err, output)
			}
			golden(t, strings.TrimPrefix("help-"+name, "-"), output)
		})
	}
}
