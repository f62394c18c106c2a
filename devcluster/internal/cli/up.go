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

// maxNodes is the number of nodes that one simulator was tested with on a small machine.
const maxNodes = 100

type upOptions struct {
	dir          *dataDirFlag
	node         string
	nodes        int
	registryPort int
	kubeconfig   string
	audit        bool
	detach       bool
	// progress is set if this process is the supervisor that `up --detach` waits for.
	progress bool
}

func newUpCommand(dir *dataDirFlag) *cobra.Command {
	options := upOptions{dir: dir}
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster until Ctrl-C, or in the background",
		Long: `Run a cluster on the data directory. If a cluster ran there before, it starts again with all its objects and images.

The command prints a line for each component with the time until it was ready. If a component dies, the command prints the
end of its log and stops the whole cluster. Ports are chosen at the first start and kept. The port of the registry can be
set with --registry-port.

Nodes are one of:
  simulated   no containers run: pods become ready and Jobs complete at once. Needs no privileges. The annotation
              devcluster.mainstay.dev/pod-behavior on a pod (template) makes it misbehave: "unready" or "fail".
  containerd  one real node: kubelet, kube-proxy, CoreDNS and containerd, in their own namespaces. Needs Linux, root
              and the Debian packages containerd, runc, containernetworking-plugins, iptables and iproute2.
  none        no nodes; pods stay pending.`,
		Example: `  devcluster up
  devcluster up --detach --nodes 3
  devcluster up --detach --data-dir /tmp/other --registry-port 5001
  sudo devcluster up --node containerd --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return runUpCommand(command, options) },
	}

	flags := command.Flags()
	flags.StringVar(&options.node, "node", string(cluster.Simulated), "what runs the pods: simulated, containerd or none")
	flags.IntVar(&options.nodes, "nodes", 1, fmt.Sprintf("number of simulated nodes, 1 to %d", maxNodes))
	flags.IntVar(&options.registryPort, "registry-port", 0,
		"port of the registry (default the port of the previous run, or any free port)")
	flags.StringVar(&options.kubeconfig, "kubeconfig", "",
		"also add the cluster to this kubeconfig file, as its current context")
	flags.BoolVar(&options.audit, "audit", false,
		"write requests of service accounts to an audit log; \"devcluster logs audit\" prints it")
	flags.BoolVar(&options.detach, "detach", false, "return when the cluster is ready and leave it running")
	flags.BoolVar(&options.progress, "progress", false, "report the start on file descriptor 3")
	_ = flags.MarkHidden("progress") // Fails only for a flag that does not exist.
	_ = command.RegisterFlagCompletionFunc("node", cobra.FixedCompletions(nodeKinds, cobra.ShellCompDirectiveNoFileComp))

	return command
}

var nodeKinds = []string{string(cluster.Simulated), string(cluster.Containerd), string(cluster.NoNodes)}

// validateFlags returns an error if a flag has an invalid value. nodesGiven is whether --nodes was set.
func (o upOptions) validateFlags(nodesGiven bool) error {
	switch {
	case !slices.Contains(nodeKinds, o.node):
		return fmt.Errorf("--node is %q; it must be one of %s", o.node, strings.Join(nodeKinds, ", "))
	case nodesGiven && o.node != string(cluster.Simulated) && (o.node != string(cluster.Containerd) || o.nodes != 1):
		return fmt.Errorf("--nodes is for simulated nodes; --node %s has a fixed number", o.node)
	case o.nodes < 1 || o.nodes > maxNodes:
		return fmt.Errorf("--nodes is %d; it must be 1 to %d (for no nodes, use --node none)", o.nodes, maxNodes)
	case o.registryPort < 0 || o.registryPort > 65535:
		return fmt.Errorf("--registry-port is %d; it must be 1 to 65535", o.registryPort)
	}

	return nil
}

func runUpCommand(command *cobra.Command, options upOptions) error {
	if err := options.validateFlags(command.Flags().Changed("nodes")); err != nil {
		return err
	}

	dir, err := options.dir.resolveDataDir()
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
		return cluster.Detach(command.Context(), dir, options.supervisorArgs(string(dir)), command.OutOrStdout())
	}

	if options.progress {
		progress := cluster.NewProgress()
		up.Out = io.MultiWriter(up.Out, progress)
		up.OnReady = progress.Ready
	}

	return cluster.Up(command.Context(), up)
}

// supervisorArgs returns the arguments of the supervisor that runs in the background.
func (o upOptions) supervisorArgs(dir string) []string {
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
