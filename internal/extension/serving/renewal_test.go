package serving

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/certificate"
)

var (
	epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	hosts = []string{"hooks.ns.svc", "hooks.ns"}
)

// mustPerformStep performs a step on a Secret and returns the resulting state.
func mustPerformStep(t *testing.T, what renewalStep, secret *corev1.Secret, former []byte, now time.Time) secretState {
	t.Helper()
	if err := performRenewalStep(what, secret, parseSecretState(secret, hosts, now), hosts, former, now); err != nil {
		t.Fatal(err)
	}
	return parseSecretState(secret, hosts, now)
}

func TestDecide(t *testing.T) {
	secret := &corev1.Secret{}
	serving := mustPerformStep(t, stepIssue, secret, nil, epoch)
	due := serving.current.RenewAt()
	end := serving.current.Certificate.NotAfter
	renewing := mustPerformStep(t, stepBegin, secret, nil, due)
	lost := renewing
	lost.current = nil
	unknown := renewing
	unknown.renewalBegun = time.Time{}
	for name, test := range map[string]struct {
		state   secretState
		trusted bool
		at      time.Time
		want    renewalStep
		again   time.Time
	}{
		"nothing":                       {secretState{}, true, epoch, stepIssue, epoch},
		"fresh":                         {serving, true, epoch, stepKeep, due},
		"fresh, not injected yet":       {serving, false, epoch, stepKeep, due},
		"due":                           {serving, true, due, stepBegin, due},
		"due, a webhook is behind":      {serving, false, due, stepBegin, due},
		"overdue":                       {serving, true, end.Add(-time.Second), stepBegin, end.Add(-time.Second)},
		"begun":                         {renewing, false, due, stepKeep, due.Add(trustPropagationDelay)},
		"trusted, not settled":          {renewing, true, due.Add(trustPropagationDelay - time.Second), stepKeep, due.Add(trustPropagationDelay)},
		"trusted and settled":           {renewing, true, due.Add(trustPropagationDelay), stepFinish, due.Add(trustPropagationDelay)},
		"settled, a webhook is behind":  {renewing, false, due.Add(trustPropagationDelay), stepKeep, due.Add(2 * trustPropagationDelay)},
		"behind, until the reserve":     {renewing, false, end.Add(-expiryReserve - time.Second), stepKeep, end.Add(-expiryReserve)},
		"behind, the reserve begins":    {renewing, false, end.Add(-expiryReserve), stepFinish, end.Add(-expiryReserve)},
		"begun at an unknown time":      {unknown, true, due, stepFinish, due},
		"the old certificate was lost":  {lost, false, due, stepFinish, due},
		"the old certificate was ended": {lost, true, end, stepFinish, end},
	} {
		if got, again := decideRenewalStep(test.state, test.trusted, test.at); got != test.want || !again.Equal(test.again) {
			t.Errorf("%s: got %s, requeue at %s; want %s, at %s", name, got, again, test.want, test.again)
		}
	}
}

func TestParseCountsAsMissing(t *testing.T) {
	secret := &corev1.Secret{}
	serving := mustPerformStep(t, stepIssue, secret, nil, epoch)
	other := &corev1.Secret{}
	mustPerformStep(t, stepIssue, other, nil, epoch)
	for name, test := range map[string]struct {
		change func(*corev1.Secret)
		hosts  []string
		at     time.Time
		usable bool
	}{
		"as issued":         {func(*corev1.Secret) {}, hosts, epoch, true},
		"fewer hosts":       {func(*corev1.Secret) {}, hosts[:1], epoch, true},
		"another host":      {func(*corev1.Secret) {}, []string{"hooks.elsewhere.svc"}, epoch, false},
		"before the end":    {func(*corev1.Secret) {}, hosts, serving.current.Certificate.NotAfter, true},
		"after the end":     {func(*corev1.Secret) {}, hosts, serving.current.Certificate.NotAfter.Add(time.Second), false},
		"no certificate":    {func(s *corev1.Secret) { delete(s.Data, corev1.TLSCertKey) }, hosts, epoch, false},
		"no key":            {func(s *corev1.Secret) { delete(s.Data, corev1.TLSPrivateKeyKey) }, hosts, epoch, false},
		"no authorities":    {func(s *corev1.Secret) { delete(s.Data, keyAuthorities) }, hosts, epoch, false},
		"other authorities": {func(s *corev1.Secret) { s.Data[keyAuthorities] = other.Data[keyAuthorities] }, hosts, epoch, false},
		"another's key":     {func(s *corev1.Secret) { s.Data[corev1.TLSPrivateKeyKey] = other.Data[corev1.TLSPrivateKeyKey] }, hosts, epoch, false},
	} {
		changed := secret.DeepCopy()
		test.change(changed)
		if got := parseSecretState(changed, test.hosts, test.at); (got.current != nil) != test.usable {
			t.Errorf("%s: got usable %v, want %v", name, got.current != nil, test.usable)
		}
	}
}

// TestTrustIsBounded loses a Secret many times: the number of trusted authorities does not grow
// without a limit, and the newest authorities stay.
func TestTrustIsBounded(t *testing.T) {
	var former, latest []byte
	for i := range 3 * maxAuthorities {
		secret := &corev1.Secret{}
		s := mustPerformStep(t, stepIssue, secret, former, epoch)
		if want := min(i+1, maxAuthorities); len(s.authorities) != want {
			t.Fatalf("after %d losses: got %d trusted authorities, want %d", i, len(s.authorities), want)
		}
		if s.current == nil {
			t.Fatal("the new certificate is not trusted")
		}
		if !bytes.Contains(secret.Data[keyAuthorities], latest) {
			t.Error("the last authority is no longer trusted")
		}

		former = secret.Data[keyAuthorities]
		latest = (&certificate.Pair{Certificate: s.authorities[0]}).CertificatePEM()
	}

	secret := &corev1.Secret{Data: map[string][]byte{}}
	mustPerformStep(t, stepIssue, secret, former, epoch)
	if s := mustPerformStep(t, stepBegin, secret, former, epoch); len(s.authorities) != 2 || s.current == nil || s.next == nil {
		t.Errorf("got %d authorities after a renewal, want the current and the next", len(s.authorities))
	}
}
