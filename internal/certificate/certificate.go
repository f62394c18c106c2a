// Package certificate makes the certificates that this system's own servers and the
// webhooks of extensions serve with, so that no certificate manager is needed: an
// authority, certificates issued by it, and the decision when to renew them.
//
// It is pure: it computes values from values and a given time. Storing them (in Secrets),
// distributing the authority and calling again at [Pair.RenewAt] are the callers' work.
// It is no general PKI: keys are ECDSA P-256, there is one level of authorities, and
// nothing is ever revoked.
package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	// AuthorityValidity is for how long an authority is made. It is renewed after 2/3 of
	// it; then the old one is still trusted for 20 months.
	AuthorityValidity = 5 * 365 * 24 * time.Hour
	// ServingValidity is for how long a certificate is issued when the request does not
	// say. It is renewed after 2/3 of it, so a month is left to notice a failure.
	ServingValidity = 90 * 24 * time.Hour

	// skew is how far back a certificate is valid, for clients whose clock is behind.
	skew = time.Hour
	// maxPEM is the size of a Kubernetes Secret.
	maxPEM = 1 << 20
	// maxCommonName is the limit of X.509 for the subject's common name.
	maxCommonName = 64
)

// Pair is a certificate with its private key.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// NewAuthority makes a self-signed authority that can issue certificates.
func NewAuthority(name string, validity time.Duration, now time.Time) (*Pair, error) {
	if name == "" || len(name) > maxCommonName || validity <= 0 {
		return nil, fmt.Errorf("make certificate authority %q: it needs a name of at most %d bytes and a positive validity", name, maxCommonName)
	}

	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}

	pair, err := create(template, nil)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority %q: %w", name, err)
	}

	return pair, nil
}

// Issue makes a certificate for a server that is reached by the given host names and IP
// addresses. Zero validity means [ServingValidity]; a certificate never outlives its
// authority.
func (p *Pair) Issue(hosts []string, validity time.Duration, now time.Time) (*Pair, error) {
	if len(hosts) == 0 || slices.Contains(hosts, "") {
		return nil, fmt.Errorf("issue certificate for %q: every host needs a name", hosts)
	}
	if validity <= 0 {
		validity = ServingValidity
	}
	if !p.Certificate.IsCA || !now.Before(p.Certificate.NotAfter) {
		return nil, fmt.Errorf("issue certificate for %q: %q is no authority, or expired at %s; make a new one",
			hosts, p.Certificate.Subject.CommonName, p.Certificate.NotAfter.Format(time.RFC3339))
	}

	template := &x509.Certificate{
		NotBefore:             now.Add(-skew),
		NotAfter:              earlier(now.Add(validity), p.Certificate.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}

	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}

	// Clients look at the hosts only; the subject is for people.
	if len(hosts[0]) <= maxCommonName {
		template.Subject.CommonName = hosts[0]
	}

	pair, err := create(template, p)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %q: %w", hosts, err)
	}

	return pair, nil
}

// create signs a template by the authority, or by itself when there is none. The serial
// number is left to the library, which takes a random one.
func create(template *x509.Certificate, authority *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if authority == nil {
		authority = &Pair{Certificate: template, Key: key}
	}

	raw, err := x509.CreateCertificate(rand.Reader, template, authority.Certificate, key.Public(), authority.Key)
	if err != nil {
		return nil, err
	}

	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}

	return &Pair{Certificate: certificate, Key: key}, nil
}

// RenewAt is when the certificate should be replaced: after 2/3 of its time.
func (p *Pair) RenewAt() time.Time {
	lifetime := p.Certificate.NotAfter.Sub(p.Certificate.NotBefore)
	return p.Certificate.NotBefore.Add(lifetime / 3 * 2)
}

// AuthorityStale tells why an authority should be replaced, and "" when it need not be.
func (p *Pair) AuthorityStale(now time.Time) string {
	switch {
	case !p.Certificate.IsCA:
		return "it is not a certificate authority"
	case now.Before(p.Certificate.NotBefore):
		return "it is not valid yet"
	case !now.Before(p.RenewAt()):
		return "it is due for renewal since " + p.RenewAt().UTC().Format(time.RFC3339)
	default:
		return ""
	}
}

// ServingStale tells why a server's certificate should be issued again by the authority for
// the given hosts, and "" when it need not be.
func (p *Pair) ServingStale(authority *x509.Certificate, hosts []string, now time.Time) string {
	for _, host := range hosts {
		if err := p.Certificate.VerifyHostname(host); err != nil {
			return "it is not for the host " + host
		}
	}

	roots := x509.NewCertPool()
	roots.AddCert(authority)
	_, err := p.Certificate.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	switch {
	case !now.Before(p.RenewAt()):
		return "it is due for renewal since " + p.RenewAt().UTC().Format(time.RFC3339)
	case err != nil:
		return "it is not accepted under the authority: " + err.Error()
	default:
		return ""
	}
}

// CertificatePEM returns the certificate, as it stands in tls.crt or ca.crt.
func (p *Pair) CertificatePEM() []byte { return encode(p.Certificate) }

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

// KeyPEM returns the private key in PKCS #8, as it stands in tls.key.
func (p *Pair) KeyPEM() ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// TLS returns the pair as a server's certificate.
func (p *Pair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.Key, Leaf: p.Certificate}
}

// Parse reads a pair that [Pair.CertificatePEM] and [Pair.KeyPEM] wrote, and checks that
// the key belongs to the certificate. Of several certificates the first is taken. Keys of
// other kinds than ECDSA are an error. Errors do not show what was read.
func Parse(certificatePEM, keyPEM []byte) (*Pair, error) {
	certificates, err := ParseBundle(certificatePEM)
	if err != nil {
		return nil, err
	}
	if len(keyPEM) > maxPEM {
		return nil, errors.New("read private key: it is too large")
	}

	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("read private key: it is not PEM")
	}

	key, err := parseKey(block.Bytes)
	if err != nil {
		return nil, err
	}

	public, ok := certificates[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || !public.Equal(key.Public()) {
		return nil, errors.New("read private key: it does not belong to the certificate")
	}

	return &Pair{Certificate: certificates[0], Key: key}, nil
}

func parseKey(raw []byte) (*ecdsa.PrivateKey, error) {
	if key, err := x509.ParseECPrivateKey(raw); err == nil {
		return key, nil
	}

	parsed, err := x509.ParsePKCS8PrivateKey(raw)
	if err != nil {
		return nil, errors.New("read private key: it is neither PKCS #8 nor SEC 1")
	}

	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read private key: it is %T, only ECDSA is used", parsed)
	}

	return key, nil
}

// ParseBundle reads one or more certificates in PEM.
func ParseBundle(data []byte) ([]*x509.Certificate, error) {
	if len(data) > maxPEM {
		return nil, fmt.Errorf("read certificates: %d bytes are too many, at most %d are read", len(data), maxPEM)
	}

	var certificates []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}

		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read certificate %d: %w", len(certificates)+1, err)
		}

		certificates = append(certificates, certificate)
	}

	if len(certificates) == 0 {
		return nil, errors.New("read certificates: there is none in PEM")
	}

	return certificates, nil
}

// Trust returns the bundle that clients should trust while an authority is being replaced: it
// begins with the authorities given, followed by those of the former bundle that have not
// expired, each once. A former bundle that cannot be read is dropped.
func Trust(former []byte, now time.Time, authorities ...*x509.Certificate) []byte {
	all := slices.Clone(authorities)
	if old, err := ParseBundle(former); err == nil {
		all = append(all, old...)
	}

	var out bytes.Buffer
	seen := map[string]bool{}
	for i, certificate := range all {
		expired := i >= len(authorities) && !now.Before(certificate.NotAfter)
		if expired || seen[string(certificate.Raw)] {
			continue
		}
		seen[string(certificate.Raw)] = true
		out.Write(encode(certificate))
	}

	return out.Bytes()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
