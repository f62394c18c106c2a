package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) catalogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "catalog",
		Aliases: []string{"catalogs", "cat"},
		Short:   "Build catalogs, and add them to a cluster",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.Group,
	}

	cmd.AddCommand(
		a.catalogAddCommand(), a.catalogListCommand(), a.catalogRefreshCommand(), a.catalogDeleteCommand(),
		catalogBuildCommand(), opm.RenderCommand("mainstay catalog"), opm.ValidateCommand("mainstay catalog"),
		opm.SearchCommand("mainstay catalog"), opm.ShowCommand("mainstay catalog"), opm.GraphCommand("mainstay catalog"), opm.DiffCommand("mainstay catalog"),
	)
	return cmd
}

func (a *app) catalogAddCommand() *cobra.Command {
	var (
		add  action.CatalogAdd
		wait waitFlags
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "add NAME --image REF",
		Short: "Add a catalog to the cluster",
		Example: `  # Add a catalog, look for a new version of it every ten minutes, and wait until it is served
  mainstay catalog add operatorhub --image quay.io/operatorhubio/catalog:latest --poll-interval 10m --wait

  # Prefer this catalog over others that have the same packages
  mainstay catalog add ours --image registry.example.com/catalog:v1 --priority 100`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			add.Client, add.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			add.Name, add.Wait = args[0], wait.value()
			catalog, err := add.Run(cmd.Context())

			return finishCatalog(cmd, &out, catalog, wait.wait, err)
		},
	}

	a.kube.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&add.Image, "image", "", "reference of the catalog's image, with a tag or a digest")
	flags.Int32Var(&add.Priority, "priority", 0, "decides between catalogs that have the same package: the highest wins")
	flags.DurationVar(&add.PollInterval, "poll-interval", 0, "how often to look whether the tag has moved, in whole minutes, as 10m (default: never)")
	flags.StringToStringVar(&add.Labels, "label", nil, "label of the catalog, as KEY=VALUE, for extensions to select it by; may be repeated")
	_ = cmd.MarkFlagRequired("image") // the flag was just added
	wait.bind(cmd, "the catalog is served")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// finishCatalog prints a catalog after it was created.
func finishCatalog(cmd *cobra.Command, out *terminal.Output, catalog *olmv1.ClusterCatalog, waited bool, err error) error {
	if catalog == nil {
		return err
	}

	typed(catalog, olmv1.GroupVersion, olmv1.ClusterCatalogKind)
	if out.Format != "" {
		return errors.Join(printObjects(cmd.OutOrStdout(), out.Format, []client.Object{catalog}, false), err)
	}

	done := "created"
	if waited && err == nil {
		done = "served"
	}

	fmt.Fprintln(cmd.OutOrStdout(), resourceName(catalog), done)
	return err
}

func (a *app) catalogListCommand() *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:     "list [NAME]",
		Aliases: []string{"ls", "get"},
		Short:   "List the catalogs of the cluster",
		Example: `  mainstay catalog list
  mainstay catalog list -o wide`,
		Args:              terminal.TakesUpTo(1),
		ValidArgsFunction: a.completeNames(catalogNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
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

			return a.printCatalogs(cmd, &out, catalogs, list.Name == "")
		},
	}

	a.kube.bind(cmd)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)

	return cmd
}

func (a *app) printCatalogs(cmd *cobra.Command, out *terminal.Output, catalogs []olmv1.ClusterCatalog, all bool) error {
	if out.Format != "" && out.Format != terminal.FormatWide {
		var objects []client.Object
		for i := range catalogs {
			objects = append(objects, typed(&catalogs[i], olmv1.GroupVersion, olmv1.ClusterCatalogKind))
		}
		return printObjects(cmd.OutOrStdout(), out.Format, objects, all)
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
			catalog.Name, a.age(catalog.Status.LastUnpacked),
			conditionStatus(catalog.Status.Conditions, olmv1.TypeServing), a.age(&catalog.CreationTimestamp),
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

func (a *app) catalogDeleteCommand() *cobra.Command {
	var (
		wait waitFlags
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Remove a catalog from the cluster",
		Long:    `Remove a catalog from the cluster. Extensions that were installed from it stay.`,
		Example: `  mainstay catalog delete operatorhub --wait`,
		Args:    terminal.Takes("NAME"), ValidArgsFunction: a.completeNames(catalogNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			remove := action.CatalogDelete{Client: c, Progress: terminal.NewProgress(cmd.ErrOrStderr()), Name: args[0], Wait: wait.value()}
			if err := remove.Run(cmd.Context()); err != nil {
				return err
			}

			printDeleted(cmd, &out, "clustercatalog.olm.operatorframework.io", args[0])
			return nil
		},
	}

	a.kube.bind(cmd)
	wait.bind(cmd, "the catalog is gone")
	out.Bind(cmd, terminal.FormatName)

	return cmd
}

// dryRunFlag is --dry-run=client: write the objects instead of creating them.
type dryRunFlag struct{ client bool }

func (d *dryRunFlag) bind(cmd *cobra.Command) {
	cmd.Flags().Var(d, "dry-run", `"client" writes the objects, as -o says, instead of sending them`)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "client"
}

// String returns the value of the flag.
func (d *dryRunFlag) String() string {
	if d.client {
		return "client"
	}
	return "none"
}

// Type names the value in the help.
func (d *dryRunFlag) Type() string { return "string" }

// Set takes none or client.
func (d *dryRunFlag) Set(value string) error {
	if value != "none" && value != "client" {
		return errors.New("must be none or client")
	}
	d.client = value == "client"
	return nil
}

// print writes the objects. Without a format it is YAML.
func (d *dryRunFlag) print(cmd *cobra.Command, out *terminal.Output, objects []client.Object) error {
	format := out.Format
	if format == "" {
		format = terminal.FormatYAML
	}
	return printDocuments(cmd.OutOrStdout(), format, objects)
}
