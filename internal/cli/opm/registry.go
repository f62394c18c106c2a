package opm

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// BindRegistry adds the flags that say how registries are reached, and has the command
// read them, and the global ones of opm, before it runs.
func BindRegistry(cmd *cobra.Command, registry *catalogs.Registry) {
	flags := cmd.Flags()
	flags.StringVar(&registry.AuthFile, "authfile", "", "file with logins for registries (default: those of podman and docker)")
	flags.StringVar(&registry.RegistriesConf, "registries-conf", "", "file with mirrors, blocked and insecure registries (default: that of the machine)")
	flags.StringVar(&registry.SignaturePolicy, "signature-policy", "", "file that says which images are trusted (default: that of the machine)")
	flags.StringVar(&registry.CertsDir, "cert-dir", "", "folder with a folder HOST[:PORT] of certificates for each registry (default: that of the machine)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		readTLS(cmd, registry)
		registry.CacheDir = os.Getenv(envCacheDir)
		registry.PreferredAuthFile = os.Getenv(envAuthFile)
		return nil
	}
}

// Variables of the environment that say how registries are reached.
const (
	// envCacheDir names a folder for images, which stay there.
	envCacheDir = "OLM_CACHE_DIR"
	// envAuthFile names a file with logins, as for podman.
	envAuthFile = "REGISTRY_AUTH_FILE"
)

// Names of the flags that say how registries are trusted.
const (
	flagUseHTTP       = "use-http"
	flagSkipTLSVerify = "skip-tls-verify"
	flagSkipTLS       = "skip-tls"
)

// bindTLS adds the flags that say how registries are trusted. The old one may have a short
// form.
func bindTLS(flags *pflag.FlagSet, short string) {
	flags.Bool(flagSkipTLSVerify, false, "do not verify the certificates of registries")
	flags.Bool(flagUseHTTP, false, "reach registries over plain HTTP where they have no HTTPS")
	flags.BoolP(flagSkipTLS, short, false, "do not verify certificates, and use plain HTTP")
	_ = flags.MarkHidden(flagSkipTLS) // the flag was just added
}

// checkTLS refuses flags that contradict one another, and says which one is old.
func checkTLS(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if flags.Changed(flagSkipTLS) {
		switch {
		case flags.Changed(flagUseHTTP):
			return &terminal.UsageError{Err: errors.New("invalid flag combination: cannot use --use-http with --skip-tls")}
		case flags.Changed(flagSkipTLSVerify):
			return &terminal.UsageError{Err: errors.New("invalid flag combination: cannot use --skip-tls-verify with --skip-tls")}
		}
		cmd.PrintErrln("Flag --skip-tls has been deprecated, use --use-http and --skip-tls-verify instead")
	}

	if isSet(cmd, flagUseHTTP) && isSet(cmd, flagSkipTLSVerify) {
		return &terminal.UsageError{Err: errors.New("invalid flag combination: --use-http and --skip-tls-verify cannot both be true")}
	}
	return nil
}

// readTLS reads the flags of bindTLS, if the program has them.
func readTLS(cmd *cobra.Command, registry *catalogs.Registry) {
	registry.UseHTTP = isSet(cmd, flagUseHTTP) || isSet(cmd, flagSkipTLS)
	registry.SkipTLSVerify = isSet(cmd, flagSkipTLSVerify)
}

// isSet reports whether a command has a flag, its own or that of a parent, and it is true.
func isSet(cmd *cobra.Command, name string) bool {
	value, err := cmd.Flags().GetBool(name)
	return err == nil && value
}
