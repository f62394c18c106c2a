package opm

import (
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func bundleUnpackCommand() *cobra.Command {
	var (
		unpack         catalogs.UnpackBundle
		ca             string
		skipValidation bool
	)
	cmd := &cobra.Command{
		Use:   "unpack IMAGE",
		Short: "Write what the image of a bundle has into a folder",
		Long: `Write what the image of a bundle has into a folder. The bundle is checked before anything
is written. Files of the same names are replaced.`,
		Example: `  opm alpha bundle unpack registry.example.com/kettle:v0.1.0 --out ./kettle
  opm alpha bundle unpack registry.example.com/kettle:v0.1.0 -o ./kettle --skip-validation --root-ca ca.pem`,
		Args: terminal.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := trustFile(&unpack.Registry, ca, "")
			if err != nil {
				return err
			}

			defer done()
			unpack.Ref = args[0]
			if !skipValidation {
				unpack.Check = func(fsys fs.FS) error { return checkUnpacked(cmd.Context(), fsys) }
			}

			unpack.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			return unpack.Run(cmd.Context())
		},
	}

	BindRegistry(cmd, &unpack.Registry)
	flags := cmd.Flags()
	bindTLS(flags, "s")
	flags.StringVarP(&unpack.Dir, "out", "o", "./", "folder to write to")
	flags.StringVarP(&ca, "root-ca", "c", "", "file with certificate authorities to trust")
	flags.BoolVarP(&skipValidation, "skip-validation", "v", false, "write it without a check")
	flags.BoolP("debug", "d", false, "say more")

	return cmd
}
