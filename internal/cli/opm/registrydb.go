package opm

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Names of the flags of commands for SQLite catalogs.
const (
	flagContainerTool = "container-tool"
	flagPermissive    = "permissive"
)

// newDatabaseGroup returns a group of commands for SQLite catalogs. Its help and its commands state
// that SQLite catalogs are deprecated.
func newDatabaseGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := newCommandGroup(use, short+" (deprecated)", commands...)
	cmd.Long = short + ".\n\n" + catalogs.DatabaseNotice
	for _, child := range commands {
		if child.Long == "" {
			child.Long = child.Short + "."
		}
		child.Long += "\n\n" + catalogs.DatabaseNotice
	}

	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := validateTLSFlags(cmd); err != nil {
			return err
		}
		if cmd.Name() != use {
			terminal.NewSilentProgress(cmd.ErrOrStderr()).Warn(catalogs.DatabaseNotice)
		}
		return nil
	}

	return cmd
}

func newRegistryCommand(server Server) *cobra.Command {
	return newDatabaseGroup("registry", "Edit and serve SQLite catalogs",
		newRegistryAddCommand(), newRegistryRemoveCommand(), newRegistryPruneCommand(),
		newRegistryPruneStrandedCommand(), newRegistryDeprecateCommand(), newRegistryServeCommand(server),
	)
}

// configureEditCommand adds the arguments, flags and action to a command that edits a SQLite file.
func configureEditCommand(cmd *cobra.Command, edit *catalogs.EditDatabase, preset string) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		edit.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
		if add, ok := edit.Change.(*catalogs.AddBundles); ok {
			add.Progress = edit.Progress
		}
		return withExitCode(edit.Run(cmd.Context()))
	}

	cmd.Flags().StringVarP(&edit.Path, "database", "d", preset, "path of the SQLite file")
	cmd.Flags().Bool("debug", false, "enable debug logging")
	_ = cmd.Flags().MarkHidden("debug") // the flag was just added

	return cmd
}

// withExitCode adds the exit code to an error about a bundle that was added before, 2 for its image
// and 3 for its version. It returns other errors unchanged.
func withExitCode(err error) error {
	switch {
	case catalogs.IsImageAdded(err):
		return &terminal.ExitError{Code: 2, Err: err}
	case catalogs.IsVersionAdded(err):
		return &terminal.ExitError{Code: 3, Err: err}
	}
	return err
}

func newRegistryAddCommand() *cobra.Command {
	var (
		add  catalogs.AddBundles
		ca   string
		tool string
	)
	cmd := configureEditCommand(&cobra.Command{
		Use:     "add",
		Short:   "Add bundles to a SQLite catalog",
		Example: "  opm registry add -d bundles.db -b quay.io/example/kettle:v0.1.0,quay.io/example/kettle:v0.2.0",
	}, &catalogs.EditDatabase{Create: true, Change: &add}, "bundles.db")
	edit := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		done, err := trustCertificateFile(&add.Registry, "ca-file", ca, tool)
		if err != nil {
			return err
		}
		defer done()
		return edit(cmd, args)
	}

	addBundleFlags(cmd, &add, "bundle-images")
	AddRegistryFlags(cmd, &add.Registry)
	flags := cmd.Flags()
	addTLSFlags(flags, "")
	flags.StringVar(&ca, "ca-file", "", "file with certificate authorities to trust")
	flags.StringVarP(&tool, flagContainerTool, "c", "none", "ignored, for compatibility: images are pulled without a container tool")

	return cmd
}

// trustCertificateFile adds a file of certificate authorities, the value of a flag, to registry. The
// returned function removes it.
func trustCertificateFile(registry *catalogs.Registry, flag, file, tool string) (func(), error) {
	if file == "" {
		return func() {}, nil
	}

	switch {
	case registry.SkipTLSVerify:
		return nil, &terminal.UsageError{Err: fmt.Errorf("--skip-tls-verify must be false when --%s is set", flag)}
	case tool != "none" && tool != "":
		return nil, &terminal.UsageError{Err: fmt.Errorf("--%[1]s cannot be set with --container-tool=%[2]s; certificates must be configured specifically for %[2]s", flag, tool)}
	}

	return registry.TrustFile(file)
}

// addBundleFlags adds the flags for adding bundles.
func addBundleFlags(cmd *cobra.Command, add *catalogs.AddBundles, images string) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&add.Images, images, "b", nil, "bundle images, separated by commas; can be repeated")
	flags.StringVar(&add.Mode, "mode", "replaces", "how upgrade edges in channels are determined: replaces|semver|semver-skippatch")
	terminal.ValidateFlag(cmd, "mode", func() error {
		if err := add.ValidateMode(); err != nil {
			return &terminal.UsageError{Err: err, Advice: "set --mode to replaces, semver or semver-skippatch"}
		}
		return nil
	})
	flags.BoolVar(&add.OverwriteLatest, "overwrite-latest", false, "overwrite the bundle of the same name if it is the head of its channels")
	flags.BoolVar(&add.EnableAlpha, "enable-alpha", false, "allow bundles that substitute others")
	flags.BoolVar(&add.Permissive, flagPermissive, false, "warn instead of failing if a bundle cannot be added")
	_ = flags.MarkHidden("overwrite-latest") // the flags were just added
	_ = flags.MarkHidden("enable-alpha")
}

func newRegistryRemoveCommand() *cobra.Command {
	var change catalogs.RemovePackages
	cmd := configureEditCommand(&cobra.Command{
		Use:     "rm",
		Short:   "Remove packages from a SQLite catalog",
		Example: "  opm registry rm -d bundles.db -o kettle",
	}, &catalogs.EditDatabase{Change: &change}, "bundles.db")
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Packages, "packages", "o", nil, "packages to remove, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "warn instead of failing if a package does not exist")
	_ = cmd.MarkFlagRequired("packages") // the flag was just added

	return cmd
}

func newRegistryPruneCommand() *cobra.Command {
	var change catalogs.PrunePackages
	cmd := configureEditCommand(&cobra.Command{
		Use:     "prune",
		Short:   "Keep only some packages in a SQLite catalog",
		Example: "  opm registry prune -d bundles.db -p kettle,pot",
	}, &catalogs.EditDatabase{Change: &change}, "bundles.db")
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Keep, "packages", "p", nil, "packages to keep, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "warn instead of failing if a package cannot be removed")
	_ = cmd.MarkFlagRequired("packages") // the flag was just added

	return cmd
}

func newRegistryPruneStrandedCommand() *cobra.Command {
	return configureEditCommand(&cobra.Command{
		Use:     "prune-stranded",
		Short:   "Remove bundles without a channel from a SQLite catalog",
		Example: "  opm registry prune-stranded -d bundles.db",
	}, &catalogs.EditDatabase{Change: &catalogs.PruneStranded{}}, "bundles.db")
}

func newRegistryDeprecateCommand() *cobra.Command {
	var change catalogs.DeprecateBundles
	cmd := configureEditCommand(&cobra.Command{
		Use:     "deprecatetruncate",
		Short:   "Deprecate bundles of a SQLite catalog and remove their predecessors",
		Example: "  opm registry deprecatetruncate -d index.db -b quay.io/example/kettle:v0.1.0",
		Hidden:  true,
	}, &catalogs.EditDatabase{Change: &change}, "index.db")

	addDeprecateFlags(cmd, &change, "bundle-images")
	return cmd
}

// addDeprecateFlags adds the flags for deprecating bundles.
func addDeprecateFlags(cmd *cobra.Command, change *catalogs.DeprecateBundles, images string) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Images, images, "b", nil, "bundle images, separated by commas")
	flags.BoolVar(&change.AllowPackageRemoval, "allow-package-removal", false, "allow the deprecation of all channel heads of a package, which removes the package")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "warn instead of failing if a bundle cannot be deprecated")
	_ = cmd.MarkFlagRequired(images) // the flag was just added
}

func newRegistryServeCommand(server Server) *cobra.Command {
	var (
		s       Serving
		timeout string
	)
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve a SQLite catalog over gRPC",
		Long:    `Serve a SQLite catalog over gRPC. The file is not changed; an older schema is migrated in a copy.`,
		Example: "  opm registry serve -d bundles.db -p 50052",
		Args:    cobra.NoArgs,
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

			s.Log = newServerLogger(cmd)
			s.Blobs = catalogs.ReadServedDatabase(ctx, terminal.NewSilentProgress(cmd.ErrOrStderr()), s.Database)
			return server.runServer(ctx, s)
		},
	}

	addServingFlags(cmd, &s)
	flags := cmd.Flags()
	flags.StringVarP(&s.Database, "database", "d", "bundles.db", "path of the SQLite file")
	flags.Bool("skip-migrate", false, "ignored, for compatibility: an older schema is always migrated in a copy")
	flags.StringVar(&timeout, "timeout-seconds", "infinite", "seconds to serve, or infinite")

	return cmd
}
