// Package certificate creates the serving certificates of this system's own servers and of
// extensions' webhooks, so that no certificate manager is needed. It creates certificate
// authorities, issues certificates, and decides when to renew them.
//
// The package is pure: it computes values from values and a given time. The callers store
// them in Secrets, distribute the authority, and call again at [Pair.RenewAt]. It is not a
// general PKI: keys are ECDSA P-256, there is one level of authorities, and nothing is ever
// revoked.
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
	// AuthorityValidity is the default validity of an authority. It is renewed after 2/3 of
	// this time; then the old one is still trusted for 20 months.
	AuthorityValidity = 5 * 365 * 24 * time.Hour
	// ServingValidity is the default validity of a certificate. It is renewed after 2/3 of
	// this time, so a month is left to notice a failure.
	ServingValidity = 90 * 24 * time.Hour

	// clockSkew is how far before its creation a certificate is valid, for clients whose
	// clock is slow.
	clockSkew = time.Hour
	// maxPEMBytes is the maximum size of a Kubernetes Secret.
	maxPEMBytes = 1 << 20
	// maxCommonNameLength is the limit of X.509 for the subject's common name.
	maxCommonNameLength = 64
)

// Pair is a certificate with its private key.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// NewAuthority returns a new self-signed authority that can issue certificates.
func NewAuthority(name string, validity time.Duration, now time.Time) (*Pair, error) {
	if name == "" || len(name) > maxCommonNameLength || validity <= 0 {
		return nil, fmt.Errorf("make certificate authority %q: it needs a name of at most %d bytes and a positive validity", name, maxCommonNameLength)
	}

	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}

	pair, err := createPair(template, nil)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority %q: %w", name, err)
	}

	return pair, nil
}

// Issue returns a new certificate for a server with the given host names and IP addresses.
// Zero validity means [ServingValidity]. The certificate expires no later than its authority.
func (p *Pair) Issue(hosts []string, validity time.Duration, now time.Time) (*Pair, error) {
	if len(hosts) == 0 || slices.Contains(hosts, "") {
		return nil, fmt.Errorf("issue certificate for %q: every host needs a name", hosts)
	}
	if validity <= 0 {
		validity = ServingValidity
	}
	if !p.Certificate.IsCA || !now.Before(p.Certificate.NotAfter) {
		return nil, fmt.Errorf("issue certificate for %q: %q is not an authority, or expired at %s: create a new one",
			hosts, p.Certificate.Subject.CommonName, p.Certificate.NotAfter.Format(time.RFC3339))
	}

	template := &x509.Certificate{
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              earlierTime(now.Add(validity), p.Certificate.NotAfter),
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

	// Clients check only the hosts; the subject is informational.
	if len(hosts[0]) <= maxCommonNameLength {
		template.Subject.CommonName = hosts[0]
	}

	pair, err := createPair(template, p)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %q: %w", hosts, err)
	}

	return pair, nil
}

// createPair creates a key and a certificate that the authority signs, or a self-signed one
// when authority is nil. The library chooses a random serial number.
func createPair(template *x509.Certificate, authority *Pair) (*Pair, error) {
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

// RenewAt returns when the certificate should be renewed: after 2/3 of its validity.
func (p *Pair) RenewAt() time.Time {
	lifetime := p.Certificate.NotAfter.Sub(p.Certificate.NotBefore)
	return p.Certificate.NotBefore.Add(lifetime / 3 * 2)
}

// AuthorityStaleReason returns why an authority should be replaced; empty when it is valid.
func (p *Pair) AuthorityStaleReason(now time.Time) string {
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

// ServingStaleReason returns why the authority should issue a new certificate for the given
// hosts; empty when this one is valid.
func (p *Pair) ServingStaleReason(authority *x509.Certificate, hosts []string, now time.Time) string {
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

// CertificatePEM returns the certificate in the format of tls.crt or ca.crt.
func (p *Pair) CertificatePEM() []byte { return encodeCertificate(p.Certificate) }

func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

// KeyPEM returns the private key in PKCS #8, in the format of tls.key.
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

// Parse parses the output of [Pair.CertificatePEM] and [Pair.KeyPEM], and checks that the key
// belongs to the certificate. It uses the first of several certificates. Other keys than
// ECDSA are an error. Errors do not contain the input.
func Parse(certificatePEM, keyPEM []byte) (*Pair, error) {
	certificates, err := ParseBundle(certificatePEM)
	if err != nil {
		return nil, err
	}
	if len(keyPEM) > maxPEMBytes {
		return nil, errors.New("read private key: it is too large")
	}

	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("read private key: it is not PEM")
	}

	key, err := parsePrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}

	public, ok := certificates[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || !public.Equal(key.Public()) {
		return nil, errors.New("read private key: it does not belong to the certificate")
	}

	return &Pair{Certificate: certificates[0], Key: key}, nil
}

func parsePrivateKey(raw []byte) (*ecdsa.PrivateKey, error) {
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

// ParseBundle parses one or more PEM-encoded certificates. It returns an error when there is none.
func ParseBundle(data []byte) ([]*x509.Certificate, error) {
	if len(data) > maxPEMBytes {
		return nil, fmt.Errorf("read certificates: %d bytes are too many, at most %d are read", len(data), maxPEMBytes)
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
		return nil, errors.New("read certificates: there is no PEM certificate")
	}

	return certificates, nil
}

// TrustBundle returns the bundle that clients should trust while an authority is being replaced. It
// contains the given authorities, followed by those of the former bundle that have not
// expired, without duplicates. It ignores a former bundle that cannot be parsed.
func TrustBundle(former []byte, now time.Time, authorities ...*x509.Certificate) []byte {
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
		out.Write(encodeCertificate(certificate))
	}

	return out.Bytes()
}

func earlierTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
