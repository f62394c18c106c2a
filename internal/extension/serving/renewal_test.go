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

// perfect performs a step on a Secret and gives what it holds then.
func perfect(t *testing.T, what act, secret *corev1.Secret, former []byte, now time.Time) state {
	t.Helper()
	if err := perform(what, secret, parse(secret, hosts, now), hosts, former, now); err != nil {
		t.Fatal(err)
	}
	return parse(secret, hosts, now)
}

func TestDecide(t *testing.T) {
	secret := &corev1.Secret{}
	serving := perfect(t, issue, secret, nil, epoch)
	due := serving.current.RenewAt()
	end := serving.current.Certificate.NotAfter
	renewing := perfect(t, begin, secret, nil, due)
	lost := renewing
	lost.current = nil
	unknown := renewing
	unknown.begun = time.Time{}
	for name, test := range map[string]struct {
		state   state
		trusted bool
		at      time.Time
		want    act
		again   time.Time
	}{
		"nothing":                       {state{}, true, epoch, issue, epoch},
		"fresh":                         {serving, true, epoch, keep, due},
		"fresh, not injected yet":       {serving, false, epoch, keep, due},
		"due":                           {serving, true, due, begin, due},
		"due, a webhook is behind":      {serving, false, due, begin, due},
		"overdue":                       {serving, true, end.Add(-time.Second), begin, end.Add(-time.Second)},
		"begun":                         {renewing, false, due, keep, due.Add(settling)},
		"trusted, not settled":          {renewing, true, due.Add(settling - time.Second), keep, due.Add(settling)},
		"trusted and settled":           {renewing, true, due.Add(settling), finish, due.Add(settling)},
		"settled, a webhook is behind":  {renewing, false, due.Add(settling), keep, due.Add(2 * settling)},
		"behind, until the reserve":     {renewing, false, end.Add(-reserve - time.Second), keep, end.Add(-reserve)},
		"behind, the reserve begins":    {renewing, false, end.Add(-reserve), finish, end.Add(-reserve)},
		"begun at an unknown time":      {unknown, true, due, finish, due},
		"the old certificate was lost":  {lost, false, due, finish, due},
		"the old certificate was ended": {lost, true, end, finish, end},
	} {
		if got, again := decide(test.state, test.trusted, test.at); got != test.want || !again.Equal(test.again) {
			t.Errorf("%s: %s, again at %s; want %s, at %s", name, got, again, test.want, test.again)
		}
	}
}

func TestParseCountsAsMissing(t *testing.T) {
	secret := &corev1.Secret{}
	serving := perfect(t, issue, secret, nil, epoch)
	other := &corev1.Secret{}
	perfect(t, issue, other, nil, epoch)
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
		if got := parse(changed, test.hosts, test.at); (got.current != nil) != test.usable {
			t.Errorf("%s: usable is %v, want %v", name, got.current != nil, test.usable)
		}
	}
}

// TestTrustIsBounded loses a Secret time and again: what webhooks trust does not grow
// for ever, and the newest authorities stay.
func TestTrustIsBounded(t *testing.T) {
	var former, latest []byte
	for i := range 3 * maxAuthorities {
		secret := &corev1.Secret{}
		s := perfect(t, issue, secret, former, epoch)
		if want := min(i+1, maxAuthorities); len(s.authorities) != want {
			t.Fatalf("after %d losses %d authorities are trusted, want %d", i, len(s.authorities), want)
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
	perfect(t, issue, secret, former, epoch)
	if s := perfect(t, begin, secret, former, epoch); len(s.authorities) != 2 || s.current == nil || s.next == nil {
		t.Errorf("a renewal leaves %d authorities, want the current and the next", len(s.authorities))
	}
}
