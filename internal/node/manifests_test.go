package node_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// systemNamespace is the namespace of the component.
const systemNamespace = "openshift-machine-config-operator"

// manifests reads the objects of files below config, in their order.
func manifests(t *testing.T, files ...string) []*unstructured.Unstructured {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	var objects []*unstructured.Unstructured
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}

	return objects
}

// shipped returns the files below config that kustomize applies, without those of the kinds, which are already installed.
func shipped(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, k := range manifests(t, "machine-config/kustomization.yaml") {
		resources, _, err := unstructured.NestedStringSlice(k.Object, "resources")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resources {
			switch {
			case r == "../platform":
			case filepath.Dir(r) != "." || filepath.Ext(r) != ".yaml":
				// kustomize only reads files of its own folder.
				t.Errorf("kustomize does not read %s", r)
			default:
				files = append(files, "machine-config/"+r)
			}
		}
	}

	return files
}

// apply applies manifests with strict field validation.
func apply(t *testing.T, c client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}

	if t.Failed() {
		t.FailNow()
	}
}

// accountUser returns the user name of a service account of the component.
func accountUser(name string) string { return "system:serviceaccount:" + systemNamespace + ":" + name }

// connectAs returns the connection of a service account of the component.
func (c *fixture) connectAs(name string) *rest.Config {
	c.T.Helper()
	connection := env.ConnectAs(c.T, systemNamespace, name)
	connection.QPS = -1
	return connection
}

func connectWithToken(t testing.TB, request *authenticationv1.TokenRequest) *rest.Config {
	connection := rest.AnonymousClientConfig(env.Start(t))
	connection.BearerToken, connection.QPS = request.Status.Token, -1
	return connection
}

// A real API server accepts every manifest: those of kustomize, and then those of a release.
func TestManifests(t *testing.T) {
	c := &fixture{Fixture: env.NewFixture(t, kinds...)}
	t.Cleanup(c.clear)
	installed := shipped(t)
	if len(installed) < 8 {
		t.Fatalf("got applied files %v, want at least 8", installed)
	}

	apply(t, c, manifests(t, installed...))
	apply(t, c, manifests(t, "release/machine-config.yaml", "release/pools.yaml", "release/machine-config-operator.yaml"))
}
