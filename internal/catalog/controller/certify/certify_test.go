package certify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/catalog/controller/certify"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

const host = "catalogd-service.test.svc"

// fixture is a namespace in an API server, and a clock.
type fixture struct {
	t         *testing.T
	client    client.Client
	clock     *testclock.FakeClock
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, client: env.Client(t, corev1.AddToScheme), clock: testclock.NewFakeClock(time.Now()), namespace: strings.ToLower(t.Name())}
	if err := s.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *fixture) keeper() *certify.Keeper {
	return &certify.Keeper{Client: s.client, Namespace: s.namespace, Hosts: []string{host}, Clock: s.clock, Holder: &certificate.Holder{}}
}

func (s *fixture) mustKeep(k *certify.Keeper) {
	s.t.Helper()
	if err := k.Ensure(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// servedCertificate returns the current certificate of a keeper.
func (s *fixture) servedCertificate(k *certify.Keeper) *x509.Certificate {
	s.t.Helper()
	c, err := k.Holder.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		s.t.Fatal(err)
	}
	return c.Leaf
}

// trustedAuthorities returns the published authorities.
func (s *fixture) trustedAuthorities() []*x509.Certificate {
	s.t.Helper()
	config := &corev1.ConfigMap{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "catalogd-service-ca"}, config); err != nil {
		s.t.Fatal(err)
	}

	all, err := certificate.ParseBundle([]byte(config.Data["ca.crt"]))
	if err != nil {
		s.t.Fatal(err)
	}

	return all
}

func (s *fixture) secret() *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "catalogd-service-cert"}, secret); err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// verify checks that clients trust the certificate of a keeper.
func (s *fixture) verify(k *certify.Keeper) {
	s.t.Helper()
	pool := x509.NewCertPool()
	for _, authority := range s.trustedAuthorities() {
		pool.AddCert(authority)
	}

	if _, err := s.servedCertificate(k).Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: s.clock.Now()}); err != nil {
		s.t.Errorf("clients do not accept the certificate: %v", err)
	}
}

func TestReplicasThatStartTogetherAgree(t *testing.T) {
	s := newFixture(t)
	keepers := []*certify.Keeper{s.keeper(), s.keeper(), s.keeper(), s.keeper()}
	var all sync.WaitGroup
	errs := make([]error, len(keepers))
	for i, k := range keepers {
		all.Go(func() { errs[i] = k.Ensure(t.Context()) })
	}

	all.Wait()
	for i, k := range keepers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if !s.servedCertificate(k).Equal(s.servedCertificate(keepers[0])) {
			t.Errorf("replica %d serves a different certificate, want that of replica 0", i)
		}
		s.verify(k)
	}

	if n := len(s.trustedAuthorities()); n != 1 {
		t.Errorf("got %d published authorities, want 1", n)
	}

	before := s.secret().ResourceVersion
	s.mustKeep(keepers[0])
	if s.secret().ResourceVersion != before {
		t.Error("got a write of the Secret without a renewal that is due, want none")
	}
}

func TestRenewal(t *testing.T) {
	s := newFixture(t)
	k, other := s.keeper(), s.keeper()
	s.mustKeep(k)
	first := s.servedCertificate(k)

	s.clock.Step(61 * 24 * time.Hour)
	s.mustKeep(k)
	second := s.servedCertificate(k)
	if second.Equal(first) || len(s.trustedAuthorities()) != 1 {
		t.Errorf("after 61 of 90 days: got renewed %v with %d authorities, want a renewed certificate of the same authority", !second.Equal(first), len(s.trustedAuthorities()))
	}

	s.verify(k)
	s.mustKeep(other)
	if !s.servedCertificate(other).Equal(second) {
		t.Error("got a different certificate from the other replica, want the renewed one")
	}

	s.clock.Step(4 * 365 * 24 * time.Hour)
	s.mustKeep(k)
	if n := len(s.trustedAuthorities()); n != 2 {
		t.Errorf("got %d published authorities after the renewal, want the new and the old one", n)
	}

	s.verify(k)
	if _, err := certificate.Parse(s.secret().Data["ca.crt"], s.secret().Data["ca.key"]); err != nil {
		t.Error(err)
	}
}

func TestDamageIsRepaired(t *testing.T) {
	s := newFixture(t)
	k := s.keeper()
	for name, damage := range map[string]func(*corev1.Secret) error{
		"deleted": func(secret *corev1.Secret) error { return s.client.Delete(t.Context(), secret) },
		"broken authority": func(secret *corev1.Secret) error {
			secret.Data["ca.crt"] = []byte("x")
			return s.client.Update(t.Context(), secret)
		},
		"broken certificate": func(secret *corev1.Secret) error {
			secret.Data["tls.crt"] = []byte("x")
			return s.client.Update(t.Context(), secret)
		},
		"other host": func(*corev1.Secret) error {
			elsewhere := s.keeper()
			elsewhere.Hosts = []string{"elsewhere"}
			return elsewhere.Ensure(t.Context())
		},
		"authority not published": func(*corev1.Secret) error {
			return s.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "catalogd-service-ca"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.mustKeep(k)
			if err := damage(s.secret()); err != nil {
				t.Fatal(err)
			}
			s.mustKeep(k)
			s.verify(k)
		})
	}
}

func TestAForeignCertificateIsLeftAlone(t *testing.T) {
	s := newFixture(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "catalogd-service-cert"},
		Data:       map[string][]byte{"tls.crt": []byte("theirs"), "tls.key": []byte("theirs")},
	}
	if err := s.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}

	err := s.keeper().Ensure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "contains a certificate that this program did not issue: delete it, or mount it") {
		t.Errorf("got error %v, want one with \"contains a certificate that this program did not issue: delete it, or mount it\"", err)
	}
	if s.secret().ResourceVersion != secret.ResourceVersion {
		t.Error("got a write of a foreign Secret, want none")
	}
}

func TestStartRunsUntilTheContextEnds(t *testing.T) {
	s := newFixture(t)
	k := s.keeper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Start(ctx) }()
	for !s.clock.HasWaiters() {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}

	first := s.servedCertificate(k)
	s.clock.Step(61 * 24 * time.Hour)
	for !s.clock.HasWaiters() || s.servedCertificate(k).Equal(first) {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMemory(t *testing.T) {
	m, err := certify.NewInMemoryCertificate([]string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	c, err := m.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}

	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(m.CA()) {
		t.Fatal("got no PEM certificate of the authority, want one")
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: pool}); err != nil {
		t.Error(err)
	}
}
