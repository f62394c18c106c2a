package opm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newIndexCommand() *cobra.Command {
	return newDatabaseGroup("index", "Build and edit images of SQLite catalogs",
		newIndexAddCommand(), newIndexRemoveCommand(), newIndexPruneCommand(), newIndexPruneStrandedCommand(),
		newIndexExportCommand(), newIndexDeprecateCommand(),
	)
}

// indexFlags are the flags of commands that build index images.
type indexFlags struct {
	edit     catalogs.EditIndex
	delivery deliveryFlags
	// tools are the flags that select container tools.
	tools toolFlags
}

// toolFlags are the flags that select container tools. They are used to build images. Images are
// pulled without a container tool.
type toolFlags struct{ build, pull, both string }

// selectBuildTool returns the container tool for building images.
func (t *toolFlags) selectBuildTool(command string) (string, error) {
	switch {
	case t.both != "" && (t.build != "" || t.pull != ""):
		return "", errors.New("container-tool cannot be set alongside pull-tool or build-tool")
	case t.build == "none" || t.both == "none":
		return "", fmt.Errorf("none is not a valid container-tool for index %s", command)
	case t.both != "":
		return t.both, nil
	case t.build != "":
		return t.build, nil
	}

	return "podman", nil
}

// configureIndexCommand adds the arguments, flags and action to a command that changes the catalog of
// an index image.
func configureIndexCommand(cmd *cobra.Command, f *indexFlags) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m := &f.edit.Image
		group := "add"
		if cmd.Name() == "prune" || cmd.Name() == "prune-stranded" {
			group = "prune"
		}

		var err error
		if m.Engine, err = f.tools.selectBuildTool(group); err != nil {
			return &terminal.UsageError{Err: err}
		}
		if m.Delivery, err = f.delivery.toDelivery(m.Tag); err != nil {
			return err
		}

		warnSkipTLS(cmd)
		f.edit.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
		if add, ok := f.edit.Change.(*catalogs.AddBundles); ok {
			add.Registry, add.Progress = f.edit.Registry, f.edit.Progress
		}

		m.EngineOutput, m.Program = cmd.ErrOrStderr(), currentExecutable()
		reference, err := f.edit.Run(cmd.Context())
		return printImageReference(cmd, reference, withExitCode(err))
	}

	m := &f.edit.Image
	flags := cmd.Flags()
	flags.StringVarP(&f.edit.From, "from-index", "f", "", "index image to change")
	flags.StringVarP(&m.Tag, "tag", "t", "", "reference of the new image (default: operator-registry-index:latest)")
	flags.StringVarP(&m.BinaryImage, "binary-image", "i", "", "base image of the new image, or scratch for none (default: the opm image, or this program if built without a container engine)")
	flags.StringVarP(&m.Dockerfile, "out-dockerfile", "d", "", "name of the Dockerfile that --generate writes (default: index.Dockerfile)")
	flags.BoolVar(&m.Generate, "generate", false, "write a Dockerfile and the directory database without building an image")
	flags.Bool("debug", false, "enable debug logging")
	_ = flags.MarkHidden("debug") // the flag was just added
	f.delivery.addFlags(cmd)
	AddRegistryFlags(cmd, &f.edit.Registry)

	return cmd
}

// warnSkipTLS prints a warning if --skip-tls is set.
func warnSkipTLS(cmd *cobra.Command) {
	if isFlagSet(cmd, flagSkipTLS) {
		terminal.NewSilentProgress(cmd.ErrOrStderr()).Warn("--skip-tls flag is set: this mode is insecure and meant for development purposes only.")
	}
}

// addToolFlags adds the flags that select the pull tool and the build tool.
func (t *toolFlags) addToolFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&t.pull, "pull-tool", "p", "", "ignored, for compatibility: images are pulled without a container tool")
	flags.StringVarP(&t.build, "build-tool", "u", "", "tool that builds the image: podman|docker (default: podman)")
	flags.StringVarP(&t.both, flagContainerTool, "c", "", "alias of --build-tool")
	restrictToEngine(cmd, "build-tool", &t.build)
	restrictToEngine(cmd, flagContainerTool, &t.both)
}

// restrictToEngine makes a flag refuse unknown container tools. It accepts none, for which [toolFlags.selectBuildTool] returns an error
// with the text of upstream opm.
func restrictToEngine(cmd *cobra.Command, name string, tool *string) {
	terminal.RestrictFlag(cmd, name, "podman, docker or buildah", func() bool {
		return slices.Contains([]string{"", "none", "podman", "docker", "buildah"}, *tool)
	})
}

// addContainerToolFlag adds the flag that selects the container tool.
func (t *toolFlags) addContainerToolFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&t.both, flagContainerTool, "c", "podman", "tool that builds the image: podman|docker")
	restrictToEngine(cmd, flagContainerTool, &t.both)
}

func newIndexAddCommand() *cobra.Command {
	var add catalogs.AddBundles
	f := &indexFlags{edit: catalogs.EditIndex{Change: &add}}
	cmd := configureIndexCommand(&cobra.Command{
		Use:   "add",
		Short: "Add bundles to the catalog of an index image",
		Example: `  opm index add -b quay.io/example/kettle:v0.1.0 -t quay.io/example/index:v1 --push
  opm index add -b quay.io/example/kettle:v0.2.0 -f quay.io/example/index:v1 -t quay.io/example/index:v2 -u docker
  opm index add -b quay.io/example/kettle:v0.1.0 --generate`,
	}, f)

	addBundleFlags(cmd, &add, "bundles")
	_ = cmd.MarkFlagRequired("bundles") // the flag was just added
	f.tools.addToolFlags(cmd)

	return cmd
}

func newIndexRemoveCommand() *cobra.Command {
	var change catalogs.RemovePackages
	f := &indexFlags{edit: catalogs.EditIndex{Change: &change}}
	cmd := configureIndexCommand(&cobra.Command{
		Use:     "rm",
		Short:   "Remove packages from the catalog of an index image",
		Example: "  opm index rm -o kettle -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
	}, f)
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Packages, "operators", "o", nil, "packages to remove, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "warn instead of failing if a package does not exist")
	markFlagsRequired(cmd, "operators", "from-index")
	f.tools.addToolFlags(cmd)

	return cmd
}

// markFlagsRequired marks existing flags as required.
func markFlagsRequired(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.MarkFlagRequired(name) // it exists
	}
}

func newIndexPruneCommand() *cobra.Command {
	var change catalogs.PrunePackages
	f := &indexFlags{edit: catalogs.EditIndex{Change: &change}}
	cmd := configureIndexCommand(&cobra.Command{
		Use:     "prune",
		Short:   "Keep only some packages in the catalog of an index image",
		Example: "  opm index prune -p kettle,pot -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
	}, f)
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Keep, "packages", "p", nil, "packages to keep, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "warn instead of failing if a package cannot be removed")
	markFlagsRequired(cmd, "packages", "from-index")
	f.tools.addContainerToolFlag(cmd)

	return cmd
}

func newIndexPruneStrandedCommand() *cobra.Command {
	f := &indexFlags{edit: catalogs.EditIndex{Change: &catalogs.PruneStranded{}}}
	cmd := configureIndexCommand(&cobra.Command{
		Use:     "prune-stranded",
		Short:   "Remove bundles without a channel from the catalog of an index image",
		Example: "  opm index prune-stranded -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
	}, f)
	markFlagsRequired(cmd, "from-index")
	f.tools.addContainerToolFlag(cmd)

	return cmd
}

func newIndexDeprecateCommand() *cobra.Command {
	var change catalogs.DeprecateBundles
	f := &indexFlags{edit: catalogs.EditIndex{Change: &change}}
	cmd := configureIndexCommand(&cobra.Command{
		Use:     "deprecatetruncate",
		Short:   "Deprecate bundles of an index image and remove their predecessors",
		Example: "  opm index deprecatetruncate -b quay.io/example/kettle:v0.1.0 -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
		Hidden:  true,
	}, f)

	addDeprecateFlags(cmd, &change, "bundles")
	f.tools.addToolFlags(cmd)

	return cmd
}

func newIndexExportCommand() *cobra.Command {
	var (
		export  catalogs.ExportIndex
		oldName []string
	)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export packages of an index image in the package manifest format",
		Long: `Export packages of an index image in the package manifest format: a directory for each package with
a subdirectory for each version and a package.yaml.`,
		Example: "  opm index export -i quay.io/example/index:v1 --package kettle -f ./downloaded",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			warnSkipTLS(cmd)
			export.Packages = append(export.Packages, oldName...)
			export.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			return export.Run(cmd.Context())
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&export.Index, "index", "i", "", "index image")
	flags.StringSliceVar(&export.Packages, "package", nil, "packages to export, separated by commas (default: all packages)")
	flags.StringSliceVarP(&oldName, "xpackage", "o", nil, "alias of --package")
	_ = flags.MarkHidden("xpackage") // the flag was just added
	flags.StringVarP(&export.Dir, "download-folder", "f", "downloaded", "directory to write to")
	flags.StringP(flagContainerTool, "c", "none", "ignored, for compatibility: images are pulled without a container tool")
	markFlagsRequired(cmd, "index")
	AddRegistryFlags(cmd, &export.Registry)

	return cmd
}
