package serve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/certificate"
)

// Whom to believe is taken as it is published, and stays as it was when that cannot be read.
func TestPublished(t *testing.T) {
	authority, err := certificate.NewAuthority("front-proxy", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	pem := string(authority.CertificatePEM())
	p := &published{clients: authorities{name: "client-ca-file"}, proxies: authorities{name: "requestheader-client-ca-file"}}
	if _, known := p.proxies.VerifyOptions(); known || p.proxies.CurrentCABundleContent() != nil || p.names.Value() != nil {
		t.Error("something is known before it is published")
	}

	broken := map[string]string{"client-ca-file": pem, "requestheader-client-ca-file": pem, "requestheader-allowed-names": `front-proxy-client`}
	if err := p.set(&corev1.ConfigMap{Data: broken}); err == nil {
		t.Error("names that cannot be read are taken")
	}
	if _, known := p.proxies.VerifyOptions(); known {
		t.Error("all names are let in, for those that are cannot be read")
	}
	if _, known := p.clients.VerifyOptions(); !known {
		t.Error("the authorities of users are not taken")
	}

	sound := map[string]string{
		"requestheader-client-ca-file": pem, "requestheader-allowed-names": `["front-proxy-client"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	if err := p.set(&corev1.ConfigMap{Data: sound}); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if options, known := p.proxies.VerifyOptions(); !known || options.Roots == nil || string(p.proxies.CurrentCABundleContent()) != pem {
			t.Error("the authorities of API servers are not taken")
		}
		got := [][]string{p.names.Value(), p.usernames.Value(), p.extras.Value(), p.groups.Value(), p.uids.Value()}
		if diff := cmp.Diff([][]string{{"front-proxy-client"}, {"X-Remote-User"}, {"X-Remote-Extra-"}, nil, nil}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := p.set(&corev1.ConfigMap{Data: map[string]string{"requestheader-client-ca-file": pem, "requestheader-allowed-names": "{"}}); err == nil {
			t.Error("names that cannot be read are taken")
		}
	}

	if err := p.set(&corev1.ConfigMap{Data: map[string]string{"client-ca-file": "nothing"}}); err == nil {
		t.Error("authorities that are none are taken")
	}
	if _, known := p.clients.VerifyOptions(); !known || len(p.names.Value()) != 1 {
		t.Error("what was known before is forgotten")
	}
}
