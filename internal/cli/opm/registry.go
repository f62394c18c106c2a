package opm

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
)

// BindRegistry adds the flags that say how registries are reached.
func BindRegistry(cmd *cobra.Command, registry *catalogs.Registry) {
	flags := cmd.Flags()
	flags.StringVar(&registry.AuthFile, "authfile", "", "file with logins for registries (default: those of podman and docker)")
	flags.StringVar(&registry.RegistriesConf, "registries-conf", "", "file with mirrors, blocked and insecure registries (default: that of the machine)")
	flags.StringVar(&registry.SignaturePolicy, "signature-policy", "", "file that says which images are trusted (default: that of the machine)")
	flags.StringVar(&registry.CertsDir, "cert-dir", "", "folder with a folder HOST[:PORT] of certificates for each registry (default: that of the machine)")
}
