// Package catalog implements `mainstay catalog`. It manages the catalogs of a cluster and builds catalog images. The
// commands that read catalogs without a cluster are those of package opm.
package catalog

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewCommand returns the command `mainstay catalog`.
func NewCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "catalog",
		Aliases: []string{"catalogs", "cat"},
		Short:   "Build catalogs and manage the catalogs of a cluster",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.RunGroup,
	}

	// The other names of these commands have the errors of upstream opm.
	render, validate, search := opm.NewRenderCommand("mainstay catalog"), opm.NewValidateCommand("mainstay catalog"), opm.NewSearchCommand("mainstay catalog")
	render.Args, validate.Args, search.Args = terminal.MinimumArgs("REF"), terminal.ExactArgs("DIR"), terminal.MinimumArgs("CATALOG")
	cmd.AddCommand(
		newAddCommand(session), newListCommand(session), newRefreshCommand(session), newDeleteCommand(session),
		newBuildCommand(), newSiteCommand(), render, validate, search,
		opm.NewShowCommand("mainstay catalog"), opm.NewGraphCommand("mainstay catalog"), opm.NewDiffCommand("mainstay catalog"),
	)
	return cmd
}

func newAddCommand(session *kube.Session) *cobra.Command {
	var (
		add  action.CatalogAdd
		wait kube.WaitFlags
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "add NAME --image REF",
		Short: "Add a catalog to the cluster",
		Example: `  # Add a catalog, poll its tag every ten minutes, and wait until the catalog is served
  mainstay catalog add operatorhub --image quay.io/operatorhubio/catalog:latest --poll-interval 10m --wait

  # Prefer this catalog over others that contain the same packages
  mainstay catalog add ours --image registry.example.com/catalog:v1 --priority 100`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			add.Client, add.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			add.Name, add.Wait = args[0], wait.ToWait()
			catalog, err := add.Run(cmd.Context())

			return printCreatedCatalog(cmd, &out, catalog, wait.Wait, err)
		},
	}

	session.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&add.Image, "image", "", "reference of the catalog image, by tag or digest")
	flags.Int32Var(&add.Priority, "priority", 0, "priority among catalogs that contain the same package; the highest wins")
	flags.DurationVar(&add.PollInterval, "poll-interval", 0, "interval at which the tag is resolved again, in whole minutes, for example 10m (default: never)")
	terminal.RestrictFlag(cmd, "poll-interval", "a duration of whole minutes, at least 1m, or 0 for never", func() bool {
		return add.PollInterval >= 0 && add.PollInterval%time.Minute == 0
	})
	flags.StringToStringVar(&add.Labels, "label", nil, "label of the catalog as KEY=VALUE, for use in catalog selectors; can be repeated")
	_ = cmd.MarkFlagRequired("image") // the flag was just added
	wait.AddFlags(cmd, "the catalog is served")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// printCreatedCatalog prints a catalog that was created, also when waiting for it failed with err.
func printCreatedCatalog(cmd *cobra.Command, out *terminal.Output, catalog *olmv1.ClusterCatalog, waited bool, err error) error {
	if catalog == nil {
		return err
	}

	kube.SetGroupVersionKind(catalog, olmv1.GroupVersion, olmv1.ClusterCatalogKind)
	if out.Format != "" {
		return errors.Join(kube.PrintObjects(cmd.OutOrStdout(), out.Format, []client.Object{catalog}, false), err)
	}

	done := "created"
	if waited && err == nil {
		done = "served"
	}

	fmt.Fprintln(cmd.OutOrStdout(), kube.ResourceName(catalog), done)
	return err
}

func newListCommand(session *kube.Session) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:     "list [NAME]",
		Aliases: []string{"ls", "get"},
		Short:   "List the catalogs of the cluster",
		Example: `  mainstay catalog list
  mainstay catalog list -o wide`,
		Args:              terminal.MaximumArgs(1),
		ValidArgsFunction: session.CompleteFirstArgument(kube.ListCatalogNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			list := action.CatalogList{Client: c}
			if len(args) == 1 {
				list.Name = args[0]
			}

			catalogs, err := list.Run(cmd.Context())
			if err != nil {
				return err
			}

			return printCatalogs(session, cmd, &out, catalogs, list.Name == "")
		},
	}

	session.AddFlags(cmd)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)

	return cmd
}

func printCatalogs(session *kube.Session, cmd *cobra.Command, out *terminal.Output, catalogs []olmv1.ClusterCatalog, all bool) error {
	if out.Format != "" && out.Format != terminal.FormatWide {
		var objects []client.Object
		for i := range catalogs {
			objects = append(objects, kube.SetGroupVersionKind(&catalogs[i], olmv1.GroupVersion, olmv1.ClusterCatalogKind))
		}
		return kube.PrintObjects(cmd.OutOrStdout(), out.Format, objects, all)
	}

	if len(catalogs) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No catalogs found.")
		return nil
	}

	headers := []string{"NAME", "LASTUNPACKED", "SERVING", "AGE"}
	if out.Format == terminal.FormatWide {
		headers = append(headers, "PRIORITY", "RESOLVED")
	}

	var rows [][]string
	for i := range catalogs {
		catalog := &catalogs[i]
		row := []string{
			catalog.Name, session.FormatAge(catalog.Status.LastUnpacked),
			kube.ConditionStatus(catalog.Status.Conditions, olmv1.TypeServing), session.FormatAge(&catalog.CreationTimestamp),
		}
		if out.Format == terminal.FormatWide {
			resolved := ""
			if source := catalog.Status.ResolvedSource; source != nil && source.Image != nil {
				resolved = source.Image.Ref
			}
			row = append(row, strconv.Itoa(int(catalog.Spec.Priority)), resolved)
		}
		rows = append(rows, row)
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}

func newDeleteCommand(session *kube.Session) *cobra.Command {
	var (
		wait kube.WaitFlags
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Remove a catalog from the cluster",
		Long:    `Remove a catalog from the cluster. Extensions that were installed from it are not changed.`,
		Example: `  mainstay catalog delete operatorhub --wait`,
		Args:    terminal.ExactArgs("NAME"), ValidArgsFunction: session.CompleteFirstArgument(kube.ListCatalogNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			remove := action.CatalogDelete{Client: c, Progress: terminal.NewProgress(cmd.ErrOrStderr()), Name: args[0], Wait: wait.ToWait()}
			if err := remove.Run(cmd.Context()); err != nil {
				return err
			}

			kube.PrintDeletedObject(cmd, &out, "clustercatalog.olm.operatorframework.io", args[0])
			return nil
		},
	}

	session.AddFlags(cmd)
	wait.AddFlags(cmd, "the catalog is deleted")
	out.AddFlag(cmd, terminal.FormatName)

	return cmd
}
