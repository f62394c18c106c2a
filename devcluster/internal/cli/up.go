package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/devcluster/internal/cluster"
)

// maxNodes is what one player was tried with on a small machine.
const maxNodes = 100

type upOptions struct {
	dir          *dirFlag
	node         string
	nodes        int
	registryPort int
	kubeconfig   string
	audit        bool
	detach       bool
	// progress says that this process is the supervisor that a --detach waits for.
	progress bool
}

func newUpCommand(dir *dirFlag) *cobra.Command {
	options := upOptions{dir: dir}
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster until Ctrl-C, or in the background",
		Long: `Run a cluster on the data directory: a new one, or the one that ran there before with all its objects and images.

Each component is a line with the time that it took to be ready. If one dies, the end of its log is shown and the whole
cluster stops. Ports are chosen at the first start and kept; the registry's can be given.

Nodes are one of:
  simulated   played, not run: pods become ready and Jobs complete at once. Needs no privileges. The annotation
              devcluster.mainstay.dev/pod-behavior on a pod (template) makes it misbehave: "unready" or "fail".
  containerd  one real node: kubelet, kube-proxy, CoreDNS and containerd, in namespaces of their own. Needs Linux, root
              and the Debian packages containerd, runc, containernetworking-plugins, iptables and iproute2.
  none        no nodes; pods stay pending.`,
		Example: `  devcluster up
  devcluster up --detach --nodes 3
  devcluster up --detach --data-dir /tmp/other --registry-port 5001
  sudo devcluster up --node containerd --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return runUp(command, options) },
	}

	flags := command.Flags()
	flags.StringVar(&options.node, "node", string(cluster.Simulated), "what runs the pods: simulated, containerd or none")
	flags.IntVar(&options.nodes, "nodes", 1, fmt.Sprintf("number of simulated nodes, 1 to %d", maxNodes))
	flags.IntVar(&options.registryPort, "registry-port", 0,
		"port of the registry (default the one of the run before, or any free one)")
	flags.StringVar(&options.kubeconfig, "kubeconfig", "",
		"also add the cluster to this kubeconfig file, as its current context")
	flags.BoolVar(&options.audit, "audit", false,
		"write what service accounts ask of the API server to an audit log; \"devcluster logs audit\" prints it")
	flags.BoolVar(&options.detach, "detach", false, "return when the cluster is ready and leave it running")
	flags.BoolVar(&options.progress, "progress", false, "report the start by descriptor 3")
	_ = flags.MarkHidden("progress") // Fails for a flag that does not exist only.
	_ = command.RegisterFlagCompletionFunc("node", cobra.FixedCompletions(nodeKinds, cobra.ShellCompDirectiveNoFileComp))

	return command
}

var nodeKinds = []string{string(cluster.Simulated), string(cluster.Containerd), string(cluster.NoNodes)}

// validate says what is wrong with the flags. nodesGiven is whether --nodes was.
func (o upOptions) validate(nodesGiven bool) error {
	switch {
	case !slices.Contains(nodeKinds, o.node):
		return fmt.Errorf("--node is %q; it can be %s", o.node, strings.Join(nodeKinds, ", "))
	case nodesGiven && o.node != string(cluster.Simulated) && (o.node != string(cluster.Containerd) || o.nodes != 1):
		return fmt.Errorf("--nodes is for simulated nodes; --node %s has a fixed number", o.node)
	case o.nodes < 1 || o.nodes > maxNodes:
		return fmt.Errorf("--nodes is %d; it can be 1 to %d (for no nodes, give --node none)", o.nodes, maxNodes)
	case o.registryPort < 0 || o.registryPort > 65535:
		return fmt.Errorf("--registry-port is %d; a port is 1 to 65535", o.registryPort)
	}

	return nil
}

func runUp(command *cobra.Command, options upOptions) error {
	if err := options.validate(command.Flags().Changed("nodes")); err != nil {
		return err
	}

	dir, err := options.dir.dir()
	if err != nil {
		return err
	}

	if options.kubeconfig != "" {
		if options.kubeconfig, err = filepath.Abs(options.kubeconfig); err != nil {
			return err
		}
	}

	up := cluster.Options{
		Dir: dir, Node: cluster.NodeKind(options.node), Nodes: options.nodes,
		RegistryPort: options.registryPort, Kubeconfig: options.kubeconfig, Audit: options.audit, Out: command.OutOrStdout(),
	}
	if options.detach {
		return cluster.Detach(command.Context(), dir, options.detachedArgs(string(dir)), command.OutOrStdout())
	}

	if options.progress {
		progress := cluster.NewProgress()
		up.Out = io.MultiWriter(up.Out, progress)
		up.OnReady = progress.Ready
	}

	return cluster.Up(command.Context(), up)
}

// detachedArgs is the command line of the supervisor in the background.
func (o upOptions) detachedArgs(dir string) []string {
	args := []string{"up", "--progress", "--data-dir=" + dir, "--node=" + o.node}
	if o.node == string(cluster.Simulated) {
		args = append(args, fmt.Sprintf("--nodes=%d", o.nodes))
	}
	if o.registryPort != 0 {
		args = append(args, fmt.Sprintf("--registry-port=%d", o.registryPort))
	}
	if o.kubeconfig != "" {
		args = append(args, "--kubeconfig="+o.kubeconfig)
	}
	if o.audit {
		args = append(args, "--audit")
	}

	return args
}
