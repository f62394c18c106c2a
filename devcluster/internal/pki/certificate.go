package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Pair is the paths of a certificate and its private key.
type Pair struct{ CertFile, KeyFile string }

// certificateRequest is the required content of a certificate.
type certificateRequest struct {
	name         string
	commonName   string
	organisation []string // Kubernetes reads a client's groups from it.
	dnsNames     []string
	addresses    []netip.Addr
	serving      bool // for server authentication
	client       bool // for client authentication
}

// ensureCertificate returns the certificate with the name of the request. It issues a new one if none exists or the
// existing one does not match the request.
func (s store) ensureCertificate(authority *Authority, want certificateRequest) (Pair, error) {
	pair := Pair{CertFile: s.certificatePath(want.name), KeyFile: s.privateKeyPath(want.name)}
	have, _, err := s.readCertificateAndKey(want.name)
	if err != nil {
		return Pair{}, err
	}
	if have != nil && mismatchReason(have, authority.certificate, want, s.now()) == "" {
		return pair, nil
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("create the key of certificate %s: %w", want.name, err)
	}

	_, err = s.issueCertificate(want.name, want.newTemplate(s.now()), authority.certificate, key, authority.key)
	return pair, err
}

func (r certificateRequest) newTemplate(now time.Time) *x509.Certificate {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: r.commonName, Organization: r.organisation},
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(certificateLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: r.extendedKeyUsages(),
		DNSNames:    r.dnsNames,
	}

	for _, address := range r.addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	return template
}

func (r certificateRequest) extendedKeyUsages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if r.serving {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if r.client {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

// mismatchReason returns why a certificate no longer satisfies the request, or "" if it does.
func mismatchReason(have, authority *x509.Certificate, want certificateRequest, now time.Time) string {
	switch {
	case have.NotAfter.Sub(now) <= renewBefore:
		return "it ends soon"
	case now.Before(have.NotBefore):
		return "it is not valid yet"
	case !bytes.Equal(have.RawIssuer, authority.RawSubject) || have.CheckSignatureFrom(authority) != nil:
		return "another authority signed it"
	case have.Subject.CommonName != want.commonName || !equalAsSets(have.Subject.Organization, want.organisation):
		return "it names another subject"
	case !equalAsSets(have.DNSNames, want.dnsNames):
		return "its DNS names differ"
	case !equalAsSets(certificateAddresses(have), want.addresses):
		return "its addresses differ"
	case !equalAsSets(have.ExtKeyUsage, want.extendedKeyUsages()):
		return "it is for another use"
	}

	return ""
}

func certificateAddresses(certificate *x509.Certificate) []netip.Addr {
	var addresses []netip.Addr
	for _, ip := range certificate.IPAddresses {
		if address, ok := netip.AddrFromSlice(ip); ok {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses
}

func equalAsSets[T comparable](a, b []T) bool {
	contains := func(set []T) func(T) bool {
		return func(element T) bool { return !slices.Contains(set, element) }
	}
	return !slices.ContainsFunc(a, contains(b)) && !slices.ContainsFunc(b, contains(a))
}
