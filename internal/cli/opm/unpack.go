package opm

import (
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newBundleUnpackCommand() *cobra.Command {
	var (
		unpack         catalogs.UnpackBundle
		ca             string
		skipValidation bool
	)
	cmd := &cobra.Command{
		Use:   "unpack IMAGE",
		Short: "Unpack a bundle image to a directory",
		Long: `Unpack a bundle image to a directory. The bundle is validated before anything is written. Existing
files with the same names are replaced.`,
		Example: `  opm alpha bundle unpack registry.example.com/kettle:v0.1.0 --out ./kettle
  opm alpha bundle unpack registry.example.com/kettle:v0.1.0 -o ./kettle --skip-validation --root-ca ca.pem`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := trustCertificateFile(&unpack.Registry, "root-ca", ca, "")
			if err != nil {
				return err
			}
			defer done()
			unpack.Ref = args[0]
			if !skipValidation {
				unpack.Check = func(fsys fs.FS) error { return validateUnpackedBundle(cmd.Context(), fsys) }
			}

			unpack.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			return unpack.Run(cmd.Context())
		},
	}

	AddRegistryFlags(cmd, &unpack.Registry)
	flags := cmd.Flags()
	addTLSFlags(flags, "s")
	flags.StringVarP(&unpack.Dir, "out", "o", "./", "directory to write to")
	flags.StringVarP(&ca, "root-ca", "c", "", "file with certificate authorities to trust")
	flags.BoolVarP(&skipValidation, "skip-validation", "v", false, "do not validate the bundle")
	flags.BoolP("debug", "d", false, "enable debug logging")

	return cmd
}
