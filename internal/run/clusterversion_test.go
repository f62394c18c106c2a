package run

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// writePayload creates the payload directory of a release with a ConfigMap as its only manifest.
func writePayload(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"release-manifests/release-metadata": `{"kind":"cincinnati-metadata-v0","version":"1.0.0"}`,
		"release-manifests/image-references": `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.0.0"}}`,
		"manifests/0000_00_cvo_00_note.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: note, namespace: openshift-cluster-version,
annotations: {include.release.openshift.io/self-managed-high-availability: "true"}}, data: {image: "{{.ReleaseImage}}"}}`,
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// The operator reconciles a cluster that contains only a ClusterVersion to its release, and serves its metrics to
// the authorized client.
func TestClusterVersionOperator(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme, coordinationv1.AddToScheme, configv1.AddToScheme)
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	cv.Spec.ClusterID = "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11"
	if err := c.Create(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}

	ca, key := issued(t, "ca", nil, nil, 0)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := NewCommand("v1.2.3")
	cmd.SetArgs([]string{
		"cluster-version-operator", "--kubeconfig", kubeconfig(t), "--release-image", "registry.example.com/releases@sha256:01", "--payload-dir", writePayload(t),
		"--cache-dir", t.TempDir(), "--health-probe-bind-address", "0", "--listen", address, "--metrics-ca-bundle-file", caFile, "--leader-elect",
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	t.Cleanup(stop)
	env.Eventually(t, "the release is applied", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cv), cv); err != nil {
			return err
		}
		if len(cv.Status.History) != 1 || cv.Status.History[0].State != configv1.CompletedUpdate {
			return fmt.Errorf("got the status %+v", cv.Status)
		}
		return nil
	})

	var note corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "openshift-cluster-version", Name: "note"}, &note); err != nil || note.Data["image"] != "registry.example.com/releases@sha256:01" {
		t.Errorf("got the object %v of the release, error %v", note.Data, err)
	}

	for name, test := range map[string]struct {
		client string
		want   int
	}{"nobody": {"", http.StatusUnauthorized}, "somebody": {"somebody", http.StatusForbidden}, "Prometheus": {metricsReaderName, http.StatusOK}} {
		status, text := metricsAs(t, address, test.client, ca, key)
		if status != test.want {
			t.Errorf("%s: got %d, want %d: %s", name, status, test.want, text)
		}
		if has := strings.Contains(text, `cluster_version{from_version="1.0.0",image="registry.example.com/releases@sha256:01",type="cluster",version="1.0.0"}`); has != (test.want == http.StatusOK) {
			t.Errorf("%s: got metrics of the cluster's version: %v", name, has)
		}
	}

	// While the operator runs, it holds the lease and another process waits for it. When it stops, it
	// releases the lease, so that its successor does not have to wait until the lease expires.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: defaultClusterVersionNamespace, Name: "cluster-version-operator.olm.operatorframework.io"}}
	for _, isHeld := range []bool{true, false} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			t.Fatal(err)
		}
		if (ptr.Deref(lease.Spec.HolderIdentity, "") != "") != isHeld || isHeld && ptr.Deref(lease.Spec.LeaseDurationSeconds, 0) != 137 {
			t.Errorf("got the lease %+v, held %v", lease.Spec, isHeld)
		}
		stop()
	}
}

// metricsAs reads metrics with a client certificate for a name, or without a certificate.
func metricsAs(t *testing.T, address, name string, ca *x509.Certificate, key *ecdsa.PrivateKey) (int, string) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- the server's certificate is not part of this test
	if name != "" {
		certificate, own := issued(t, name, ca, key, x509.ExtKeyUsageClientAuth)
		config.Certificates = []tls.Certificate{{Certificate: [][]byte{certificate.Raw}, PrivateKey: own}}
	}

	httpClient := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	var status int
	var text []byte
	// The server of metrics starts concurrently with the controllers, after it has issued its certificate.
	env.Eventually(t, "the server of metrics responds", func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			return err
		}
		answer, err := httpClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		status = answer.StatusCode
		text, err = io.ReadAll(answer.Body)
		return err
	})

	return status, string(text)
}

func TestClusterVersionOperatorRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--always-enable-capabilities Console": `"Console" is not allowed`,
		"--payload-dir " + t.TempDir():         "is not the payload of a release",
	} {
		cmd := NewCommand("v1.2.3")
		cmd.SetArgs(append([]string{"cluster-version-operator", "--kubeconfig", kubeconfig(t), "--listen", "0", "--health-probe-bind-address", "0"}, strings.Fields(args)...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q in it", args, err, want)
		}
	}
}
