package catalog

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newRefreshCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "refresh NAME",
		Short: "Resolve the image of a catalog again now",
		Long: `Make catalogd resolve the image tag of a catalog now instead of at the next poll. New content is
served and extensions are updated to it, as after a regular poll.`,
		Example: `  mainstay catalog refresh operatorhub`,
		Args:    terminal.ExactArgs("NAME"), ValidArgsFunction: session.CompleteFirstArgument(kube.ListCatalogNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			refresh := action.CatalogRefresh{Client: c, Name: args[0], Now: session.Now()}
			if err := refresh.Run(cmd.Context()); err != nil {
				return err
			}

			fmt.Fprintf(cmd.OutOrStdout(), "clustercatalog.olm.operatorframework.io/%s refresh requested\n", args[0])
			return nil
		},
	}

	session.AddFlags(cmd)
	return cmd
}
