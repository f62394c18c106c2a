package serving

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/certificate"
)

// Keys of the Secret beside tls.crt and tls.key.
const (
	// keyAuthorities holds what the certificate is trusted by, in PEM: during a renewal
	// and after it the new and the old authority.
	keyAuthorities = "ca.crt"
	// keyNextCertificate and keyNextKey hold the pair that waits for being trusted.
	keyNextCertificate, keyNextKey = "next.crt", "next.key"
)

const (
	// annotationService stands on Secrets that are issued here, and names their Service.
	// It also survives a backup and its restoration, which owner references do not.
	annotationService = "mainstay.dev/serving-certificate-of"
	// annotationRenewing says since when the next pair waits, in RFC 3339.
	annotationRenewing = "mainstay.dev/renewal-begun"
)

const (
	// settling is how long API servers are given to notice a new authority before a
	// certificate of it is used. They watch, so that it is mostly less than a second.
	settling = 5 * time.Minute
	// reserve is how long before the end of a certificate the next is used even if some
	// webhooks do not trust it yet. It covers the minutes until the pods see the Secret.
	reserve = 24 * time.Hour
	// maxAuthorities bounds what is trusted. A renewal leaves two; more come together
	// only when the Secret is lost time and again.
	maxAuthorities = 6
)

// state is what a Secret holds.
type state struct {
	// current is nil when there is no usable certificate.
	current *certificate.Pair
	// next is nil outside of a renewal.
	next        *certificate.Pair
	authorities []*x509.Certificate
	// begun is when next was made; the zero time when that is not known.
	begun time.Time
}

// parse reads a Secret. What cannot be read, or is no certificate for the hosts that is
// valid now, counts as missing.
func parse(secret *corev1.Secret, hosts []string, now time.Time) state {
	var s state
	s.authorities, _ = certificate.ParseBundle(secret.Data[keyAuthorities])
	usable := func(certificateKey, keyKey string) *certificate.Pair {
		pair, err := certificate.Parse(secret.Data[certificateKey], secret.Data[keyKey])
		if err != nil || authorityOf(pair, s.authorities, hosts, now) == nil {
			return nil
		}
		return pair
	}

	s.current = usable(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	s.next = usable(keyNextCertificate, keyNextKey)
	s.begun, _ = time.Parse(time.RFC3339, secret.Annotations[annotationRenewing])

	return s
}

// authorityOf returns the authority under which a pair is accepted for all hosts, or nil.
// That it is due for renewal does not count against it.
func authorityOf(pair *certificate.Pair, authorities []*x509.Certificate, hosts []string, now time.Time) *x509.Certificate {
	for _, host := range hosts {
		if pair.Certificate.VerifyHostname(host) != nil {
			return nil
		}
	}

	for _, authority := range authorities {
		roots := x509.NewCertPool()
		roots.AddCert(authority)
		_, err := pair.Certificate.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err == nil {
			return authority
		}
	}

	return nil
}

// act is what is to be done with a Secret.
type act int

const (
	// keep it as it is.
	keep act = iota
	// issue a certificate and use it at once: there is none to be careful with.
	issue
	// begin a renewal: make the next pair and have it trusted.
	begin
	// finish a renewal: use the next pair.
	finish
)

func (a act) String() string {
	return [...]string{keep: "keep", issue: "issue", begin: "begin renewal", finish: "finish renewal"}[a]
}

// decide says what is to be done, and when to look again if nothing changes before.
// trusted says whether every webhook has the Secret's authorities.
func decide(s state, trusted bool, now time.Time) (act, time.Time) {
	switch {
	case s.current == nil && s.next != nil:
		return finish, now
	case s.current == nil:
		return issue, now
	case s.next == nil && now.Before(s.current.RenewAt()):
		return keep, s.current.RenewAt()
	case s.next == nil:
		return begin, now
	}

	end := s.current.Certificate.NotAfter.Add(-reserve)
	switch settled := s.begun.Add(settling); {
	case !now.Before(end):
		return finish, now
	case now.Before(settled):
		return keep, earlier(settled, end)
	case !trusted:
		return keep, earlier(now.Add(settling), end)
	default:
		return finish, now
	}
}

// perform changes a Secret as decided. former is what webhooks trusted so far, in PEM;
// it is for pods that still use a certificate which the Secret has lost.
func perform(what act, secret *corev1.Secret, s state, hosts []string, former []byte, now time.Time) error {
	switch what {
	case issue:
		pair, authority, err := newPair(hosts, now)
		if err != nil {
			return err
		}
		former = slices.Concat(secret.Data[keyAuthorities], former)
		if err := setPair(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, pair); err != nil {
			return err
		}
		secret.Data[keyAuthorities] = trust(former, now, authority)
	case begin:
		pair, authority, err := newPair(hosts, now)
		if err != nil {
			return err
		}
		if err := setPair(secret, keyNextCertificate, keyNextKey, pair); err != nil {
			return err
		}

		// Authorities of earlier certificates are no longer used and go here.
		secret.Data[keyAuthorities] = trust(nil, now, authority, authorityOf(s.current, s.authorities, hosts, now))
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}

		secret.Annotations[annotationRenewing] = now.UTC().Format(time.RFC3339)
		return nil
	case finish:
		if err := setPair(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, s.next); err != nil {
			return err
		}
	default:
		return nil
	}

	delete(secret.Data, keyNextCertificate)
	delete(secret.Data, keyNextKey)
	delete(secret.Annotations, annotationRenewing)

	return nil
}

// newPair makes a certificate and the authority that signs it and nothing else.
func newPair(hosts []string, now time.Time) (pair *certificate.Pair, authority *x509.Certificate, err error) {
	signer, err := certificate.NewAuthority("mainstay-webhooks", certificate.ServingValidity, now)
	if err != nil {
		return nil, nil, err
	}
	pair, err = signer.Issue(hosts, certificate.ServingValidity, now)
	return pair, signer.Certificate, err
}

func setPair(secret *corev1.Secret, certificateKey, keyKey string, pair *certificate.Pair) error {
	key, err := pair.KeyPEM()
	if err != nil {
		return err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}

	secret.Data[certificateKey], secret.Data[keyKey] = pair.CertificatePEM(), key
	return nil
}

// trust returns the authorities followed by those of the former bundle that have not
// expired, in PEM, of all the first few.
func trust(former []byte, now time.Time, authorities ...*x509.Certificate) []byte {
	all, err := certificate.ParseBundle(certificate.Trust(former, now, authorities...))
	if err != nil || len(all) <= maxAuthorities {
		return certificate.Trust(former, now, authorities...)
	}
	return certificate.Trust(nil, now, all[:maxAuthorities]...)
}

// sameBundle reports whether two bundles are the same but for space around them.
func sameBundle(a, b []byte) bool {
	return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
