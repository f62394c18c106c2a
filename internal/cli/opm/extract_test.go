package opm_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A bundle is written to an existing ConfigMap in the cluster of the kubeconfig.
func TestBundleExtract(t *testing.T) {
	stored := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kettle"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/olm/configmaps/kettle" {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Message: `configmaps "pot" not found`})
			return
		}
		if r.Method == http.MethodPut {
			if err := json.NewDecoder(r.Body).Decode(&stored); err != nil {
				t.Error(err)
			}
		}
		_ = json.NewEncoder(w).Encode(stored)
	}))

	t.Cleanup(server.Close)
	dir := t.TempDir()
	write(t, dir, "kubeconfig", `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "`+server.URL+`"}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
current-context: test
`)

	t.Setenv("CONTAINER_IMAGE", "registry.example.com/kettle:v0.1.0")
	line := "alpha bundle extract -m testdata/bundle/ -n olm -k " + filepath.Join(dir, "kubeconfig")
	if r := run(t, line+" -c kettle"); r.code != 0 || r.out+r.errors != "" {
		t.Fatal(r)
	}
	if stored.Annotations["olm.sourceImage"] != "registry.example.com/kettle:v0.1.0" || !strings.Contains(stored.Data["kettle.clusterserviceversion.yaml"], "kettle.v0.1.0") {
		t.Errorf("stored: %+v", stored)
	}
	if r := run(t, line+" -c kettle -z"); r.code != 0 || stored.Annotations["olm.contentEncoding"] != "gzip+base64" {
		t.Error(r)
	}

	for _, c := range []struct{ line, want string }{
		{line + " -c pot", `Error: error loading manifests from directory: reading ConfigMap olm/pot: configmaps "pot" not found`},
		{line + " -c kettle -l 100", "Error: error loading manifests from directory: bundle files exceeded 100 bytes limit"},
		{"alpha bundle extract -c kettle -m testdata/nothing", "Error: error loading manifests from directory: "},
		{"alpha bundle extract -c kettle -m testdata/bundle -k " + dir + "/none", "Error: kubeconfig: "},
	} {
		if r := run(t, c.line); r.code != 1 || !strings.HasPrefix(r.errors, c.want) {
			t.Error(r)
		}
	}
}
