package migration

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/render"
)

func TestVerifyCertificate(t *testing.T) {
	now := time.Now()
	newPair := func() (authority, serving *certificate.Pair) {
		authority, err := certificate.NewAuthority("test", time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		serving, err = authority.Issue([]string{"service.ns.svc"}, time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		return authority, serving
	}
	authority, serving := newPair()
	other, _ := newPair()

	for name, test := range map[string]struct {
		authorities, certificate []byte
		want                     string
	}{
		"its authority":     {authority.CertificatePEM(), serving.CertificatePEM(), ""},
		"two authorities":   {append(other.CertificatePEM(), authority.CertificatePEM()...), serving.CertificatePEM(), ""},
		"another authority": {other.CertificatePEM(), serving.CertificatePEM(), "does not verify"},
		"no authority":      {nil, serving.CertificatePEM(), "no authority yet"},
		"no certificate":    {authority.CertificatePEM(), nil, "is missing"},
		"a placeholder":     {[]byte("\n"), serving.CertificatePEM(), "no authority yet"},
	} {
		t.Run(name, func(t *testing.T) {
			got := verifyCertificate(test.authorities, test.certificate)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCABundles(t *testing.T) {
	for text, want := range map[string][]string{
		`{"kind":"ValidatingWebhookConfiguration","webhooks":[{"clientConfig":{"caBundle":"YQ=="}},{"clientConfig":{}}]}`: {"a", ""},
		`{"kind":"CustomResourceDefinition","spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"Yg=="}}}}}`:      {"b"},
		`{"kind":"CustomResourceDefinition","spec":{"conversion":{"strategy":"None"}}}`:                                   nil,
	} {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, bundle := range caBundlesOf(u) {
			got = append(got, string(bundle))
		}
		if strings.Join(got, ",") != strings.Join(want, ",") || len(got) != len(want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestFindServingSecret(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"no webhooks":             {nil, ""},
		"built-in issuer":         {map[string]string{render.AnnotationCAFrom: "ns/serving"}, "ns/serving"},
		"cert-manager":            {map[string]string{render.AnnotationInjectCAFrom: "ns/cert", render.AnnotationCAIssuer: string(render.IssuerCertManager)}, "ns/cert"},
		"set by the author":       {map[string]string{render.AnnotationInjectCAFrom: "system/cert"}, ""},
		"set in addition to ours": {map[string]string{render.AnnotationInjectCAFrom: "system/cert", render.AnnotationCAFrom: "ns/serving"}, "ns/serving"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := findServingSecret(test.annotations); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
