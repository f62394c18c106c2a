// Package serving manages the objects through which the API server reaches the webhooks and aggregated
// APIs of an operator: Services, serving certificates with the rights to read them, and APIServices.
//
// State evaluates the existing objects without side effects; Server reads and writes them. Package csv
// decides when objects are created and which phase missing ones lead to. Package webhook manages
// webhook configurations.
package serving

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	// Validity is how long a certificate authority and its certificates are valid.
	Validity = 730 * 24 * time.Hour
	// RotateBefore is how long before their expiry they are replaced.
	RotateBefore = 24 * time.Hour
	// KeyCA is the key in a serving Secret for the certificate of the authority.
	KeyCA = csvinfo.KeyServingCA
)

// Hosts returns the host names of a Service in the cluster.
func Hosts(service, namespace string) []string {
	name := service + "." + namespace
	return []string{name, name + ".svc", name + ".svc.cluster.local"}
}

// CAHash returns the hash of an authority. Its change in the pod template triggers a rollout.
func CAHash(ca []byte) string {
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:])
}

// StaleReason returns why the certificate of a Secret must be renewed; empty when it is valid. A nil Secret
// does not exist.
func StaleReason(secret *corev1.Secret, hosts []string, now time.Time) string {
	if secret == nil {
		return "there is no Secret"
	}

	ca, err := certificate.ParseBundle(secret.Data[KeyCA])
	if err != nil {
		return "the authority cannot be read"
	}

	served, err := certificate.ParseBundle(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return "the certificate cannot be read"
	}
	if len(secret.Data[corev1.TLSPrivateKeyKey]) == 0 {
		return "the private key is missing"
	}

	for _, c := range []*x509.Certificate{ca[0], served[0]} {
		if now.Before(c.NotBefore) {
			return "a certificate is not valid yet"
		}
		if !now.Before(c.NotAfter.Add(-RotateBefore)) {
			return "a certificate ends at " + c.NotAfter.UTC().Format(time.RFC3339)
		}
	}

	roots := x509.NewCertPool()
	roots.AddCert(ca[0])
	for _, host := range hosts {
		if _, err := served[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
			return "the certificate is not accepted for host " + host
		}
	}

	return ""
}

// rotationTime returns when the certificate of a Secret must be renewed. It returns the zero time if a
// certificate cannot be parsed.
func rotationTime(secret *corev1.Secret) time.Time {
	var at time.Time
	for _, key := range []string{KeyCA, corev1.TLSCertKey} {
		certificates, err := certificate.ParseBundle(secret.Data[key])
		if err != nil {
			return time.Time{}
		}
		if end := certificates[0].NotAfter.Add(-RotateBefore); at.IsZero() || end.Before(at) {
			at = end
		}
	}

	return at
}

// newAuthority returns a new certificate authority for one installation.
func newAuthority(now time.Time) (*certificate.Pair, error) {
	var serial [8]byte
	_, _ = rand.Read(serial[:]) // It never fails.
	return certificate.NewAuthority("olm-selfsigned-"+hex.EncodeToString(serial[:]), Validity, now)
}

// issueSecretData returns the content of a Deployment's serving Secret with a new certificate.
func issueSecretData(authority *certificate.Pair, hosts []string, now time.Time) (map[string][]byte, error) {
	pair, err := authority.Issue(hosts, Validity, now)
	if err != nil {
		return nil, err
	}

	key, err := pair.KeyPEM()
	if err != nil {
		return nil, err
	}

	return map[string][]byte{
		corev1.TLSCertKey: pair.CertificatePEM(), corev1.TLSPrivateKeyKey: key, KeyCA: authority.CertificatePEM(),
	}, nil
}

// serviceHosts returns the host names of a Deployment's Service.
func serviceHosts(e *csvinfo.Endpoint, namespace string) []string {
	return Hosts(csvinfo.ServiceName(e.Deployment.Name), namespace)
}

func secretText(e *csvinfo.Endpoint, namespace string) string {
	return fmt.Sprintf("Secret %s/%s", namespace, csvinfo.SecretName(e.Deployment.Name))
}
