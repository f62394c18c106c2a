package serving

import (
	"bytes"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestClockJumps sets the clock after the end of a certificate, and then back before the
// start of the one that follows. Each time another one is issued, which webhooks trust.
func TestClockJumps(t *testing.T) {
	const years = 10 * 365 * 24 * time.Hour
	s := newFixture(t)
	s.install()
	serving, _ := s.waitUntilTrusted("a certificate is issued", anyCertificate)
	for _, to := range []time.Duration{years, -years} {
		former := serving.Data[corev1.TLSCertKey]
		s.advanceClock(time.Now().Add(to))
		renewed, caBundle := s.waitUntilTrusted("another certificate is issued", func(secret *corev1.Secret) error {
			if bytes.Equal(secret.Data[corev1.TLSCertKey], former) {
				return errors.New("it is the former one")
			}
			return anyCertificate(secret)
		})
		if err := s.checkWebhookAnswers(renewed, caBundle); err != nil {
			t.Errorf("%s from now: %v", to, err)
		}

		serving = renewed
	}
}
