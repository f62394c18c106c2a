package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/mainstay-dev/mainstay/internal/cluster/updateservice"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pgp"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// updateServiceOptions are the flags of the update service. It runs without a cluster, so it does not have the
// common flags of the other servers.
type updateServiceOptions struct {
	options
	service         updateservice.Options
	tlsCert, tlsKey string
	keyrings        []string
	keys            []string
	stores          []string
}

func newUpdateServiceCommand() *cobra.Command {
	u := &updateServiceOptions{}
	cmd := &cobra.Command{
		Use:   "update-service",
		Short: "Serve update graphs to clusters",
		Long: `update-service scans a repository for release images, builds update graphs from the releases and a
graph-data directory, and serves the graphs to clusters with the Cincinnati protocol at
/api/upgrades_info/graph. It does not require a cluster.

With --keyring or --key, only releases with a signature for each of them are served.`,
		Example: `  mainstay run update-service --releases registry.example.com/platform/release --graph-data ./graph-data

  # Read the graph-data from an image, and serve only signed releases
  mainstay run update-service --releases registry.example.com/platform/release \
    --graph-data-image registry.example.com/platform/graph-data:latest \
    --keyring release-keys.asc --store https://signatures.example.com/releases`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return u.runUpdateService(cmd.Context()) },
	}

	u.addFlags(cmd.Flags())
	_ = cmd.MarkFlagRequired("releases") // the flag was just added
	cmd.MarkFlagsMutuallyExclusive("graph-data", "graph-data-image")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.MarkFlagsRequiredTogether("keyring", "store")

	return cmd
}

func (u *updateServiceOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&u.service.Releases, "releases", "", "repository with the release images, as REGISTRY/PATH")
	flags.StringVar(&u.service.DataFolder, "graph-data", "", "graph-data directory with channels, blocked and conditional updates")
	flags.StringVar(&u.service.DataImage, "graph-data-image", "", "image with a graph-data directory")
	flags.StringVar(&u.service.DataImagePath, "graph-data-image-path", updateservice.DataPath, "path of the graph-data directory in --graph-data-image")
	flags.DurationVar(&u.service.Interval, "scan-interval", 5*time.Minute, "interval between scans of releases and graph-data")
	flags.StringVar(&u.service.Address, "address", ":8081", "address to serve graphs on")
	flags.StringVar(&u.service.Prefix, "path-prefix", "/api/upgrades_info", "path prefix of /graph and /v1/graph")
	flags.StringVar(&u.service.StatusAddress, "status-address", ":9081", "address of /livez, /readyz and /metrics; 0 disables them")
	flags.StringVar(&u.tlsCert, "tls-cert", "", "serving certificate (default: graphs are served over HTTP, for use behind a TLS proxy)")
	flags.StringVar(&u.tlsKey, "tls-key", "", "private key of --tls-cert")
	flags.StringArrayVar(&u.keyrings, "keyring", nil, "file with OpenPGP public keys; only releases with a signature by one of them are served; can be repeated to require a signature for each file")
	flags.StringArrayVar(&u.keys, "key", nil, "file with a sigstore public key; only releases with a signature by this key are served; can be repeated to require all of them")
	flags.StringArrayVar(&u.stores, "store", nil, "URL of a store with OpenPGP signatures, for example https://example.com/signatures or file:///directory; can be repeated")
	flags.StringVar(&u.cacheDir, "cache-dir", defaultCacheDir(), "directory of the image metadata cache; it can be deleted while the service runs")
	u.images.addFlags(flags)
	flags.IntVarP(&u.verbosity, "v", "v", 0, "log verbosity, 0 to 4")
}

func (u *updateServiceOptions) validate() error {
	return errors.Join(
		validateListenAddress("address", u.service.Address),
		validateListenAddress("status-address", u.service.StatusAddress),
		validateInterval("scan-interval", u.service.Interval),
	)
}

func (u *updateServiceOptions) runUpdateService(ctx context.Context) error {
	if err := u.validate(); err != nil {
		return err
	}

	u.service.Log = u.setupLogging()
	u.service.CacheDir = u.cachePath("update-service")
	u.service.Images = image.Options{
		RegistriesConf: u.images.registriesConf, PolicyFile: u.images.signaturePolicy, CADir: u.images.casDir, AuthFile: u.images.authFile,
	}
	work, ctx := errgroup.WithContext(ctx)
	if u.tlsCert != "" {
		watched, err := certwatcher.New(u.tlsCert, u.tlsKey)
		if err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
		u.service.Certificate = watched.GetCertificate
		work.Go(func() error { return watched.Start(ctx) })
	}

	trusted, err := u.loadTrustedKeys()
	if err != nil {
		return err
	}

	u.service.Verifier = trusted.newVerifier(u.service.Images, u.service.Releases)
	if u.service.DataImage != "" {
		u.service.DataVerifier = trusted.newVerifier(u.service.Images, u.service.DataImage)
	}

	service, err := updateservice.New(u.service)
	if err != nil {
		return err
	}

	work.Go(func() error { return service.Run(ctx, nil) })
	return work.Wait()
}

// trustedKeys are the keys for the verification of releases.
type trustedKeys struct {
	statements *signature.Statements // nil if no OpenPGP signature is required
	keys       []signature.PublicKey
}

// loadTrustedKeys reads the keys and stores that the flags specify. It returns all errors joined.
func (u *updateServiceOptions) loadTrustedKeys() (trustedKeys, error) {
	var trusted trustedKeys
	var keyrings []pgp.Keyring
	var stores []signature.Store
	var errs []error
	fail := func(flag, value string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %s: %w", flag, value, err))
		}
	}
	for _, file := range u.keyrings {
		keyring, err := parseKeyFile(file, pgp.ParseKeyring)
		fail("keyring", file, err)
		keyrings = append(keyrings, keyring)
	}

	for _, file := range u.keys {
		key, err := parseKeyFile(file, signature.ParsePublicKey)
		fail("key", file, err)
		trusted.keys = append(trusted.keys, key)
	}

	client := &http.Client{Timeout: storeTimeout}
	for i, address := range u.stores {
		store, err := signature.OpenStore(address, client)
		fail("store", fmt.Sprintf("number %d", i+1), err) // The URL is omitted because it can contain a password.
		stores = append(stores, store)
	}

	if len(keyrings) > 0 && len(errs) == 0 {
		trusted.statements = signature.NewStatements(keyrings, signature.Parallel(stores...))
	}

	return trusted, errors.Join(errs...)
}

// storeTimeout is the timeout of a request to a signature store.
const storeTimeout = 2 * time.Minute

// parseKeyFile reads a file with keys. The base name of the file is the name of the keys.
func parseKeyFile[T any](file string, parse func(name string, data []byte) (T, error)) (T, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		var none T
		return none, err
	}
	return parse(filepath.Base(file), data)
}

// newVerifier returns a verifier for the images of a repository, which requires a signature for each key. It
// returns nil if no keys are configured.
func (t trustedKeys) newVerifier(images image.Options, ref string) updateservice.Verifier {
	var verifiers []signature.Verifier
	if t.statements != nil {
		verifiers = append(verifiers, t.statements)
	}
	if len(t.keys) > 0 {
		beside := releaseimage.Attachments{Client: image.NewClient(images), Repository: releaseimage.RepositoryOf(ref)}
		verifiers = append(verifiers, signature.NewSigstore(t.keys, beside))
	}
	if len(verifiers) == 0 {
		return nil
	}

	return signature.All(verifiers...)
}
