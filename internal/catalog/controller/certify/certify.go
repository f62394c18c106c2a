// Package certify manages the serving certificate of the catalog server. It issues the certificate under its
// own certificate authority, stores both in a Secret that all replicas share, publishes the authority in
// a ConfigMap for clients, and renews both before they expire.
//
// It is not used if the server is configured with certificate files.
package certify

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// Names of the shared objects and of their keys.
const (
	SecretName    = "catalogd-service-cert"
	ConfigMapName = "catalogd-service-ca"
	// KeyCA is the key of the certificate of the authority in both objects. In the ConfigMap, it also
	// contains the certificates of previous authorities.
	KeyCA = "ca.crt"
	// keyCAKey is the key of the private key of the authority in the Secret.
	keyCAKey = "ca.key"

	authorityName = "mainstay-catalogd"
)

const (
	// certificateResyncInterval is the interval at which the Secret is checked. Another replica can have
	// renewed the certificate, or a user can have deleted the Secret.
	certificateResyncInterval = 5 * time.Minute
	// certificateRetryInterval is the retry interval after a failure.
	certificateRetryInterval = 10 * time.Second
)

// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,resourceNames=catalogd-service-cert,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,resourceNames=catalogd-service-ca,verbs=get;update

// Keeper ensures that the serving certificate is valid. It is a manager.Runnable that runs on every replica.
type Keeper struct {
	// Client reads and writes without a cache. The objects are rarely read, and a cache would contain
	// every Secret of the namespace.
	Client client.Client
	// Namespace is the namespace of the objects.
	Namespace string
	// Hosts are the host names of the server.
	Hosts []string
	// Clock is the source of the current time.
	Clock clock.Clock
	// Holder receives each certificate.
	Holder *certificate.Holder
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start reconciles the certificate at each interval until the context is done.
func (k *Keeper) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("certify")
	for {
		interval := certificateResyncInterval
		if err := k.Ensure(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "The serving certificate is not up to date", "secret", SecretName)
			interval = certificateRetryInterval
		}
		timer := k.Clock.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Ensure reconciles the Secret, the ConfigMap and the holder once.
func (k *Keeper) Ensure(ctx context.Context) error {
	// There are few replicas, and each attempt starts from the state that the winner has written.
	return reconcile.RetryStale(func() error { return k.ensureCertificate(ctx) })
}

// certificatePairs are the key pairs of an authority and of a serving certificate that it issued.
type certificatePairs struct{ authority, serving *certificate.Pair }

// ensureCertificate issues or renews the certificate if necessary. It returns a conflict error if another
// replica has written first.
func (k *Keeper) ensureCertificate(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: SecretName}, Type: corev1.SecretTypeTLS}
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	if err == nil && len(secret.Data[corev1.TLSCertKey]) > 0 && len(secret.Data[keyCAKey]) == 0 {
		return fmt.Errorf("the Secret %s/%s contains a certificate that this program did not issue: delete it, or mount it and specify its files with --tls-cert and --tls-key", k.Namespace, SecretName)
	}

	p, changed, err := renewPairs(secret.Data, k.Hosts, k.Clock.Now())
	if err != nil {
		return err
	}

	if secret.ResourceVersion == "" {
		// If several replicas start at the same time, only the authority of the one that creates the Secret
		// is published.
		if err := k.writeSecret(ctx, secret, p); err != nil {
			return err
		}
		changed = false
	}

	// Clients must trust a new authority before a certificate that it issued is served.
	if err := k.publishAuthority(ctx, p.authority); err != nil {
		return err
	}

	if changed {
		if err := k.writeSecret(ctx, secret, p); err != nil {
			return err
		}
	}

	k.Holder.Set(p.serving)
	return nil
}

// renewPairs returns the key pairs in the data of a Secret. Pairs that are missing, invalid or due for
// renewal are replaced. It reports whether a pair was replaced.
func renewPairs(data map[string][]byte, hosts []string, now time.Time) (certificatePairs, bool, error) {
	var p certificatePairs
	changed := false
	var err error
	p.authority, err = certificate.Parse(data[KeyCA], data[keyCAKey])
	if err != nil || p.authority.AuthorityStaleReason(now) != "" {
		changed = true
		if p.authority, err = certificate.NewAuthority(authorityName, certificate.AuthorityValidity, now); err != nil {
			return certificatePairs{}, false, err
		}
	}

	p.serving, err = certificate.Parse(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil || p.serving.ServingStaleReason(p.authority.Certificate, hosts, now) != "" {
		changed = true
		if p.serving, err = p.authority.Issue(hosts, 0, now); err != nil {
			return certificatePairs{}, false, err
		}
	}

	return p, changed, nil
}

// writeSecret creates or updates the Secret. It fails if another replica has changed it in the meantime.
func (k *Keeper) writeSecret(ctx context.Context, secret *corev1.Secret, p certificatePairs) error {
	authorityKey, err := p.authority.KeyPEM()
	if err != nil {
		return err
	}

	servingKey, err := p.serving.KeyPEM()
	if err != nil {
		return err
	}

	secret.Data = map[string][]byte{
		KeyCA: p.authority.CertificatePEM(), keyCAKey: authorityKey,
		corev1.TLSCertKey: p.serving.CertificatePEM(), corev1.TLSPrivateKeyKey: servingKey,
	}
	if secret.ResourceVersion == "" {
		err = k.Client.Create(ctx, secret)
	} else {
		err = k.Client.Update(ctx, secret)
	}

	if err != nil {
		return fmt.Errorf("writing the serving certificate: %w", err)
	}

	return nil
}

// publishAuthority adds the certificate of the authority to the ConfigMap.
func (k *Keeper) publishAuthority(ctx context.Context, authority *certificate.Pair) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: ConfigMapName}}
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(config), config)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the published authority: %w", err)
	}

	missing := err != nil
	trusted := string(certificate.TrustBundle([]byte(config.Data[KeyCA]), k.Clock.Now(), authority.Certificate))
	if config.Data[KeyCA] == trusted {
		return nil
	}
	if config.Data == nil {
		config.Data = map[string]string{}
	}

	config.Data[KeyCA] = trusted
	if missing {
		err = k.Client.Create(ctx, config)
	} else {
		err = k.Client.Update(ctx, config)
	}

	if err != nil {
		return fmt.Errorf("publishing the authority: %w", err)
	}

	return nil
}

// InMemoryCertificate is a certificate that exists only in memory, for a server whose clients are in the same process.
type InMemoryCertificate struct {
	certificate.Holder
	ca []byte
}

// NewInMemoryCertificate issues a certificate for the hosts under a new authority.
func NewInMemoryCertificate(hosts []string, now time.Time) (*InMemoryCertificate, error) {
	p, _, err := renewPairs(nil, hosts, now)
	if err != nil {
		return nil, errors.Join(errors.New("issuing a serving certificate"), err)
	}

	m := &InMemoryCertificate{ca: p.authority.CertificatePEM()}
	// The certificate is not renewed, so it has the validity of the authority.
	if p.serving, err = p.authority.Issue(hosts, certificate.AuthorityValidity, now); err != nil {
		return nil, err
	}

	m.Set(p.serving)
	return m, nil
}

// CA returns the certificate of the authority in PEM format, which clients must trust.
func (m *InMemoryCertificate) CA() []byte { return m.ca }
