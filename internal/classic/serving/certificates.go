// Package serving is what stands in front of the webhooks and aggregated APIs of an operator: their
// Services, their serving certificates with the rights to read them, and the APIServices.
//
// State judges what is there, without side effects; Server reads and writes. When something is
// made, and what becomes of an operator while it is missing, is the csv room's to decide; the
// configurations of webhooks are the webhook room's.
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
	// Validity is for how long an authority and its certificates are made.
	Validity = 730 * 24 * time.Hour
	// RotateBefore is how long before their end they are replaced.
	RotateBefore = 24 * time.Hour
	// KeyCA is the key of a serving Secret that holds the certificate of the authority. In spite of
	// its name no private key is kept.
	KeyCA = "olmCAKey"
)

// Hosts are the names by which the API server reaches a Service.
func Hosts(service, namespace string) []string {
	name := service + "." + namespace
	return []string{name, name + ".svc", name + ".svc.cluster.local"}
}

// CAHash is the hash of an authority, by which a change of it reaches the pods.
func CAHash(ca []byte) string {
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:])
}

// Stale says why the certificate of a Secret must be made anew, and "" when it need not be. A nil
// Secret is one that does not exist.
func Stale(secret *corev1.Secret, hosts []string, now time.Time) string {
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

// rotateAt is when the certificate of a Secret that is not stale must be made anew.
func rotateAt(secret *corev1.Secret) time.Time {
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

// newAuthority makes the authority of one installation.
func newAuthority(now time.Time) (*certificate.Pair, error) {
	var serial [8]byte
	_, _ = rand.Read(serial[:]) // it never fails
	return certificate.NewAuthority("olm-selfsigned-"+hex.EncodeToString(serial[:]), Validity, now)
}

// issue returns the content of the Secret of a Deployment.
func issue(authority *certificate.Pair, hosts []string, now time.Time) (map[string][]byte, error) {
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

// hostsOf are the names of a Deployment's Service.
func hostsOf(e *csvinfo.Endpoint, namespace string) []string {
	return Hosts(csvinfo.ServiceName(e.Deployment.Name), namespace)
}

func secretOf(e *csvinfo.Endpoint, namespace string) string {
	return fmt.Sprintf("Secret %s/%s", namespace, csvinfo.SecretName(e.Deployment.Name))
}
