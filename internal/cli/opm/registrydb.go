package opm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Names of the flags of commands on SQLite catalogs.
const (
	flagContainerTool = "container-tool"
	flagPermissive    = "permissive"
)

// databaseGroup makes a group of commands on SQLite catalogs. They say that these are
// deprecated.
func databaseGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := group(use, short+" (deprecated)", commands...)
	cmd.Long = short + ".\n\n" + catalogs.DatabaseNotice
	for _, child := range commands {
		if child.Long == "" {
			child.Long = child.Short + "."
		}
		child.Long += "\n\n" + catalogs.DatabaseNotice
	}

	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkTLS(cmd); err != nil {
			return err
		}
		if cmd.Name() != use {
			terminal.NewSilentProgress(cmd.ErrOrStderr()).Warn(catalogs.DatabaseNotice)
		}
		return nil
	}

	return cmd
}

func registryCommand(server Server) *cobra.Command {
	return databaseGroup("registry", "Change and serve SQLite catalogs",
		registryAddCommand(), registryRemoveCommand(), registryPruneCommand(),
		registryPruneStrandedCommand(), registryDeprecateCommand(), registryServeCommand(server),
	)
}

// editing makes a command that changes a SQLite file.
func editing(cmd *cobra.Command, edit *catalogs.EditDatabase, preset string) *cobra.Command {
	cmd.Args = terminal.Usage(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		edit.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
		if add, ok := edit.Change.(*catalogs.AddBundles); ok {
			add.Progress = edit.Progress
		}
		return exitCode(edit.Run(cmd.Context()))
	}

	cmd.Flags().StringVarP(&edit.Path, "database", "d", preset, "path of the SQLite file")
	cmd.Flags().Bool("debug", false, "say more")
	_ = cmd.Flags().MarkHidden("debug") // the flag was just added

	return cmd
}

// exitCode returns a failure the exit code by which scripts know that a bundle is there
// already.
func exitCode(err error) error {
	switch {
	case catalogs.IsImageAdded(err):
		return &terminal.ExitError{Code: 2, Err: err}
	case catalogs.IsVersionAdded(err):
		return &terminal.ExitError{Code: 3, Err: err}
	}
	return err
}

func registryAddCommand() *cobra.Command {
	var (
		add  catalogs.AddBundles
		ca   string
		tool string
	)
	cmd := editing(&cobra.Command{
		Use:     "add",
		Short:   "Add bundles to a SQLite catalog",
		Example: "  opm registry add -d bundles.db -b quay.io/example/kettle:v0.1.0,quay.io/example/kettle:v0.2.0",
	}, &catalogs.EditDatabase{Create: true, Change: &add}, "bundles.db")
	edit := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		done, err := trustFile(&add.Registry, ca, tool)
		if err != nil {
			return err
		}
		defer done()
		return edit(cmd, args)
	}

	bindAdd(cmd, &add, "bundle-images")
	BindRegistry(cmd, &add.Registry)
	flags := cmd.Flags()
	bindTLS(flags, "")
	flags.StringVar(&ca, "ca-file", "", "file with certificate authorities to trust")
	flags.StringVarP(&tool, flagContainerTool, "c", "none", "taken for compatibility: images are pulled without a container tool")

	return cmd
}

// trustFile has a file of certificate authorities trusted. The returned function forgets
// it.
func trustFile(registry *catalogs.Registry, file, tool string) (func(), error) {
	if file == "" {
		return func() {}, nil
	}

	switch {
	case registry.SkipTLSVerify:
		return nil, &terminal.UsageError{Err: errors.New("--skip-tls-verify must be false when --ca-file is set")}
	case tool != "none" && tool != "":
		return nil, &terminal.UsageError{Err: fmt.Errorf("--ca-file cannot be set with --container-tool=%[1]s; certificates must be configured specifically for %[1]s", tool)}
	}

	return registry.TrustFile(file)
}

// bindAdd adds the flags that say how bundles are added.
func bindAdd(cmd *cobra.Command, add *catalogs.AddBundles, images string) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&add.Images, images, "b", nil, "images of bundles, separated by commas; may be repeated")
	flags.StringVar(&add.Mode, "mode", "replaces", "how bundles find their place in channels: replaces|semver|semver-skippatch")
	flags.BoolVar(&add.OverwriteLatest, "overwrite-latest", false, "replace a bundle of the same name that is the head of its channels")
	flags.BoolVar(&add.EnableAlpha, "enable-alpha", false, "take bundles that substitute for others")
	flags.BoolVar(&add.Permissive, flagPermissive, false, "add what can be added, and only warn of the rest")
	_ = flags.MarkHidden("overwrite-latest") // the flags were just added
	_ = flags.MarkHidden("enable-alpha")
}

func registryRemoveCommand() *cobra.Command {
	var change catalogs.RemovePackages
	cmd := editing(&cobra.Command{
		Use:     "rm",
		Short:   "Remove packages from a SQLite catalog",
		Example: "  opm registry rm -d bundles.db -o kettle",
	}, &catalogs.EditDatabase{Change: &change}, "bundles.db")
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Packages, "packages", "o", nil, "packages to remove, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "remove what is there, and only warn of the rest")
	_ = cmd.MarkFlagRequired("packages") // the flag was just added

	return cmd
}

func registryPruneCommand() *cobra.Command {
	var change catalogs.PrunePackages
	cmd := editing(&cobra.Command{
		Use:     "prune",
		Short:   "Remove all packages but some from a SQLite catalog",
		Example: "  opm registry prune -d bundles.db -p kettle,pot",
	}, &catalogs.EditDatabase{Change: &change}, "bundles.db")
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Keep, "packages", "p", nil, "packages to keep, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "remove what can be removed, and only warn of the rest")
	_ = cmd.MarkFlagRequired("packages") // the flag was just added

	return cmd
}

func registryPruneStrandedCommand() *cobra.Command {
	return editing(&cobra.Command{
		Use:     "prune-stranded",
		Short:   "Remove bundles that no channel names from a SQLite catalog",
		Example: "  opm registry prune-stranded -d bundles.db",
	}, &catalogs.EditDatabase{Change: &catalogs.PruneStranded{}}, "bundles.db")
}

func registryDeprecateCommand() *cobra.Command {
	var change catalogs.DeprecateBundles
	cmd := editing(&cobra.Command{
		Use:     "deprecatetruncate",
		Short:   "Deprecate bundles of a SQLite catalog, and remove those that they are updates of",
		Example: "  opm registry deprecatetruncate -d index.db -b quay.io/example/kettle:v0.1.0",
		Hidden:  true,
	}, &catalogs.EditDatabase{Change: &change}, "index.db")

	bindDeprecate(cmd, &change, "bundle-images")
	return cmd
}

// bindDeprecate adds the flags that say what is deprecated.
func bindDeprecate(cmd *cobra.Command, change *catalogs.DeprecateBundles, images string) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Images, images, "b", nil, "images of bundles, separated by commas")
	flags.BoolVar(&change.AllowPackageRemoval, "allow-package-removal", false, "allow to deprecate all heads of a package, which removes it")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "deprecate what can be deprecated, and only warn of the rest")
	_ = cmd.MarkFlagRequired(images) // the flag was just added
}

func registryServeCommand(server Server) *cobra.Command {
	var (
		s       Serving
		timeout string
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a SQLite catalog over gRPC",
		Long: `Serve a SQLite catalog over gRPC. The file is not changed: an old one is migrated in a
copy.`,
		Example: "  opm registry serve -d bundles.db -p 50052",
		Args:    terminal.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if timeout != "infinite" {
				seconds, err := strconv.ParseUint(timeout, 10, 31)
				if err != nil {
					return &terminal.UsageError{Err: fmt.Errorf("invalid --timeout-seconds value %q, expected a number of seconds or infinite", timeout)}
				}

				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
				defer cancel()
			}

			s.Log = serverLog(cmd)
			s.Blobs = catalogs.ReadServedDatabase(ctx, terminal.NewSilentProgress(cmd.ErrOrStderr()), s.Database)
			return server.serve(ctx, s)
		},
	}

	bindServing(cmd, &s)
	flags := cmd.Flags()
	flags.StringVarP(&s.Database, "database", "d", "bundles.db", "path of the SQLite file")
	flags.Bool("skip-migrate", false, "taken for compatibility: a file of an older schema is migrated in a copy always")
	flags.StringVar(&timeout, "timeout-seconds", "infinite", "how long to serve")

	return cmd
}
