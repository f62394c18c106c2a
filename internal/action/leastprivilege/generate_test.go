package leastprivilege_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/leastprivilege"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

func helloBundleFolder(t *testing.T, version string) string {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "examples", "bundles", "hello-operator", version)
}

// overHTTP pulls from the registries of tests.
var overHTTP = catalogs.Registry{UseHTTP: true}

// pushHelloBundles pushes versions of the sample operator to a registry, and returns their images by version.
func pushHelloBundles(t *testing.T, versions ...string) map[string]string {
	t.Helper()
	host := ociregistry.Start(t).Host
	images := map[string]string{}
	for _, version := range versions {
		folder := helloBundleFolder(t, version)
		build := &catalogs.BundleImage{
			Registry: overHTTP, Manifests: filepath.Join(folder, "manifests"), Metadata: filepath.Join(folder, "metadata"),
			Delivery: catalogs.Delivery{Push: host + "/hello-operator:" + version},
		}
		var err error
		if images[version], err = build.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return images
}

// pushPlainBundle pushes the sample operator to a registry, with the format in a label of the image alone, and returns the image.
func pushPlainBundle(t *testing.T) string {
	t.Helper()
	metadata := t.TempDir()
	annotations := "annotations: {operators.operatorframework.io.bundle.package.v1: hello-operator}\n"
	if err := os.WriteFile(filepath.Join(metadata, "annotations.yaml"), []byte(annotations), 0o600); err != nil {
		t.Fatal(err)
	}

	build := &catalogs.BundleImage{
		Registry: overHTTP, Manifests: filepath.Join(helloBundleFolder(t, "1.0.0"), "manifests"), Metadata: metadata,
		Description: bundle.Description{MediaType: bundle.MediaTypePlain}, Delivery: catalogs.Delivery{Push: ociregistry.Start(t).Host + "/plain:v1"},
	}
	image, err := build.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// newFakeCluster starts a fake API server and catalogd. They serve catalogs with versions of the sample operator, whose
// images are in a registry, and the named APIs.
func newFakeCluster(t *testing.T, apis ...string) func() (*rest.Config, error) {
	t.Helper()
	images := pushHelloBundles(t, "1.0.0", "1.1.0", "1.2.0")
	blobs := func(versions ...string) string {
		const blob = `{"schema":"olm.bundle","package":"hello-operator","name":"hello-operator.v%[1]s","image":%[2]q,"properties":[{"type":"olm.package","value":{"packageName":"hello-operator","version":"%[1]s"}}]}`
		lines := []string{`{"schema":"olm.package","name":"hello-operator","defaultChannel":"stable"}`, fmt.Sprintf(blob, "9.0.0", "")}
		for _, version := range versions {
			lines = append(lines, fmt.Sprintf(blob, version, images[version]))
		}
		return strings.Join(lines, "\n")
	}

	catalog := func(name string, priority int) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"priority": priority},
			"status": map[string]any{"urls": map[string]any{"base": "https://catalogd.ns.svc/catalogs/" + name}},
		}
	}

	const kind = "/apis/olm.operatorframework.io/v1/clustercatalogs"
	proxy := func(name string) string {
		return "/api/v1/namespaces/ns/services/https:catalogd:443/proxy/catalogs/" + name + "/api/v1/all"
	}
	answers := map[string]any{
		kind:          map[string]any{"items": []any{catalog("old", 0), catalog("new", 1)}},
		kind + "/old": catalog("old", 0),
		kind + "/new": catalog("new", 1),
		proxy("old"):  blobs("1.0.0"),
		proxy("new"):  blobs("1.0.0", "1.1.0"),

		"/version":      map[string]any{"gitVersion": "v1.36.6"},
		kind + "/newer": catalog("newer", 0),
		proxy("newer"):  strings.Replace(blobs("1.1.0", "1.0.0"), `"version":"1.1.0"}}]`, `"version":"1.1.0"}},{"type":"olm.csv.metadata","value":{"minKubeVersion":"1.99.0"}}]`, 1),
		kind + "/local": catalog("local", 0),
		proxy("local"):  strings.ReplaceAll(blobs("1.0.0"), images["1.0.0"], helloBundleFolder(t, "1.0.0")),
		kind + "/hooks": catalog("hooks", 0),
		proxy("hooks"):  blobs("1.2.0"),
	}

	for _, api := range apis {
		answers["/apis/"+api] = map[string]any{"kind": "APIResourceList", "groupVersion": api}
	}

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch answer := answers[r.URL.Path].(type) {
		case nil:
			w.WriteHeader(http.StatusNotFound)
		case string:
			_, _ = w.Write([]byte(answer))
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))

	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	return func() (*rest.Config, error) {
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, nil
	}
}

func TestGenerateResolvesBundle(t *testing.T) {
	cluster := newFakeCluster(t)
	for name, test := range map[string]struct {
		generate leastprivilege.Generate
		want     string
	}{
		"of all catalogs":                  {leastprivilege.Generate{Version: "<9"}, "hello-operator.v1.1.0"},
		"of one catalog":                   {leastprivilege.Generate{Version: "<9", Catalog: "old"}, "hello-operator.v1.0.0"},
		"of one, with its kind":            {leastprivilege.Generate{Version: "<9", Catalog: "clustercatalog/old"}, "hello-operator.v1.0.0"},
		"that runs here":                   {leastprivilege.Generate{Version: "<9", Catalog: "newer"}, "hello-operator.v1.0.0"},
		"of a version":                     {leastprivilege.Generate{Version: "1.0.0"}, "hello-operator.v1.0.0"},
		"of no channel":                    {leastprivilege.Generate{Channels: []string{"none"}}, "no bundles found"},
		"that has no image":                {leastprivilege.Generate{}, "no image reference"},
		"of an image in another format":    {leastprivilege.Generate{Bundle: pushPlainBundle(t)}, `the bundle format "plain" is not supported`},
		"of a folder that a catalog names": {leastprivilege.Generate{Version: "<9", Catalog: "local"}, `failed to pull image "/`},
		"of no such catalog":               {leastprivilege.Generate{Catalog: "other"}, `clustercatalog "other"`},
		"updated from no bundle":           {leastprivilege.Generate{Version: "<9", UpdatesFrom: []string{"0.1.0"}}, `matching version "0.1.0"`},
	} {
		t.Run(name, func(t *testing.T) {
			test.generate.Package, test.generate.Cluster, test.generate.Registry = "hello-operator", cluster, overHTTP
			generated, err := test.generate.Run(t.Context())
			got := fmt.Sprint(err)
			if err == nil {
				got = generated.Bundle
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The issuer of webhook certificates determines the rules.
func TestWebhookCertificateIssuer(t *testing.T) {
	yes, no := true, false
	for name, test := range map[string]struct {
		apis     []string
		generate leastprivilege.Generate
		want     bool
	}{
		"the cluster has none":              {nil, leastprivilege.Generate{Catalog: "hooks"}, false},
		"the cluster serves it":             {[]string{"cert-manager.io/v1"}, leastprivilege.Generate{Catalog: "hooks"}, true},
		"it serves another version":         {[]string{"cert-manager.io/v2"}, leastprivilege.Generate{Catalog: "hooks"}, false},
		"it serves it, and it is disabled":  {[]string{"cert-manager.io/v1"}, leastprivilege.Generate{Catalog: "hooks", CertManager: &no}, false},
		"no cluster is used":                {[]string{"cert-manager.io/v1"}, leastprivilege.Generate{Bundle: helloBundleFolder(t, "1.2.0")}, false},
		"no cluster is used, it is enabled": {nil, leastprivilege.Generate{Bundle: helloBundleFolder(t, "1.2.0"), CertManager: &yes}, true},
		"no webhooks":                       {nil, leastprivilege.Generate{Bundle: helloBundleFolder(t, "1.0.0"), CertManager: &yes}, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.generate.Package, test.generate.Version, test.generate.Registry = "hello-operator", "<9", overHTTP
			test.generate.Cluster = newFakeCluster(t, test.apis...)
			generated, err := test.generate.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, resource := range []string{"certificates", "issuers"} {
				if got := allowsDelete(generated.Objects, resource, ""); got != test.want {
					t.Errorf("got the right to delete %s of cert-manager: %t", resource, got)
				}
			}
		})
	}
}

func TestGenerateFromBundleNeedsNoCluster(t *testing.T) {
	generate := leastprivilege.Generate{Bundle: helloBundleFolder(t, "1.0.0"), Cluster: func() (*rest.Config, error) { return nil, errors.New("asked") }}
	generated, err := generate.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if generated.Namespace != "hello-operator" || generated.Objects[0].GetName() != "hello-operator-installer" {
		t.Errorf("got namespace %s and service account %s", generated.Namespace, generated.Objects[0].GetName())
	}
}

// The error of a bundle that cannot be rendered names the bundle once.
func TestGenerateNamesRefusedBundleOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(helloBundleFolder(t, "1.0.0"))); err != nil {
		t.Fatal(err)
	}
	job := "{apiVersion: batch/v1, kind: Job, metadata: {name: once}}"
	if err := os.WriteFile(filepath.Join(dir, "manifests", "job.yaml"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := (&leastprivilege.Generate{Bundle: dir}).Run(t.Context())
	if want := `bundle "hello-operator.v1.0.0": unsupported resource "once" of kind "Job"`; !strings.HasPrefix(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A service account for an update may delete objects that only the older version contains.
func TestGenerateForUpdate(t *testing.T) {
	older := t.TempDir()
	if err := os.CopyFS(older, os.DirFS(helloBundleFolder(t, "1.0.0"))); err != nil {
		t.Fatal(err)
	}

	service := filepath.Join(older, "manifests", "hello-operator_v1_service.yaml")
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: older}\nspec: {ports: [{port: 80}]}\n"
	if err := os.WriteFile(service, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	generate := leastprivilege.Generate{Bundle: helloBundleFolder(t, "1.1.0")}
	for _, want := range []bool{false, true} {
		generated, err := generate.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := allowsDelete(generated.Objects, "services", "older"); got != want || !allowsDelete(generated.Objects, "services", "hello-operator") {
			t.Errorf("updated from %v: got the right to delete the older Service: %t", generate.UpdatesFrom, got)
		}
		generate.UpdatesFrom = []string{older}
	}
}

// allowsDelete reports whether a role allows the deletion of objects of a resource by name,
// or of any name.
func allowsDelete(objects []rbac.Object, resource, name string) bool {
	return slices.ContainsFunc(objects, func(object rbac.Object) bool {
		role, ok := object.(*rbacv1.Role)
		return ok && slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, "delete") && (name == "" || slices.Contains(rule.ResourceNames, name))
		})
	})
}
