package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) catalogRefreshCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "refresh NAME",
		Short: "Have the registry looked at now",
		Long: `Have catalogd ask the registry now whether the tag of a catalog has moved, and not when the
poll interval is over. New content is served, and extensions update to it, as after a poll.`,
		Example: `  mainstay catalog refresh operatorhub`,
		Args:    terminal.Takes("NAME"), ValidArgsFunction: a.completeNames(catalogNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			refresh := action.CatalogRefresh{Client: c, Name: args[0], Now: a.now()}
			if err := refresh.Run(cmd.Context()); err != nil {
				return err
			}

			fmt.Fprintf(cmd.OutOrStdout(), "clustercatalog.olm.operatorframework.io/%s refresh requested\n", args[0])
			return nil
		},
	}

	a.kube.bind(cmd)
	return cmd
}
