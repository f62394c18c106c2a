package opm

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func indexCommand() *cobra.Command {
	return databaseGroup("index", "Make and change images of SQLite catalogs",
		indexAddCommand(), indexRemoveCommand(), indexPruneCommand(), indexPruneStrandedCommand(),
		indexExportCommand(), indexDeprecateCommand(),
	)
}

// indexFlags are what commands that make index images have in common.
type indexFlags struct {
	edit     catalogs.EditIndex
	delivery deliveryFlags
	// tools are the flags that name container tools.
	tools toolFlags
}

// toolFlags name container tools. Images are pulled without one; it can build them.
type toolFlags struct{ build, pull, both string }

// engine returns the tool that builds images.
func (t *toolFlags) engine(command string) (string, error) {
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

// making makes a command that changes the catalog of an index image.
func making(cmd *cobra.Command, f *indexFlags) *cobra.Command {
	cmd.Args = terminal.Usage(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m := &f.edit.Image
		group := "add"
		if cmd.Name() == "prune" || cmd.Name() == "prune-stranded" {
			group = "prune"
		}

		var err error
		if m.Engine, err = f.tools.engine(group); err != nil {
			return &terminal.UsageError{Err: err}
		}
		if m.Delivery, err = f.delivery.read(m.Tag); err != nil {
			return err
		}

		warnInsecure(cmd)
		f.edit.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
		if add, ok := f.edit.Change.(*catalogs.AddBundles); ok {
			add.Registry, add.Progress = f.edit.Registry, f.edit.Progress
		}

		m.EngineOutput, m.Program = cmd.ErrOrStderr(), thisProgram()
		reference, err := f.edit.Run(cmd.Context())
		return printReference(cmd, reference, exitCode(err))
	}

	m := &f.edit.Image
	flags := cmd.Flags()
	flags.StringVarP(&f.edit.From, "from-index", "f", "", "index image to change")
	flags.StringVarP(&m.Tag, "tag", "t", "", "what the new image is called (default: operator-registry-index:latest)")
	flags.StringVarP(&m.BinaryImage, "binary-image", "i", "", "image that the new one is built on (default: that of opm; without a container engine: this program; scratch: none)")
	flags.StringVarP(&m.Dockerfile, "out-dockerfile", "d", "", "name of the Dockerfile that --generate writes (default: index.Dockerfile)")
	flags.BoolVar(&m.Generate, "generate", false, "write a Dockerfile and the folder database, and build nothing")
	flags.Bool("debug", false, "say more")
	_ = flags.MarkHidden("debug") // the flag was just added
	f.delivery.bind(cmd)
	BindRegistry(cmd, &f.edit.Registry)

	return cmd
}

// warnInsecure says what --skip-tls means.
func warnInsecure(cmd *cobra.Command) {
	if isSet(cmd, flagSkipTLS) {
		terminal.NewSilentProgress(cmd.ErrOrStderr()).Warn("--skip-tls flag is set: this mode is insecure and meant for development purposes only.")
	}
}

// bindTools adds the flags that name container tools.
func (t *toolFlags) bindTools(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&t.pull, "pull-tool", "p", "", "taken for compatibility: images are pulled without a container tool")
	flags.StringVarP(&t.build, "build-tool", "u", "", "tool that builds the image: podman|docker (default: podman)")
	flags.StringVarP(&t.both, flagContainerTool, "c", "", "the same as --build-tool")
}

// bindTool adds the flag that names the only container tool.
func (t *toolFlags) bindTool(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&t.both, flagContainerTool, "c", "podman", "tool that builds the image: podman|docker")
}

func indexAddCommand() *cobra.Command {
	var add catalogs.AddBundles
	f := &indexFlags{edit: catalogs.EditIndex{Change: &add}}
	cmd := making(&cobra.Command{
		Use:   "add",
		Short: "Add bundles to the catalog of an index image",
		Example: `  opm index add -b quay.io/example/kettle:v0.1.0 -t quay.io/example/index:v1 --push
  opm index add -b quay.io/example/kettle:v0.2.0 -f quay.io/example/index:v1 -t quay.io/example/index:v2 -u docker
  opm index add -b quay.io/example/kettle:v0.1.0 --generate`,
	}, f)

	bindAdd(cmd, &add, "bundles")
	_ = cmd.MarkFlagRequired("bundles") // the flag was just added
	f.tools.bindTools(cmd)

	return cmd
}

func indexRemoveCommand() *cobra.Command {
	var change catalogs.RemovePackages
	f := &indexFlags{edit: catalogs.EditIndex{Change: &change}}
	cmd := making(&cobra.Command{
		Use:     "rm",
		Short:   "Remove packages from the catalog of an index image",
		Example: "  opm index rm -o kettle -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
	}, f)
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Packages, "operators", "o", nil, "packages to remove, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "remove what is there, and only warn of the rest")
	require(cmd, "operators", "from-index")
	f.tools.bindTools(cmd)

	return cmd
}

// require marks flags that were added as required.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.MarkFlagRequired(name) // it exists
	}
}

func indexPruneCommand() *cobra.Command {
	var change catalogs.PrunePackages
	f := &indexFlags{edit: catalogs.EditIndex{Change: &change}}
	cmd := making(&cobra.Command{
		Use:     "prune",
		Short:   "Remove all packages but some from the catalog of an index image",
		Example: "  opm index prune -p kettle,pot -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
	}, f)
	flags := cmd.Flags()
	flags.StringSliceVarP(&change.Keep, "packages", "p", nil, "packages to keep, separated by commas")
	flags.BoolVar(&change.Permissive, flagPermissive, false, "remove what can be removed, and only warn of the rest")
	require(cmd, "packages", "from-index")
	f.tools.bindTool(cmd)

	return cmd
}

func indexPruneStrandedCommand() *cobra.Command {
	f := &indexFlags{edit: catalogs.EditIndex{Change: &catalogs.PruneStranded{}}}
	cmd := making(&cobra.Command{
		Use:     "prune-stranded",
		Short:   "Remove bundles that no channel names from the catalog of an index image",
		Example: "  opm index prune-stranded -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
	}, f)
	require(cmd, "from-index")
	f.tools.bindTool(cmd)

	return cmd
}

func indexDeprecateCommand() *cobra.Command {
	var change catalogs.DeprecateBundles
	f := &indexFlags{edit: catalogs.EditIndex{Change: &change}}
	cmd := making(&cobra.Command{
		Use:     "deprecatetruncate",
		Short:   "Deprecate bundles of an index image, and remove those that they are updates of",
		Example: "  opm index deprecatetruncate -b quay.io/example/kettle:v0.1.0 -f quay.io/example/index:v1 -t quay.io/example/index:v2 --push",
		Hidden:  true,
	}, f)

	bindDeprecate(cmd, &change, "bundles")
	f.tools.bindTools(cmd)

	return cmd
}

func indexExportCommand() *cobra.Command {
	var (
		export  catalogs.ExportIndex
		oldName []string
	)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write packages of an index image in the package manifest format",
		Long: `Write packages of an index image in the package manifest format: a folder for each package,
in it one for each version, and a package.yaml.`,
		Example: "  opm index export -i quay.io/example/index:v1 --package kettle -f ./downloaded",
		Args:    terminal.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			warnInsecure(cmd)
			export.Packages = append(export.Packages, oldName...)
			export.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			return export.Run(cmd.Context())
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&export.Index, "index", "i", "", "index image")
	flags.StringSliceVar(&export.Packages, "package", nil, "packages to write, separated by commas (default: all)")
	flags.StringSliceVarP(&oldName, "xpackage", "o", nil, "the same as --package")
	_ = flags.MarkHidden("xpackage") // the flag was just added
	flags.StringVarP(&export.Dir, "download-folder", "f", "downloaded", "folder to write to")
	flags.StringP(flagContainerTool, "c", "none", "taken for compatibility: images are pulled without a container tool")
	require(cmd, "index")
	BindRegistry(cmd, &export.Registry)

	return cmd
}
