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

// Pair is the files of a certificate and its private key.
type Pair struct{ CertFile, KeyFile string }

// request says what a certificate has to be.
type request struct {
	name         string
	commonName   string
	organisation []string // Kubernetes reads a client's groups from it.
	dnsNames     []string
	addresses    []netip.Addr
	serving      bool // it may prove a server
	client       bool // it may prove a client
}

// certificate reads the certificate of that name, or makes it when there is none that fits.
func (s store) certificate(authority *Authority, want request) (Pair, error) {
	pair := Pair{CertFile: s.certFile(want.name), KeyFile: s.keyFile(want.name)}
	have, _, err := s.readPair(want.name)
	if err != nil {
		return Pair{}, err
	}
	if have != nil && misfit(have, authority.certificate, want, s.now()) == "" {
		return pair, nil
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make the key of certificate %s: %w", want.name, err)
	}

	_, err = s.sign(want.name, want.template(s.now()), authority.certificate, key, authority.key)
	return pair, err
}

func (r request) template(now time.Time) *x509.Certificate {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: r.commonName, Organization: r.organisation},
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: r.usages(),
		DNSNames:    r.dnsNames,
	}

	for _, address := range r.addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	return template
}

func (r request) usages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if r.serving {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if r.client {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

// misfit says why a certificate cannot serve the request any longer, "" when it can.
func misfit(have, authority *x509.Certificate, want request, now time.Time) string {
	switch {
	case have.NotAfter.Sub(now) <= renewBefore:
		return "it ends soon"
	case now.Before(have.NotBefore):
		return "it is not valid yet"
	case !bytes.Equal(have.RawIssuer, authority.RawSubject) || have.CheckSignatureFrom(authority) != nil:
		return "another authority signed it"
	case have.Subject.CommonName != want.commonName || !sameSet(have.Subject.Organization, want.organisation):
		return "it names another subject"
	case !sameSet(have.DNSNames, want.dnsNames):
		return "its DNS names differ"
	case !sameSet(addressesOf(have), want.addresses):
		return "its addresses differ"
	case !sameSet(have.ExtKeyUsage, want.usages()):
		return "it is for another use"
	}

	return ""
}

func addressesOf(certificate *x509.Certificate) []netip.Addr {
	var addresses []netip.Addr
	for _, ip := range certificate.IPAddresses {
		if address, ok := netip.AddrFromSlice(ip); ok {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses
}

func sameSet[T comparable](a, b []T) bool {
	contains := func(set []T) func(T) bool {
		return func(element T) bool { return !slices.Contains(set, element) }
	}
	return !slices.ContainsFunc(a, contains(b)) && !slices.ContainsFunc(b, contains(a))
}
