package run

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/catalog/controller/certify"
	"github.com/mainstay-dev/mainstay/internal/catalogclient"
	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/extension"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// operatorControllerOptions are the flags of operator-controller.
type operatorControllerOptions struct {
	catalogdCAsDir        string
	requireServiceAccount bool
	ignoreServiceAccount  bool
}

func newOperatorControllerServer() server {
	c := &operatorControllerOptions{}
	return server{
		name:  "operator-controller",
		short: "Install and update extensions",
		long: `operator-controller resolves bundles for ClusterExtensions from the catalogs, rolls them out phase by
phase, and corrects drift of the installed objects.`,
		example:        "  mainstay run operator-controller --system-namespace olmv1-system",
		metricsAddress: ":8443",
		addFlags: func(o *options, cmd *cobra.Command) {
			o.leaseName = "9c4404e7.operatorframework.io" // That of other implementations of OLM v1: only one is active.
			c.addFlags(cmd.Flags())
		},
		validate: c.validate,
		setup:    c.setupOperatorController,
	}
}

func (c *operatorControllerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.catalogdCAsDir, "catalogd-cas-dir", "", "directory of certificate authorities to trust for catalogd (default: the authority that catalogd publishes)")
	flags.BoolVar(&c.requireServiceAccount, "require-service-account", false, "refuse extensions without spec.serviceAccount")
	flags.BoolVar(&c.ignoreServiceAccount, "ignore-service-account", false, "install every extension with the permissions of this server and ignore spec.serviceAccount; must not be set together with --require-service-account")
}

func (c *operatorControllerOptions) validate() error {
	if c.requireServiceAccount && c.ignoreServiceAccount {
		return errors.New("--require-service-account and --ignore-service-account exclude each other; give one of them")
	}
	return nil
}

func (c *operatorControllerOptions) setupOperatorController(_ context.Context, o *options, mgr ctrl.Manager) error {
	trusted := &catalogdAuthorities{reader: mgr.GetAPIReader(), namespace: o.systemNamespace, dir: c.catalogdCAsDir}
	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}
	return c.setupExtensions(o, mgr, images, trusted.loadCertPool)
}

// unreadFields excludes the fields of blobs that this program does not read. They are the largest part of a
// catalog.
const unreadFields = "-icon,-description,-relatedImages,-properties[" + fbc.PropertyBundleObject + "],-properties[" + fbc.PropertyCSVMetadata + "]"

// setupExtensions adds the controllers of extensions to a manager.
func (c *operatorControllerOptions) setupExtensions(o *options, mgr ctrl.Manager, images *pull.Puller, rootCAs func(context.Context) (*x509.CertPool, error)) error {
	wanted, err := fields.Parse(unreadFields)
	if err != nil {
		return err
	}
	return extension.Setup(mgr, extension.Options{
		SystemNamespace:       o.systemNamespace,
		Catalogs:              catalogclient.New(catalogclient.Options{RootCAs: rootCAs, Fields: wanted}),
		Images:                images.Client,
		CacheDir:              o.cachePath("bundles"),
		RequireServiceAccount: c.requireServiceAccount,
		IgnoreServiceAccount:  c.ignoreServiceAccount,
		CertManager:           o.features.isEnabled(featureCertManager),
		Program:               o.program,
	})
}

// catalogdAuthorities are the certificate authorities for the certificate of catalogd: the files in a directory,
// or the authorities that catalogd publishes.
type catalogdAuthorities struct {
	reader    client.Reader
	namespace string
	dir       string
}

// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,resourceNames=catalogd-service-ca,verbs=get

// loadCertPool reads the authorities. They are read each time because catalogd renews its authority.
func (a *catalogdAuthorities) loadCertPool(ctx context.Context) (*x509.CertPool, error) {
	if a.dir != "" {
		return loadCertPoolFromDir(a.dir)
	}

	var published corev1.ConfigMap
	key := client.ObjectKey{Namespace: a.namespace, Name: certify.ConfigMapName}
	err := a.reader.Get(ctx, key, &published)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("catalogd has not published its certificate authority yet: ConfigMap %s does not exist", key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading catalogd's certificate authority from ConfigMap %s: %w", key, err)
	}

	return parseCertPool([]byte(published.Data[certify.KeyCA]))
}

func loadCertPoolFromDir(dir string) (*x509.CertPool, error) {
	var pem []byte
	for _, pattern := range []string{"*.crt", "*.pem"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("--catalogd-cas-dir: %w", err)
			}
			pem = append(append(pem, data...), '\n')
		}
	}

	return parseCertPool(pem)
}

func parseCertPool(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate authority of catalogd found")
	}
	return pool, nil
}
