// Package nodes implements `mainstay nodes`, which shows and pauses updates of nodes.
package nodes

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// NewCommand returns the command `mainstay nodes`.
func NewCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show and pause node updates",
		Long: `Show and pause node updates. The machine-config-controller updates the nodes of each pool to the
configuration of the pool, a few nodes at a time.`,
		Args: cobra.ArbitraryArgs,
		RunE: terminal.RunGroup,
	}

	session.AddFlags(cmd)
	terminal.StripControlCharacters(cmd)
	cmd.AddCommand(newStatusCommand(session), newPauseCommand(session, true), newPauseCommand(session, false))

	return cmd
}

func listPoolNames(ctx context.Context, c client.Client) ([]string, error) {
	return (&action.NodesStatus{Client: c}).Names(ctx)
}

func newStatusCommand(session *kube.Session) *cobra.Command {
	var (
		status action.NodesStatus
		all    bool
		out    terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show the update status of pools and nodes",
		Long: `Show the update status of pools and nodes. CONFIG is the last configuration that all nodes of a pool
have reached; it changes when all nodes are updated. Nodes that are not updated yet are listed below
the pools with the reason.`,
		Example: `  mainstay nodes status
  mainstay nodes status worker --all`,
		Args:              terminal.MaximumArgs(1),
		ValidArgsFunction: session.CompleteFirstArgument(listPoolNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if status.Client = c; len(args) > 0 {
				status.Pool = args[0]
			}

			state, err := status.Run(cmd.Context())
			if err != nil {
				return err
			}

			switch out.Format {
			case "":
			case terminal.FormatName:
				for i := range state.Pools {
					fmt.Fprintln(cmd.OutOrStdout(), kube.ResourceName(kube.SetGroupVersionKind(&state.Pools[i].MachineConfigPool, mcfgv1.GroupVersion, "MachineConfigPool")))
				}
				return nil
			default:
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, state)
			}

			return printPoolTable(session, cmd.OutOrStdout(), state, all)
		},
	}

	cmd.Flags().BoolVar(&all, "all", false, "also show nodes that are up to date")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

func printPoolTable(session *kube.Session, w io.Writer, state *action.PoolStates, all bool) error {
	if len(state.Pools) == 0 {
		fmt.Fprintln(w, "No pools found.")
	}

	var rows, nodes [][]string
	for i := range state.Pools {
		p := &state.Pools[i]
		s := &p.Status
		rows = append(rows, []string{
			p.Name, s.Configuration.Name, poolConditionStatus(s, mcfgv1.PoolUpdated), poolConditionStatus(s, mcfgv1.PoolUpdating), poolConditionStatus(s, mcfgv1.PoolDegraded),
			formatCount(s.MachineCount), formatCount(s.ReadyMachineCount), formatCount(s.UpdatedMachineCount), formatCount(s.DegradedMachineCount), session.FormatAge(&p.CreationTimestamp),
		})
		for _, n := range p.Nodes {
			if all || n.Assessment != pools.AssessedCompleted {
				nodes = append(nodes, []string{n.Name, p.Name, string(n.Assessment), string(n.Phase), n.Config, n.Message})
			}
		}
	}

	if len(rows) > 0 {
		headers := []string{"NAME", "CONFIG", "UPDATED", "UPDATING", "DEGRADED", "MACHINECOUNT", "READYMACHINECOUNT", "UPDATEDMACHINECOUNT", "DEGRADEDMACHINECOUNT", "AGE"}
		if err := terminal.PrintTable(w, headers, rows); err != nil {
			return err
		}
	}

	if len(nodes) > 0 {
		fmt.Fprintln(w)
		if err := terminal.PrintTable(w, []string{"NODE", "POOL", "ASSESSMENT", "PHASE", "CONFIG", "MESSAGE"}, nodes); err != nil {
			return err
		}
	}

	printPoolNotes(w, state)
	return nil
}

// printPoolNotes prints why pools are not updated: because they are paused or could not be rendered.
func printPoolNotes(w io.Writer, state *action.PoolStates) {
	started := false
	note := func(text string) {
		if !started {
			fmt.Fprintln(w)
		}
		started = true
		fmt.Fprintln(w, text)
	}

	for i := range state.Pools {
		p := &state.Pools[i]
		for _, c := range p.Status.Conditions {
			switch {
			case c.Type == mcfgv1.PoolRenderDegraded && c.Status == metav1.ConditionTrue:
				note(c.Message)
			case c.Type == mcfgv1.PoolUpdating && c.Status != metav1.ConditionTrue && p.Spec.Paused && c.Message != "":
				note(p.Name + ": " + c.Message)
			}
		}
	}

	for _, problem := range state.Problems {
		note(problem)
	}
}

func poolConditionStatus(s *mcfgv1.MachineConfigPoolStatus, conditionType string) string {
	for _, c := range s.Conditions {
		if c.Type == conditionType {
			return string(c.Status)
		}
	}
	return ""
}

func formatCount(n int32) string { return strconv.Itoa(int(n)) }

func newPauseCommand(session *kube.Session, paused bool) *cobra.Command {
	pause := action.PoolPause{Paused: paused}
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "pause POOL",
		Short: "Pause the updates of the nodes of a pool",
		Long: `Pause the updates of the nodes of a pool. Node updates that are in progress are completed. Changes to
MachineConfigs that are made while the pool is paused are rolled out in one update when the pool is
resumed.`,
		Example: "  mainstay nodes pause worker",
	}
	if !paused {
		cmd.Use, cmd.Short, cmd.Example = "resume POOL", "Resume the updates of the nodes of a pool", "  mainstay nodes resume worker"
		cmd.Long = "Resume the updates of the nodes of a pool after 'mainstay nodes pause'."
	}

	cmd.Args = terminal.ExactArgs("POOL")
	cmd.ValidArgsFunction = session.CompleteFirstArgument(listPoolNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := session.NewClient(cmd.ErrOrStderr())
		if err != nil {
			return err
		}

		pause.Client, pause.Pool = c, args[0]
		before, after, err := pause.Run(cmd.Context())
		if err != nil {
			return err
		}

		kube.SetGroupVersionKind(after, mcfgv1.GroupVersion, "MachineConfigPool")
		if out.Format != "" {
			return kube.PrintObjects(cmd.OutOrStdout(), out.Format, []client.Object{after}, false)
		}

		result := map[bool]string{true: "paused", false: "resumed"}[paused]
		if before.Spec.Paused == after.Spec.Paused {
			result = "already " + map[bool]string{true: "paused", false: "running"}[paused]
		}

		fmt.Fprintln(cmd.OutOrStdout(), kube.ResourceName(after), result)
		return nil
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}
