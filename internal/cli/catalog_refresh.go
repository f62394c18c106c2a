package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) newCatalogRefreshCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "refresh NAME",
		Short: "Resolve the image of a catalog again now",
		Long: `Make catalogd resolve the image tag of a catalog now instead of at the next poll. New content is
served and extensions are updated to it, as after a regular poll.`,
		Example: `  mainstay catalog refresh operatorhub`,
		Args:    terminal.ExactArgs("NAME"), ValidArgsFunction: a.completeFirstArgument(listCatalogNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.newClient(cmd.ErrOrStderr())
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

	a.kube.addFlags(cmd)
	return cmd
}
