package cli

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
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

func (a *app) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "See how nodes are updated, and pause that",
		Long: `See how nodes are brought to the configuration of their pools, which machine-config-controller
does a few at a time, and pause that.`,
		Args: cobra.ArbitraryArgs,
		RunE: terminal.Group,
	}

	a.kube.bind(cmd)
	terminal.Plain(cmd)
	cmd.AddCommand(a.nodesStatusCommand(), a.nodesPauseCommand(true), a.nodesPauseCommand(false))

	return cmd
}

func poolNames(ctx context.Context, c client.Client) ([]string, error) {
	return (&action.NodesStatus{Client: c}).Names(ctx)
}

func (a *app) nodesStatusCommand() *cobra.Command {
	var (
		status action.NodesStatus
		all    bool
		out    terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show how far the nodes of pools are",
		Long: `Show how far the nodes of pools are. CONFIG of a pool is what all of its nodes had last: it
changes when all are done. Below the pools stand the nodes that are not, and what keeps them.`,
		Example: `  mainstay nodes status
  mainstay nodes status worker --all`,
		Args:              terminal.TakesUpTo(1),
		ValidArgsFunction: a.completeNames(poolNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
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
					fmt.Fprintln(cmd.OutOrStdout(), resourceName(typed(&state.Pools[i].MachineConfigPool, mcfgv1.GroupVersion, "MachineConfigPool")))
				}
				return nil
			default:
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, state)
			}

			return a.printPools(cmd.OutOrStdout(), state, all)
		},
	}

	cmd.Flags().BoolVar(&all, "all", false, "also show nodes that are done")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

func (a *app) printPools(w io.Writer, state *action.PoolStates, all bool) error {
	if len(state.Pools) == 0 {
		fmt.Fprintln(w, "There are no pools of nodes.")
	}

	var rows, nodes [][]string
	for i := range state.Pools {
		p := &state.Pools[i]
		s := &p.Status
		rows = append(rows, []string{
			p.Name, s.Configuration.Name, poolCondition(s, mcfgv1.PoolUpdated), poolCondition(s, mcfgv1.PoolUpdating), poolCondition(s, mcfgv1.PoolDegraded),
			number(s.MachineCount), number(s.ReadyMachineCount), number(s.UpdatedMachineCount), number(s.DegradedMachineCount), a.age(&p.CreationTimestamp),
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

	a.printNotes(w, state)
	return nil
}

// printNotes says why pools are not updated: that they are paused, or could not be rendered.
func (a *app) printNotes(w io.Writer, state *action.PoolStates) {
	begun := false
	note := func(text string) {
		if !begun {
			fmt.Fprintln(w)
		}
		begun = true
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

func poolCondition(s *mcfgv1.MachineConfigPoolStatus, conditionType string) string {
	for _, c := range s.Conditions {
		if c.Type == conditionType {
			return string(c.Status)
		}
	}
	return ""
}

func number(n int32) string { return strconv.Itoa(int(n)) }

func (a *app) nodesPauseCommand(paused bool) *cobra.Command {
	pause := action.PoolPause{Paused: paused}
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "pause POOL",
		Short: "Keep the nodes of a pool from being updated",
		Long: `Keep the nodes of a pool from being updated. Those that are being updated already finish.
While it is paused, changes of its MachineConfigs are collected; its nodes get all of them in
one update when it goes on.`,
		Example: "  mainstay nodes pause worker",
	}
	if !paused {
		cmd.Use, cmd.Short, cmd.Example = "resume POOL", "Let the nodes of a pool be updated again", "  mainstay nodes resume worker"
		cmd.Long = "Let the nodes of a pool be updated again after 'mainstay nodes pause'."
	}

	cmd.Args = terminal.Takes("POOL")
	cmd.ValidArgsFunction = a.completeNames(poolNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.kube.client(cmd.ErrOrStderr())
		if err != nil {
			return err
		}

		pause.Client, pause.Pool = c, args[0]
		before, after, err := pause.Run(cmd.Context())
		if err != nil {
			return err
		}

		typed(after, mcfgv1.GroupVersion, "MachineConfigPool")
		if out.Format != "" {
			return printObjects(cmd.OutOrStdout(), out.Format, []client.Object{after}, false)
		}

		did := map[bool]string{true: "paused", false: "resumed"}[paused]
		if before.Spec.Paused == after.Spec.Paused {
			did = "already " + map[bool]string{true: "paused", false: "running"}[paused]
		}

		fmt.Fprintln(cmd.OutOrStdout(), resourceName(after), did)
		return nil
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}
