package bundleconfigmap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// newBundleFiles returns the files of a bundle.
func newBundleFiles() fstest.MapFS {
	return fstest.MapFS{
		"manifests/csv (1).yaml": {Data: []byte("kind: ClusterServiceVersion\n")},
		"manifests/crd.yaml":     {Data: []byte("kind: CustomResourceDefinition\n")},
		"metadata/annotations.yaml": {Data: []byte(`annotations:
  operators.operatorframework.io.bundle.package.v1: kettle
  operators.operatorframework.io.bundle.channels.v1: stable
  com.example.other: "yes"
`)},
		"metadata/dependencies.yaml": {Data: []byte("dependencies: []\n")},
		"tests/x.yaml":               {Data: []byte("not part of it")},
	}
}

// newFakeAPIServer starts a fake API server with one ConfigMap.
func newFakeAPIServer(t *testing.T, have *corev1.ConfigMap) *rest.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/olm/configmaps/"+have.Name {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Message: "configmaps not found"})
			return
		}
		if r.Method == http.MethodPut {
			*have = corev1.ConfigMap{}
			if err := json.NewDecoder(r.Body).Decode(have); err != nil {
				t.Error(err)
			}
		}
		_ = json.NewEncoder(w).Encode(have)
	}))

	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func TestWrite(t *testing.T) {
	have := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kettle", ResourceVersion: "7", Annotations: map[string]string{"mine": "stays"}},
		Data:       map[string]string{"old": "gone"},
	}
	write := &Write{Config: newFakeAPIServer(t, have), Namespace: "olm", Name: "kettle", Bundle: newBundleFiles(), Limit: 1 << 20, Image: "example.com/kettle:v1"}
	if err := write.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kettle", ResourceVersion: "7", Annotations: map[string]string{
			"mine":            "stays",
			"olm.sourceImage": "example.com/kettle:v1",
			"operators.operatorframework.io.bundle.package.v1":  "kettle",
			"operators.operatorframework.io.bundle.channels.v1": "stable",
		}},
		Data: map[string]string{
			"csv--1-.yaml":      "kind: ClusterServiceVersion\n",
			"crd.yaml":          "kind: CustomResourceDefinition\n",
			"dependencies.yaml": "dependencies: []\n",
		},
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("ConfigMap (-want +got):\n%s", diff)
	}
}

func TestWriteGzip(t *testing.T) {
	have := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kettle"}}
	write := &Write{Config: newFakeAPIServer(t, have), Namespace: "olm", Name: "kettle", Bundle: newBundleFiles(), Limit: 1 << 20, Gzip: true}
	if err := write.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if have.Annotations["olm.contentEncoding"] != "gzip+base64" || len(have.Data) > 0 {
		t.Errorf("got annotations %v and data %v", have.Annotations, have.Data)
	}

	packed, err := base64.StdEncoding.DecodeString(string(have.BinaryData["crd.yaml"]))
	if err != nil {
		t.Fatal(err)
	}

	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(reader); err != nil || string(text) != "kind: CustomResourceDefinition\n" {
		t.Errorf("got %q and error %v", text, err)
	}
}

func TestWriteFails(t *testing.T) {
	have := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kettle"}}
	config := newFakeAPIServer(t, have)
	twice := newBundleFiles()
	twice["metadata/csv [1].yaml"] = &fstest.MapFile{Data: []byte("x: 1")}
	binary := newBundleFiles()
	binary["manifests/logo.png"] = &fstest.MapFile{Data: []byte("\xff\xd8")}
	for name, c := range map[string]struct {
		write Write
		want  string
	}{
		"no ConfigMap": {Write{Name: "pot", Bundle: newBundleFiles(), Limit: 1 << 20}, "reading ConfigMap olm/pot: configmaps not found"},
		"too large":    {Write{Name: "kettle", Bundle: newBundleFiles(), Limit: 40}, "bundle files exceeded 40 bytes limit"},
		"no manifests": {Write{Name: "kettle", Bundle: fstest.MapFS{}, Limit: 40}, "manifests"},
		"one key":      {Write{Name: "kettle", Bundle: twice, Limit: 1 << 20}, `another file has the key "csv--1-.yaml" too`},
		"binary":       {Write{Name: "kettle", Bundle: binary, Limit: 1 << 20}, "manifests/logo.png: it is not UTF-8 text"},
	} {
		t.Run(name, func(t *testing.T) {
			c.write.Config, c.write.Namespace = config, "olm"
			if err := c.write.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if len(have.Data) > 0 {
				t.Errorf("got data %v, want none", have.Data)
			}
		})
	}
}
