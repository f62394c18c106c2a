package serve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/certificate"
)

// The published authorities and names are used. They stay unchanged when a later publication is invalid.
func TestAuthConfigMap(t *testing.T) {
	authority, err := certificate.NewAuthority("front-proxy", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	pem := string(authority.CertificatePEM())
	p := &authConfigMap{clientCA: caBundle{name: "client-ca-file"}, proxyCA: caBundle{name: "requestheader-client-ca-file"}}
	if _, known := p.proxyCA.VerifyOptions(); known || p.proxyCA.CurrentCABundleContent() != nil || p.allowedNames.Value() != nil {
		t.Error("got authorities before they were published")
	}

	broken := map[string]string{"client-ca-file": pem, "requestheader-client-ca-file": pem, "requestheader-allowed-names": `front-proxy-client`}
	if err := p.updateSettings(&corev1.ConfigMap{Data: broken}); err == nil {
		t.Error("invalid names are accepted")
	}
	if _, known := p.proxyCA.VerifyOptions(); known {
		t.Error("all names are allowed, because the published ones are invalid")
	}
	if _, known := p.clientCA.VerifyOptions(); !known {
		t.Error("the authorities of users are not used")
	}

	sound := map[string]string{
		"requestheader-client-ca-file": pem, "requestheader-allowed-names": `["front-proxy-client"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	if err := p.updateSettings(&corev1.ConfigMap{Data: sound}); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if options, known := p.proxyCA.VerifyOptions(); !known || options.Roots == nil || string(p.proxyCA.CurrentCABundleContent()) != pem {
			t.Error("the authorities of API servers are not used")
		}
		got := [][]string{p.allowedNames.Value(), p.usernameHeaders.Value(), p.extraHeaderPrefixes.Value(), p.groupHeaders.Value(), p.uidHeaders.Value()}
		if diff := cmp.Diff([][]string{{"front-proxy-client"}, {"X-Remote-User"}, {"X-Remote-Extra-"}, nil, nil}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := p.updateSettings(&corev1.ConfigMap{Data: map[string]string{"requestheader-client-ca-file": pem, "requestheader-allowed-names": "{"}}); err == nil {
			t.Error("invalid names are accepted")
		}
	}

	if err := p.updateSettings(&corev1.ConfigMap{Data: map[string]string{"client-ca-file": "nothing"}}); err == nil {
		t.Error("invalid authorities are accepted")
	}
	if _, known := p.clientCA.VerifyOptions(); !known || len(p.allowedNames.Value()) != 1 {
		t.Error("the former authorities are lost")
	}
}
