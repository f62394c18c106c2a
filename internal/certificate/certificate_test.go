package certificate

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newTestAuthority(t testing.TB, at time.Time) *Pair {
	t.Helper()
	pair, err := NewAuthority("test", AuthorityValidity, at)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func issueTestCertificate(t testing.TB, ca *Pair, at time.Time, hosts ...string) *Pair {
	t.Helper()
	pair, err := ca.Issue(hosts, 0, at)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestServe(t *testing.T) {
	at := time.Now()
	ca := newTestAuthority(t, at)
	holder := &Holder{}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: holder.GetCertificate, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()

	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.CertificatePEM()) {
		t.Fatal("the certificate of the authority cannot be added to a pool")
	}

	handshake := func(host string) (*x509.Certificate, error) {
		client, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS13})
		if err != nil {
			return nil, err
		}
		defer func() { _ = client.Close() }()
		return client.ConnectionState().PeerCertificates[0], nil
	}
	if holder.Ready() {
		t.Error("got ready without a certificate, want not ready")
	}
	if _, err := handshake("svc.ns.svc"); err == nil {
		t.Error("got a handshake without a certificate, want an error")
	}
	if _, err := holder.GetCertificate(nil); !errors.Is(err, ErrNone) {
		t.Errorf("got %v, want ErrNone", err)
	}

	for range 2 { // The second certificate replaces the first while the server runs.
		pair := issueTestCertificate(t, ca, at, "svc.ns.svc", "127.0.0.1")
		holder.Set(pair)
		for _, host := range []string{"svc.ns.svc", "127.0.0.1"} {
			got, err := handshake(host)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(pair.Certificate) {
				t.Error("got another certificate, want the current one")
			}
		}
	}

	if _, err := handshake("other.ns.svc"); err == nil {
		t.Error("got a handshake for another host, want an error")
	}
	if !holder.Ready() {
		t.Error("got not ready with a certificate, want ready")
	}
}

func TestEncodeAndParse(t *testing.T) {
	pair := issueTestCertificate(t, newTestAuthority(t, now), now, "a")
	keyPEM, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}

	got, err := Parse(pair.CertificatePEM(), keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Certificate.Equal(pair.Certificate) || !got.Key.Equal(pair.Key) {
		t.Error("got another pair after encoding and parsing, want the same")
	}
	if _, err := tls.X509KeyPair(pair.CertificatePEM(), keyPEM); err != nil {
		t.Errorf("the standard library rejects the encoded pair: %v", err)
	}

	sec1, err := x509.MarshalECPrivateKey(pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(pair.CertificatePEM(), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1})); err != nil {
		t.Error(err)
	}
}

func TestParseRefuses(t *testing.T) {
	pair := issueTestCertificate(t, newTestAuthority(t, now), now, "a")
	certificate := pair.CertificatePEM()
	key, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}

	otherKey, err := issueTestCertificate(t, newTestAuthority(t, now), now, "a").KeyPEM()
	if err != nil {
		t.Fatal(err)
	}

	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	edRaw, err := x509.MarshalPKCS8PrivateKey(edKey)
	if err != nil {
		t.Fatal(err)
	}

	block := func(kind string, raw []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}) }
	for name, test := range map[string]struct {
		certificate, key []byte
		want             string
	}{
		"nothing":             {nil, nil, "there is no PEM certificate"},
		"no certificate":      {key, key, "there is no PEM certificate"},
		"broken certificate":  {block("CERTIFICATE", []byte("x")), key, "read certificate 1"},
		"too large":           {make([]byte, maxPEMBytes+1), key, "too many"},
		"no key":              {certificate, nil, "it is not PEM"},
		"key too large":       {certificate, make([]byte, maxPEMBytes+1), "too large"},
		"broken key":          {certificate, block("PRIVATE KEY", []byte("x")), "neither PKCS #8 nor SEC 1"},
		"key of another":      {certificate, otherKey, "does not belong to the certificate"},
		"key of another kind": {certificate, block("PRIVATE KEY", edRaw), "only ECDSA is used"},
	} {
		_, err := Parse(test.certificate, test.key)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestServingStale(t *testing.T) {
	ca := newTestAuthority(t, now)
	pair := issueTestCertificate(t, ca, now, "a.ns.svc", "b.ns.svc", "10.0.0.1")
	short, err := ca.Issue([]string{"a.ns.svc"}, 3*time.Hour-clockSkew, now)
	if err != nil {
		t.Fatal(err)
	}

	tests := map[string]struct {
		pair      *Pair
		authority *Pair
		hosts     []string
		at        time.Time
		want      string // empty if the pair is not stale
	}{
		"fresh":               {pair, ca, []string{"b.ns.svc", "10.0.0.1"}, now, ""},
		"clock behind":        {pair, ca, nil, now.Add(-clockSkew / 2), ""},
		"before renewal":      {pair, ca, nil, pair.RenewAt().Add(-time.Second), ""},
		"due":                 {pair, ca, nil, pair.RenewAt(), "due for renewal since"},
		"expired":             {pair, ca, nil, now.Add(ServingValidity + 1), "due for renewal since"},
		"not valid yet":       {pair, ca, nil, now.Add(-clockSkew - time.Minute), "not accepted under the authority"},
		"a new host":          {pair, ca, []string{"c.ns.svc"}, now, "not for the host c.ns.svc"},
		"a new address":       {pair, ca, []string{"10.0.0.2"}, now, "not for the host 10.0.0.2"},
		"authority replaced":  {pair, newTestAuthority(t, now), nil, now, "not accepted under the authority"},
		"not a server's":      {ca, ca, nil, now, ""},
		"short, at the start": {short, ca, nil, now.Add(time.Hour - time.Second), ""},
		"short, after 2/3":    {short, ca, nil, now.Add(time.Hour), "due for renewal"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := test.pair.ServingStaleReason(test.authority.Certificate, test.hosts, test.at)
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAuthorityStale(t *testing.T) {
	ca := newTestAuthority(t, now)
	for at, want := range map[time.Time]string{
		now:                              "",
		now.Add(-2 * clockSkew):          "not valid yet",
		ca.RenewAt().Add(-time.Second):   "",
		ca.RenewAt():                     "due for renewal",
		now.Add(AuthorityValidity + 1e9): "due for renewal",
	} {
		if got := ca.AuthorityStaleReason(at); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("at %s: got %q, want %q", at, got, want)
		}
	}

	if got := issueTestCertificate(t, ca, now, "a").AuthorityStaleReason(now); got != "it is not a certificate authority" {
		t.Errorf("a server's certificate: got %q, want that it is not a certificate authority", got)
	}
}

func TestIssueLimits(t *testing.T) {
	ca := newTestAuthority(t, now)
	pair, err := ca.Issue([]string{"a"}, 2*AuthorityValidity, now)
	if err != nil {
		t.Fatal(err)
	}
	if !pair.Certificate.NotAfter.Equal(ca.Certificate.NotAfter) {
		t.Errorf("got validity until %s, want that of the authority, %s", pair.Certificate.NotAfter, ca.Certificate.NotAfter)
	}

	long := strings.Repeat("a", 60) + ".ns.svc"
	if pair := issueTestCertificate(t, ca, now, long); pair.Certificate.VerifyHostname(long) != nil || pair.Certificate.Subject.CommonName != "" {
		t.Error("a certificate for a long host name is not accepted")
	}
	if pair.Certificate.IsCA {
		t.Error("got a server's certificate that is an authority")
	}

	for name, attempt := range map[string]func() (*Pair, error){
		"no hosts":                            func() (*Pair, error) { return ca.Issue(nil, 0, now) },
		"an empty host":                       func() (*Pair, error) { return ca.Issue([]string{"a", ""}, 0, now) },
		"an expired authority":                func() (*Pair, error) { return ca.Issue([]string{"a"}, 0, now.Add(AuthorityValidity)) },
		"a server's certificate as authority": func() (*Pair, error) { return pair.Issue([]string{"a"}, 0, now) },
		"an authority without a name":         func() (*Pair, error) { return NewAuthority("", AuthorityValidity, now) },
		"no validity":                         func() (*Pair, error) { return NewAuthority("a", 0, now) },
	} {
		if pair, err := attempt(); err == nil {
			t.Errorf("%s: got a certificate for %v, want an error", name, pair.Certificate.DNSNames)
		}
	}
}

func TestTrust(t *testing.T) {
	old, current := newTestAuthority(t, now), newTestAuthority(t, now)
	expired := newTestAuthority(t, now.Add(-2*AuthorityValidity))
	former := append(old.CertificatePEM(), expired.CertificatePEM()...)
	got := TrustBundle(append(former, current.CertificatePEM()...), now, current.Certificate)
	want := append(current.CertificatePEM(), old.CertificatePEM()...)
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want the current and the old authority (%d bytes)", len(got), len(want))
	}
	if again := TrustBundle(got, now, current.Certificate); !bytes.Equal(again, got) {
		t.Error("got another bundle after a second call, want the same")
	}
	if got := TrustBundle([]byte("broken"), now, current.Certificate); !bytes.Equal(got, current.CertificatePEM()) {
		t.Error("got an invalid bundle kept, want it dropped")
	}
}

func FuzzParse(f *testing.F) {
	pair := issueTestCertificate(f, newTestAuthority(f, now), now, "a")
	key, err := pair.KeyPEM()
	if err != nil {
		f.Fatal(err)
	}

	f.Add(pair.CertificatePEM(), key)
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		got, err := Parse(certificate, key)
		if (got == nil) != (err != nil) {
			t.Fatalf("got %v and %v", got, err)
		}
		if err == nil && got.ServingStaleReason(got.Certificate, []string{"a"}, now) == "" && !bytes.Contains(certificate, []byte("CERTIFICATE")) {
			t.Fatal("got a certificate that is not in the input")
		}
	})
}
