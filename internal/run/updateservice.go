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
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// updateService are the flags of the update service. It needs no cluster, so that it has
// none of those of the other servers.
type updateService struct {
	options
	service  updateservice.Options
	keyrings []string
	keys     []string
	stores   []string
}

func updateServiceCommand() *cobra.Command {
	u := &updateService{}
	cmd := &cobra.Command{
		Use:   "update-service",
		Short: "Tell clusters which releases they can be updated to",
		Long: `update-service finds the release images in a repository of a registry, makes update graphs
of them and of a graph-data folder, and serves these to clusters over the Cincinnati
protocol, at /api/upgrades_info/graph. It needs no cluster to run on.

With --keyring or --key only releases are served that each of them has signed.`,
		Example: `  mainstay run update-service --releases registry.example.com/platform/release --graph-data ./graph-data

  # Take the graph-data from an image, and serve only releases that are signed
  mainstay run update-service --releases registry.example.com/platform/release \
    --graph-data-image registry.example.com/platform/graph-data:latest \
    --keyring release-keys.asc --store https://signatures.example.com/releases`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return u.run(cmd.Context()) },
	}

	u.bind(cmd.Flags())
	_ = cmd.MarkFlagRequired("releases") // the flag was just added
	cmd.MarkFlagsMutuallyExclusive("graph-data", "graph-data-image")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.MarkFlagsRequiredTogether("keyring", "store")

	return cmd
}

func (u *updateService) bind(flags *pflag.FlagSet) {
	flags.StringVar(&u.service.Releases, "releases", "", "repository with the release images, as REGISTRY/PATH")
	flags.StringVar(&u.service.DataFolder, "graph-data", "", "graph-data folder: channels, blocked and conditional updates")
	flags.StringVar(&u.service.DataImage, "graph-data-image", "", "image with a graph-data folder")
	flags.StringVar(&u.service.DataImagePath, "graph-data-image-path", updateservice.DataPath, "where --graph-data-image has its folder")
	flags.DurationVar(&u.service.Interval, "scan-interval", 5*time.Minute, "how often releases and graph-data are looked at")
	flags.StringVar(&u.service.Address, "address", ":8081", "address that graphs are served on")
	flags.StringVar(&u.service.Prefix, "path-prefix", "/api/upgrades_info", "path before /graph and /v1/graph")
	flags.StringVar(&u.service.StatusAddress, "status-address", ":9081", "address of /livez, /readyz and /metrics; 0 turns them off")
	flags.StringVar(&u.tlsCert, "tls-cert", "", "certificate to serve graphs with; unset: over HTTP, for what stands in front to encrypt")
	flags.StringVar(&u.tlsKey, "tls-key", "", "key of --tls-cert")
	flags.StringArrayVar(&u.keyrings, "keyring", nil, "file with OpenPGP public keys, one of which must have signed a release for it to be served; may be repeated, each must have signed")
	flags.StringArrayVar(&u.keys, "key", nil, "file with a public key of sigstore, which must have signed a release for it to be served; may be repeated")
	flags.StringArrayVar(&u.stores, "store", nil, "URL of a store with OpenPGP signatures, as https://example.com/signatures or file:///folder; may be repeated")
	flags.StringVar(&u.cacheDir, "cache-dir", defaultCacheDir(), "folder of what is known of images; it may be deleted while the service runs")
	u.images(flags)
	flags.IntVarP(&u.verbosity, "v", "v", 0, "detail of the log, 0 to 4")
}

func (u *updateService) run(ctx context.Context) error {
	u.service.Log = u.setLog()
	u.service.CacheDir = u.cache("update-service")
	u.service.Images = image.Options{
		RegistriesConf: u.registriesConf, PolicyFile: u.signaturePolicy, CADir: u.casDir, AuthFile: u.authFile,
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

	trusted, err := u.trusted()
	if err != nil {
		return err
	}

	u.service.Verifier = trusted.verifier(u.service.Images, u.service.Releases)
	if u.service.DataImage != "" {
		u.service.DataVerifier = trusted.verifier(u.service.Images, u.service.DataImage)
	}

	service, err := updateservice.New(u.service)
	if err != nil {
		return err
	}

	work.Go(func() error { return service.Run(ctx, nil) })
	return work.Wait()
}

// trusted are those whose signatures count.
type trusted struct {
	statements *signature.Statements // nil: no OpenPGP statement is needed
	keys       []signature.PublicKey
}

// trusted reads the keys that the flags name.
func (u *updateService) trusted() (trusted, error) {
	var of trusted
	var keyrings []signature.Keyring
	var stores []signature.Store
	var wrong []error
	fail := func(flag, value string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--%s %s: %w", flag, value, err))
		}
	}
	for _, file := range u.keyrings {
		keyring, err := parseKey(file, signature.ParseKeyring)
		fail("keyring", file, err)
		keyrings = append(keyrings, keyring)
	}

	for _, file := range u.keys {
		key, err := parseKey(file, signature.ParsePublicKey)
		fail("key", file, err)
		of.keys = append(of.keys, key)
	}

	client := &http.Client{Timeout: storeTimeout}
	for i, address := range u.stores {
		store, err := signature.OpenStore(address, client)
		fail("store", fmt.Sprintf("number %d", i+1), err) // A URL may hold a password.
		stores = append(stores, store)
	}

	if len(keyrings) > 0 && len(wrong) == 0 {
		of.statements = signature.NewStatements(keyrings, signature.Parallel(stores...))
	}

	return of, errors.Join(wrong...)
}

// storeTimeout bounds one question to a store of signatures.
const storeTimeout = 2 * time.Minute

// parseKey reads a file with keys, which are called as the file is.
func parseKey[T any](file string, parse func(name string, data []byte) (T, error)) (T, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		var none T
		return none, err
	}
	return parse(filepath.Base(file), data)
}

// verifier decides about the images of a repository: each key must have signed one. Nil:
// nobody needs to have.
func (t trusted) verifier(images image.Options, ref string) updateservice.Verifier {
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
