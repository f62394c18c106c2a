package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// newGraphServer starts an update service with one channel, and returns its URL.
func newGraphServer(t *testing.T, channel, graph string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("channel") != channel {
			fmt.Fprint(w, `{"nodes":[],"edges":[]}`)
			return
		}
		fmt.Fprint(w, graph)
	}))

	t.Cleanup(server.Close)
	return server.URL
}

// Without a cluster, releases are looked up in an update service.
func TestReleasesOfUpdateService(t *testing.T) {
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	s := newReleaseFixture(t)
	s.copyExample()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	s.run("mainstay release new --from-dir examples/platform --to-image-base scratch --name 1.0.0 greeter=registry.example.com/greeter:1.0.0 --to-image registry.example.com/releases:1.0.0")
	service := newGraphServer(t, "candidate-1.0", `{"nodes":[{"version":"1.0.0","payload":"`+s.address+`/releases:1.0.0"}],"edges":[]}`)
	var all strings.Builder
	for _, line := range []string{
		"mainstay release extract --from 1.0.0 --file release-metadata --upstream " + service,
		"mainstay release info 1.0.1 --upstream " + service, "mainstay release info --upstream " + service,
	} {
		all.WriteString(strings.ReplaceAll(s.run(line), service, "http://updates.example.com"))
	}

	t.Chdir(here)
	goldenCheck(t, "release/update-service", all.String())
}

// With a cluster, releases are looked up by version, and signatures are written to the cluster.
func TestReleasesOfCluster(t *testing.T) {
	kubeconfig(t, env.Start(t))
	s := newReleaseFixture(t)
	s.copyExample()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	for _, version := range []string{"1.0.0", "1.1.0", "3.1.0"} {
		s.run("mainstay release new --from-dir examples/platform --to-image-base scratch --name " + version + " greeter=registry.example.com/greeter:1.0.0 --to-image registry.example.com/releases:" + version)
	}

	c := env.Client(t, configv1.AddToScheme, corev1.AddToScheme)
	ensureNamespace(t, c, "openshift-config-managed")
	object := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}, Spec: configv1.ClusterVersionSpec{ClusterID: "6a6bf1a5-5a0c-4a6c-9b0e-4a2f5c1b8a11"}}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), object); err != nil {
			t.Error(err)
		}
	})
	service := newGraphServer(t, "stable-3.1", `{"nodes":[{"version":"3.1.0","payload":"`+s.address+`/releases:3.1.0"}],"edges":[]}`)
	object.Spec.Upstream = service
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}

	object.Status.Desired = configv1.Release{Version: "1.0.0", Image: s.address + "/releases:1.0.0"}
	object.Status.AvailableUpdates = []configv1.Release{{Version: "1.1.0", Image: s.address + "/releases:1.1.0"}}
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}

	var all strings.Builder
	for _, line := range []string{
		"mainstay release info -o name", "mainstay release info 1.1.0 -o pullspec", "mainstay release info 2.0.0",
		"mainstay release info 3.1.0 -o name", "mainstay release info 2.0.0 --upstream http://user:secret@127.0.0.1:1/graph",
		"mainstay release diff 1.0.0 1.1.0", "mainstay release sign 1.1.0 --key releases.key --apply",
	} {
		all.WriteString(strings.ReplaceAll(s.run(line), service, "http://updates.example.com"))
	}

	t.Chdir(here)
	goldenCheck(t, "release/cluster", all.String())
	var applied corev1.ConfigMapList
	if err := c.List(t.Context(), &applied, client.InNamespace("openshift-config-managed"), client.HasLabels{"release.openshift.io/verification-signatures"}); err != nil {
		t.Fatal(err)
	}
	if len(applied.Items) != 1 || len(applied.Items[0].BinaryData) != 1 {
		t.Errorf("got %d ConfigMaps with signatures, want one with one signature", len(applied.Items))
	}

	for i := range applied.Items {
		if err := c.Delete(t.Context(), &applied.Items[i]); err != nil {
			t.Error(err)
		}
	}
}

// OpenShift clusters have ImageStreams, so the test creates the CRD.
func TestNewFromImageStream(t *testing.T) {
	kubeconfig(t, env.Start(t))
	s := newReleaseFixture(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	const line = "mainstay release new --from-image-stream nightly -n default --name 1.0.0 --include greeter --to-image-base scratch --to-image registry.example.com/releases:1.0.0"
	all := s.run(line)
	kind := schema.GroupVersionKind{Group: "image.openshift.io", Version: "v1", Kind: "ImageStream"}
	c := env.Client(t, apiextensionsv1.AddToScheme)
	crd := builder.OpenCRD(kind.Group, "imagestreams", kind.Kind)
	crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for a test"}
	if err := c.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { deleteKind(t, c, crd) })
	stream := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"tags": []any{
		map[string]any{"name": "greeter", "from": map[string]any{"kind": "DockerImage", "name": s.address + "/greeter:1.0.0"}},
	}}}}
	stream.SetGroupVersionKind(kind)
	stream.SetNamespace("default")
	stream.SetName("nightly")
	env.Eventually(t, "the kind is served", func() error {
		// A client that was created before the CRD does not know the kind.
		return client.IgnoreAlreadyExists(env.Client(t).Create(t.Context(), stream.DeepCopy()))
	})

	all += s.run(line) + s.run("mainstay release image greeter --from registry.example.com/releases:1.0.0") + s.run(line+" --from-image-stream-file x")
	t.Chdir(here)
	goldenCheck(t, "release/new-from-image-stream", all)
}

// deleteKind deletes a CRD with its objects, and waits until it is deleted.
func deleteKind(t *testing.T, c client.Client, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := c.Delete(ctx, crd); err != nil {
		t.Error(err)
	}

	env.Eventually(t, "the kind is deleted", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return client.IgnoreNotFound(err)
		}
		return errors.New("it exists")
	})
}

func ensureNamespace(t *testing.T, c client.Client, name string) {
	t.Helper()
	err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}
