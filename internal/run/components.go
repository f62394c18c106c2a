package run

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/catalog"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/certify"
	"github.com/mainstay-dev/mainstay/internal/catalogclient"
	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/extension"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

func setupCatalogd(_ context.Context, o *options, mgr ctrl.Manager) error {
	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}
	return catalog.Setup(mgr, o.catalogOptions(images))
}

func (o *options) catalogOptions(images *pull.Puller) catalog.Options {
	return catalog.Options{
		ExternalAddress: o.externalAddress,
		ListenAddress:   o.catalogsAddress,
		CacheDir:        o.cachePath("catalogs"),
		SystemNamespace: o.systemNamespace,
		Puller:          images,
		TLSCertFile:     o.tlsCert,
		TLSKeyFile:      o.tlsKey,
		Limits:          catalogstore.Limits{TotalBytes: int64(o.catalogsSize)},
	}
}

func setupOperatorController(_ context.Context, o *options, mgr ctrl.Manager) error {
	trusted := &catalogdAuthorities{reader: mgr.GetAPIReader(), namespace: o.systemNamespace, dir: o.catalogdCAsDir}
	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}
	return o.setupExtensions(mgr, images, trusted.loadCertPool)
}

// unreadFields excludes the fields of blobs that this program does not read. They are the largest part of a
// catalog.
const unreadFields = "-icon,-description,-relatedImages,-properties[" + fbc.PropertyBundleObject + "],-properties[" + fbc.PropertyCSVMetadata + "]"

func (o *options) setupExtensions(mgr ctrl.Manager, images *pull.Puller, rootCAs func(context.Context) (*x509.CertPool, error)) error {
	wanted, err := fields.Parse(unreadFields)
	if err != nil {
		return err
	}
	return extension.Setup(mgr, extension.Options{
		SystemNamespace:       o.systemNamespace,
		Catalogs:              catalogclient.New(catalogclient.Options{RootCAs: rootCAs, Fields: wanted}),
		Images:                images.Client,
		CacheDir:              o.cachePath("bundles"),
		RequireServiceAccount: o.requireServiceAccount,
		IgnoreServiceAccount:  o.ignoreServiceAccount,
		CertManager:           o.features.isEnabled(featureCertManager),
		Program:               o.program,
	})
}

// setupAll sets up all components in one process. The certificate of catalogd is not stored in a Secret,
// because its clients run in the same process.
func setupAll(ctx context.Context, o *options, mgr ctrl.Manager) error {
	if err := prepareCluster(ctx, mgr.GetConfig(), action.Installation{Namespace: o.systemNamespace, IgnoreServiceAccount: o.ignoreServiceAccount}); err != nil {
		return err
	}

	address, err := localAddress(o.catalogsAddress)
	if err != nil {
		return err
	}
	if o.externalAddress == "" {
		o.externalAddress = address
	}

	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}

	catalogs := o.catalogOptions(images)
	memory, err := certify.NewInMemoryCertificate(catalogs.Hosts(), time.Now())
	if err != nil {
		return fmt.Errorf("issuing the certificate of the catalog server: %w", err)
	}

	if o.tlsCert == "" {
		catalogs.InMemoryCertificate = memory
		if err := publishAuthority(ctx, mgr.GetConfig(), o.systemNamespace, memory.CA()); err != nil {
			return err
		}
	}

	if err := catalog.Setup(mgr, catalogs); err != nil {
		return err
	}

	return o.setupExtensions(mgr, images, func(context.Context) (*x509.CertPool, error) {
		return parseCertPool(memory.CA())
	})
}

// publishAuthority publishes the certificate authority of the catalog server of this process for the command
// line, in the ConfigMap of catalogd. It replaces the authority of an earlier process.
func publishAuthority(ctx context.Context, config *rest.Config, namespace string, ca []byte) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("publishing the authority of the catalog server: %w", err)
	}

	published := corev1ac.ConfigMap(certify.ConfigMapName, namespace).WithData(map[string]string{certify.KeyCA: string(ca)})
	if err := c.Apply(ctx, published, client.FieldOwner(action.InstallFieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("publishing the authority of the catalog server: %w", err)
	}

	return nil
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
