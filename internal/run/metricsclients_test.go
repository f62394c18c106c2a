package run

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// issued returns a certificate, which is self-signed if parent is nil.
func issued(t *testing.T, name string, parent *x509.Certificate, key *ecdsa.PrivateKey, usage x509.ExtKeyUsage) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	if parent == nil {
		parent, key, template.IsCA, template.BasicConstraintsValid, template.ExtKeyUsage = template, own, true, true, nil
	}

	der, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}

	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}

	return certificate, own
}

func TestAuthorizeMetricsClient(t *testing.T) {
	ca, key := issued(t, "ca", nil, nil, 0)
	other, otherKey := issued(t, "other", nil, nil, 0)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}

	of := func(name string, parent *x509.Certificate, key *ecdsa.PrivateKey, usage x509.ExtKeyUsage) *tls.ConnectionState {
		certificate, _ := issued(t, name, parent, key, usage)
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
	}
	good := of(metricsReaderName, ca, key, x509.ExtKeyUsageClientAuth)
	cases := map[string]struct {
		connection *tls.ConnectionState
		file       string
		want       int
	}{
		"good":                   {good, file, http.StatusOK},
		"no TLS":                 {nil, file, http.StatusUnauthorized},
		"no certificate":         {&tls.ConnectionState{}, file, http.StatusUnauthorized},
		"another name":           {of("system:serviceaccount:default:default", ca, key, x509.ExtKeyUsageClientAuth), file, http.StatusForbidden},
		"another authority":      {of(metricsReaderName, other, otherKey, x509.ExtKeyUsageClientAuth), file, http.StatusUnauthorized},
		"a server's certificate": {of(metricsReaderName, ca, key, x509.ExtKeyUsageServerAuth), file, http.StatusUnauthorized},
		"no authorities":         {good, file + ".none", http.StatusUnauthorized},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := authorizeMetricsClient(c.connection, c.file, logr.Discard()); got != c.want {
				t.Errorf("got status %d, want %d", got, c.want)
			}
		})
	}
}

func TestOpenPayload(t *testing.T) {
	dir := t.TempDir()
	if _, err := openPayload(dir); err == nil {
		t.Error("a folder without a payload is accepted")
	}
	if err := os.MkdirAll(filepath.Join(dir, "release-manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "release-manifests", "release-metadata"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if files, err := openPayload(dir); err != nil || files == nil {
		t.Errorf("a folder with a payload: got error %v", err)
	}
	if files, err := openPayload(""); err != nil || files != nil {
		t.Errorf("without a folder: got a release image (error %v)", err)
	}
}

func TestParseServiceHost(t *testing.T) {
	for host, want := range map[string]client.ObjectKey{
		"thanos-querier.openshift-monitoring.svc.cluster.local": {Namespace: "openshift-monitoring", Name: "thanos-querier"},
		"prometheus.monitoring.svc":                             {Namespace: "monitoring", Name: "prometheus"},
		"prometheus.example.com":                                {},
		"localhost":                                             {},
	} {
		if got, ok := parseServiceHost(host); got != want || ok != (want != client.ObjectKey{}) {
			t.Errorf("%s: got Service %v, %v", host, got, ok)
		}
	}
}

// The operator reaches Prometheus by the cluster IP of its Service.
func TestResolveClusterIP(t *testing.T) {
	c := env.Client(t, func(s *runtime.Scheme) error { return corev1.AddToScheme(s) })
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "prometheus-"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9091}}},
	}
	if err := c.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}

	querier := (&clusterOptions{prometheus: "https://" + service.Name + ".default.svc:9091"}).newPrometheus(c)
	if got, err := querier.Dial(t.Context()); err != nil || got != service.Spec.ClusterIP+":9091" {
		t.Errorf("got the address %q, error %v", got, err)
	}
	if (&clusterOptions{prometheus: "https://prometheus.example.com"}).newPrometheus(c).Dial != nil || (&clusterOptions{}).newPrometheus(c) != nil {
		t.Error("an address that is not a Service, or an empty one, is looked up in the cluster")
	}
}
