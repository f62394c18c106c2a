// Package certify keeps the certificate that the catalog server serves with: it issues
// one under an authority of its own, keeps both in a Secret that all replicas share,
// publishes the authority in a ConfigMap for clients, and renews both in time.
//
// It is not used when the server is given certificate files.
package certify

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/certificate"
)

// Names of the shared objects, and of what is in them.
const (
	SecretName    = "catalogd-service-cert"
	ConfigMapName = "catalogd-service-ca"
	// KeyCA is the authority's certificate, in both; in the ConfigMap with those it
	// replaces.
	KeyCA = "ca.crt"
	// keyCAKey is the authority's private key, in the Secret.
	keyCAKey = "ca.key"

	authorityName = "mainstay-catalogd"
)

const (
	// checkEvery is how often the Secret is looked at: another replica may have renewed
	// it, or a person deleted it.
	checkEvery = 5 * time.Minute
	// retryEvery is the pause after a failure.
	retryEvery = 10 * time.Second
	// attempts is how often a write is tried that others are ahead of. Replicas are few,
	// and each attempt starts from what the winner has written.
	attempts = 10
)

// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,resourceNames=catalogd-service-cert,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=configmaps,resourceNames=catalogd-service-ca,verbs=get;update

// Keeper keeps the certificate. It is a Runnable of a manager, on every replica.
type Keeper struct {
	// Client reads and writes without a cache: the objects are seldom read, and a cache
	// would hold every Secret of the namespace.
	Client client.Client
	// Namespace is where the objects are.
	Namespace string
	// Hosts are the names that the server is reached by.
	Hosts []string
	// Clock tells the time.
	Clock clock.Clock
	// Holder is given each certificate.
	Holder *certificate.Holder
}

// NeedLeaderElection is false: every replica serves.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("certify")
	for {
		pause := checkEvery
		if err := k.Keep(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "The serving certificate is not up to date", "secret", SecretName)
			pause = retryEvery
		}
		timer := k.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Keep brings Secret, ConfigMap and holder up to date once.
func (k *Keeper) Keep(ctx context.Context) error {
	var err error
	for range attempts {
		if err = k.keep(ctx); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

// pairs are an authority and a certificate under it.
type pairs struct{ authority, serving *certificate.Pair }

func (k *Keeper) keep(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: SecretName}, Type: corev1.SecretTypeTLS}
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	if err == nil && len(secret.Data[corev1.TLSCertKey]) > 0 && len(secret.Data[keyCAKey]) == 0 {
		return fmt.Errorf("the Secret %s/%s holds a certificate that this program did not issue: delete it, or mount it and name its files with --tls-cert and --tls-key", k.Namespace, SecretName)
	}

	p, changed, err := renew(secret.Data, k.Hosts, k.Clock.Now())
	if err != nil {
		return err
	}

	if secret.ResourceVersion == "" {
		// Of replicas that start together one wins, and only its authority is published.
		if err := k.write(ctx, secret, p); err != nil {
			return err
		}
		changed = false
	}

	// Clients have to know a new authority before a certificate of it is served.
	if err := k.publish(ctx, p.authority); err != nil {
		return err
	}

	if changed {
		if err := k.write(ctx, secret, p); err != nil {
			return err
		}
	}

	k.Holder.Set(p.serving)
	return nil
}

// renew returns the pairs that a Secret's data holds, with those replaced that are missing,
// broken or due for renewal.
func renew(data map[string][]byte, hosts []string, now time.Time) (pairs, bool, error) {
	var p pairs
	changed := false
	var err error
	p.authority, err = certificate.Parse(data[KeyCA], data[keyCAKey])
	if err != nil || p.authority.AuthorityStale(now) != "" {
		changed = true
		if p.authority, err = certificate.NewAuthority(authorityName, certificate.AuthorityValidity, now); err != nil {
			return pairs{}, false, err
		}
	}

	p.serving, err = certificate.Parse(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil || p.serving.ServingStale(p.authority.Certificate, hosts, now) != "" {
		changed = true
		if p.serving, err = p.authority.Issue(hosts, 0, now); err != nil {
			return pairs{}, false, err
		}
	}

	return p, changed, nil
}

// write writes the Secret. It fails when another replica has written it since.
func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, p pairs) error {
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

// publish makes the authority one of those in the ConfigMap.
func (k *Keeper) publish(ctx context.Context, authority *certificate.Pair) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: ConfigMapName}}
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(config), config)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the published authority: %w", err)
	}

	missing := err != nil
	trusted := string(certificate.Trust([]byte(config.Data[KeyCA]), k.Clock.Now(), authority.Certificate))
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

// Memory is a certificate that lives as long as the process, for a server whose clients
// are in the same process.
type Memory struct {
	certificate.Holder
	ca []byte
}

// NewMemory makes an authority and a certificate for hosts.
func NewMemory(hosts []string, now time.Time) (*Memory, error) {
	p, _, err := renew(nil, hosts, now)
	if err != nil {
		return nil, errors.Join(errors.New("making a serving certificate"), err)
	}

	m := &Memory{ca: p.authority.CertificatePEM()}
	// There is nobody to renew it, and a process seldom lives for five years.
	if p.serving, err = p.authority.Issue(hosts, certificate.AuthorityValidity, now); err != nil {
		return nil, err
	}

	m.Set(p.serving)
	return m, nil
}

// CA is the authority's certificate in PEM, which clients have to trust.
func (m *Memory) CA() []byte { return m.ca }
