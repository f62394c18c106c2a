package run

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// TestClassicServersAcceptUpstreamFlags parses the arguments of upstream manifests.
func TestClassicServersAcceptUpstreamFlags(t *testing.T) {
	common := []string{"--debug", "--profiling", "--tls-cert=/srv/tls.crt", "--tls-key=/srv/tls.key", "--client-ca=/srv/ca.crt"}
	for name, args := range map[string][]string{
		"olm-operator":     append([]string{"--namespace=olm", "--watchedNamespaces=", "--writeStatusName=", "--protectedCopiedCSVNamespaces=openshift"}, common...),
		"catalog-operator": append([]string{"--namespace=olm", "--configmapServerImage=a", "--opmImage=b", "--util-image=c", "--set-workload-user-id=true"}, common...),
	} {
		cmd, _, err := NewCommand("v1").Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Errorf("%s %s: %v", name, strings.Join(args, " "), err)
		}
	}
}

// TestClassicServersRefuseFlags runs the servers without a cluster: the error of the flag is reported first.
func TestClassicServersRefuseFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"olm-operator", "--watchedNamespaces=a,b"}, "--watchedNamespaces=a,b: all namespaces are watched"},
		{[]string{"olm-operator", "--interval=-1s"}, "--interval: -1s is negative"},
		{[]string{"catalog-operator", "--bundle-unpack=pod"}, "--bundle-unpack: "},
		{[]string{"catalog-operator", "--bundle-unpack-timeout=-1s"}, "--bundle-unpack-timeout is -1s"},
		{[]string{"catalog-operator", "--client-ca=ca.crt"}, "--client-ca requires --tls-cert"},
	} {
		cmd := NewCommand("v1")
		cmd.SilenceErrors = true
		cmd.SetArgs(test.args)
		if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.args, err, test.want)
		}
	}
}

func TestProfilingServesTheProfiler(t *testing.T) {
	for want, args := range map[string][]string{"localhost:6060": {"--profiling"}, "localhost:7070": {"--profiling", "--pprof-bind-address=localhost:7070"}, "0": nil} {
		s := newOLMOperatorServer()
		cmd := &cobra.Command{}
		o := s.newOptions("v1", cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		cmd.PreRun(cmd, nil)
		if o.pprofAddress != want {
			t.Errorf("%q: got the address %q of the profiler, want %q", args, o.pprofAddress, want)
		}
	}
}

func TestServersPrintTheirVersion(t *testing.T) {
	for _, name := range []string{"olm-operator", "catalog-operator", "package-server"} {
		cmd := NewCommand("v1.2.3")
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs([]string{name, "--version"})
		if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), "v1.2.3") {
			t.Errorf("%s --version: got %q (error %v), want v1.2.3", name, out.String(), err)
		}
	}
}

// TestAdmitCertificates reads metrics with certificates of two authorities and without one.
func TestAdmitCertificates(t *testing.T) {
	ca, key := issued(t, "ca", nil, nil, 0)
	other, otherKey := issued(t, "other", nil, nil, 0)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}

	options := metricsserver.Options{FilterProvider: func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(logr.Logger, http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }), nil
		}, nil
	}}
	admitCertificates(&options, file)
	filter, err := options.FilterProvider(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		t.Fatal(err)
	}

	trusted, _ := issued(t, "reader", ca, key, x509.ExtKeyUsageClientAuth)
	untrusted, _ := issued(t, "reader", other, otherKey, x509.ExtKeyUsageClientAuth)
	for name, test := range map[string]struct {
		certificates []*x509.Certificate
		want         int
	}{
		"trusted": {[]*x509.Certificate{trusted}, http.StatusOK}, "untrusted": {[]*x509.Certificate{untrusted}, http.StatusForbidden}, "none": {nil, http.StatusForbidden},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		request.TLS = &tls.ConnectionState{PeerCertificates: test.certificates}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != test.want {
			t.Errorf("certificate %s: got status %d, want %d", name, answer.Code, test.want)
		}
	}
}
