package opm

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// AddRegistryFlags adds the flags for access to registries. It sets PreRunE of the command to apply the TLS
// flags of opm and the environment variables to registry.
func AddRegistryFlags(cmd *cobra.Command, registry *catalogs.Registry) {
	flags := cmd.Flags()
	flags.StringVar(&registry.AuthFile, "authfile", "", "file with credentials for registries (default: the files of podman and docker)")
	flags.StringVar(&registry.RegistriesConf, "registries-conf", "", "file with mirrors, blocked and insecure registries (default: the file of this machine)")
	flags.StringVar(&registry.SignaturePolicy, "signature-policy", "", "file with the signature verification policy for images (default: the file of this machine)")
	flags.StringVar(&registry.CertsDir, "cert-dir", "", "directory with a subdirectory HOST[:PORT] of certificates for each registry (default: the directory of this machine)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		applyTLSFlags(cmd, registry)
		registry.CacheDir = os.Getenv(envCacheDir)
		registry.PreferredAuthFile = os.Getenv(envAuthFile)
		return nil
	}
}

// Environment variables for access to registries.
const (
	// envCacheDir is a directory in which pulled images are kept.
	envCacheDir = "OLM_CACHE_DIR"
	// envAuthFile is a file with credentials, as for podman.
	envAuthFile = "REGISTRY_AUTH_FILE"
)

// Names of the TLS flags for registries.
const (
	flagUseHTTP       = "use-http"
	flagSkipTLSVerify = "skip-tls-verify"
	flagSkipTLS       = "skip-tls"
)

// addTLSFlags adds the TLS flags for registries. The argument short is the shorthand of the deprecated
// --skip-tls, or "".
func addTLSFlags(flags *pflag.FlagSet, short string) {
	flags.Bool(flagSkipTLSVerify, false, "do not verify the certificates of registries")
	flags.Bool(flagUseHTTP, false, "use plain HTTP for registries without HTTPS")
	flags.BoolP(flagSkipTLS, short, false, "do not verify certificates, and allow plain HTTP")
	_ = flags.MarkHidden(flagSkipTLS) // the flag was just added
}

// validateTLSFlags returns an error for contradicting TLS flags, and prints a warning for the
// deprecated one.
func validateTLSFlags(cmd *cobra.Command) error {
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

	if isFlagSet(cmd, flagUseHTTP) && isFlagSet(cmd, flagSkipTLSVerify) {
		return &terminal.UsageError{Err: errors.New("invalid flag combination: --use-http and --skip-tls-verify cannot both be true")}
	}
	return nil
}

// applyTLSFlags applies the flags of addTLSFlags to registry, if the program has them.
func applyTLSFlags(cmd *cobra.Command, registry *catalogs.Registry) {
	registry.UseHTTP = isFlagSet(cmd, flagUseHTTP) || isFlagSet(cmd, flagSkipTLS)
	registry.SkipTLSVerify = isFlagSet(cmd, flagSkipTLSVerify)
}

// isFlagSet reports whether a boolean flag of the command or of a parent command exists and is true.
func isFlagSet(cmd *cobra.Command, name string) bool {
	value, err := cmd.Flags().GetBool(name)
	return err == nil && value
}
