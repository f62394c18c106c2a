package serving

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// Keys of the Secret in addition to tls.crt and tls.key.
const (
	keyAuthorities = render.KeyServingAuthorities
	// keyNextCertificate and keyNextKey hold the next pair, until its authority is trusted.
	keyNextCertificate, keyNextKey = "next.crt", "next.key"
)

const (
	annotationService = render.AnnotationServingCertificateOf
	// annotationRenewing is the time when the renewal began, in RFC 3339.
	annotationRenewing = "mainstay.dev/renewal-begun"
)

const (
	// trustPropagationDelay is how long API servers have to observe a new authority before its
	// certificate is used. They watch, so it mostly takes less than a second.
	trustPropagationDelay = 5 * time.Minute
	// expiryReserve is how long before the expiry of a certificate the next one is used even if
	// some webhooks do not trust it yet. It covers the minutes until the pods see the Secret.
	expiryReserve = 24 * time.Hour
	// maxAuthorities limits the trusted authorities. A renewal leaves two. More accumulate only if
	// the Secret is lost repeatedly.
	maxAuthorities = 6
)

// secretState is the parsed content of a Secret.
type secretState struct {
	// current is the certificate in use. It is nil if none is usable.
	current *certificate.Pair
	// next is the certificate that waits for trust. It is nil outside of a renewal.
	next        *certificate.Pair
	authorities []*x509.Certificate
	// renewalBegun is when next was issued. It is zero if that is not known.
	renewalBegun time.Time
}

// parseSecretState parses a Secret. A pair that cannot be parsed, or is not valid now for the hosts,
// counts as missing.
func parseSecretState(secret *corev1.Secret, hosts []string, now time.Time) secretState {
	var s secretState
	s.authorities, _ = certificate.ParseBundle(secret.Data[keyAuthorities])
	usable := func(certificateKey, keyKey string) *certificate.Pair {
		pair, err := certificate.Parse(secret.Data[certificateKey], secret.Data[keyKey])
		if err != nil || findVerifyingAuthority(pair, s.authorities, hosts, now) == nil {
			return nil
		}
		return pair
	}

	s.current = usable(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	s.next = usable(keyNextCertificate, keyNextKey)
	s.renewalBegun, _ = time.Parse(time.RFC3339, secret.Annotations[annotationRenewing])

	return s
}

// findVerifyingAuthority returns the authority that verifies a pair for all hosts, or nil. It
// accepts a pair that is due for renewal.
func findVerifyingAuthority(pair *certificate.Pair, authorities []*x509.Certificate, hosts []string, now time.Time) *x509.Certificate {
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

// renewalStep is the next step of the renewal of a Secret.
type renewalStep int

const (
	// stepKeep leaves the Secret unchanged.
	stepKeep renewalStep = iota
	// stepIssue issues a certificate and uses it immediately, because there is none to replace.
	stepIssue
	// stepBegin begins a renewal: it issues the next pair and adds its authority.
	stepBegin
	// stepFinish finishes a renewal: it uses the next pair.
	stepFinish
)

// String implements fmt.Stringer.
func (a renewalStep) String() string {
	return [...]string{stepKeep: "keep", stepIssue: "issue", stepBegin: "begin renewal", stepFinish: "finish renewal"}[a]
}

// decideRenewalStep returns the next step, and when to decide again if nothing changes before.
// trusted states whether every webhook has the Secret's authorities.
func decideRenewalStep(s secretState, trusted bool, now time.Time) (renewalStep, time.Time) {
	switch {
	case s.current == nil && s.next != nil:
		return stepFinish, now
	case s.current == nil:
		return stepIssue, now
	case s.next == nil && now.Before(s.current.RenewAt()):
		return stepKeep, s.current.RenewAt()
	case s.next == nil:
		return stepBegin, now
	}

	end := s.current.Certificate.NotAfter.Add(-expiryReserve)
	switch settled := s.renewalBegun.Add(trustPropagationDelay); {
	case !now.Before(end):
		return stepFinish, now
	case now.Before(settled):
		return stepKeep, earliestTime(settled, end)
	case !trusted:
		return stepKeep, earliestTime(now.Add(trustPropagationDelay), end)
	default:
		return stepFinish, now
	}
}

// performRenewalStep performs the step on a Secret in memory. former is the bundles of the
// webhooks so far, in PEM. It is for pods that still use a certificate which the Secret has lost.
func performRenewalStep(step renewalStep, secret *corev1.Secret, s secretState, hosts []string, former []byte, now time.Time) error {
	switch step {
	case stepIssue:
		pair, authority, err := newCertificatePair(hosts, now)
		if err != nil {
			return err
		}
		former = slices.Concat(secret.Data[keyAuthorities], former)
		if err := setCertificatePair(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, pair); err != nil {
			return err
		}
		secret.Data[keyAuthorities] = mergeAuthorities(former, now, authority)
	case stepBegin:
		pair, authority, err := newCertificatePair(hosts, now)
		if err != nil {
			return err
		}
		if err := setCertificatePair(secret, keyNextCertificate, keyNextKey, pair); err != nil {
			return err
		}

		// Authorities of earlier certificates are no longer used, and are removed here.
		secret.Data[keyAuthorities] = mergeAuthorities(nil, now, authority, findVerifyingAuthority(s.current, s.authorities, hosts, now))
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}

		secret.Annotations[annotationRenewing] = now.UTC().Format(time.RFC3339)
		return nil
	case stepFinish:
		if err := setCertificatePair(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, s.next); err != nil {
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

// newCertificatePair returns a certificate and the authority that signs only that.
func newCertificatePair(hosts []string, now time.Time) (pair *certificate.Pair, authority *x509.Certificate, err error) {
	signer, err := certificate.NewAuthority("mainstay-webhooks", certificate.ServingValidity, now)
	if err != nil {
		return nil, nil, err
	}
	pair, err = signer.Issue(hosts, certificate.ServingValidity, now)
	return pair, signer.Certificate, err
}

func setCertificatePair(secret *corev1.Secret, certificateKey, keyKey string, pair *certificate.Pair) error {
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

// mergeAuthorities returns the authorities, followed by those of the former bundle that have not
// expired, in PEM. It returns at most maxAuthorities.
func mergeAuthorities(former []byte, now time.Time, authorities ...*x509.Certificate) []byte {
	all, err := certificate.ParseBundle(certificate.TrustBundle(former, now, authorities...))
	if err != nil || len(all) <= maxAuthorities {
		return certificate.TrustBundle(former, now, authorities...)
	}
	return certificate.TrustBundle(nil, now, all[:maxAuthorities]...)
}

// equalCABundles reports whether two bundles are equal except for surrounding space.
func equalCABundles(a, b []byte) bool {
	return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
}

func earliestTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
