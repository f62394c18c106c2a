package console_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// pullOverHTTP makes a console pull bundles from the registries of tests.
func pullOverHTTP(options *console.Options) { options.Registry = catalogs.Registry{UseHTTP: true} }

// pushHelloBundle pushes version 1.0.0 of the sample operator to a registry and returns the content of a catalog with it, with
// version 2.0.0 whose image does not exist, and with version 3.0.0 whose image has a label with another format.
func (f *fixture) pushHelloBundle() string {
	f.T.Helper()
	root, err := checkout.Root()
	f.Must(err)

	folder := filepath.Join(root, "examples", "bundles", "hello-operator", "1.0.0")
	repository := ociregistry.Start(f.T).Host + "/hello-operator"
	build := &catalogs.BundleImage{
		Registry: catalogs.Registry{UseHTTP: true}, Manifests: filepath.Join(folder, "manifests"), Metadata: filepath.Join(folder, "metadata"),
		Delivery: catalogs.Delivery{Push: repository + ":1.0.0"},
	}
	image, err := build.Run(f.T.Context())
	f.Must(err)

	build.Metadata = f.T.TempDir()
	annotations := "annotations: {operators.operatorframework.io.bundle.package.v1: hello-operator}\n"
	f.Must(os.WriteFile(filepath.Join(build.Metadata, "annotations.yaml"), []byte(annotations), 0o600))
	build.Description.MediaType, build.Delivery.Push = "plain", repository+":3.0.0"
	plain, err := build.Run(f.T.Context())
	f.Must(err)

	blobs := `{"schema":"olm.package","name":"hello-operator","defaultChannel":"stable"}
{"schema":"olm.channel","package":"hello-operator","name":"stable","entries":[{"name":"hello-operator.v1.0.0"},{"name":"hello-operator.v2.0.0"},{"name":"hello-operator.v3.0.0"}]}
`
	const bundle = `{"schema":"olm.bundle","package":"hello-operator","name":"hello-operator.v%[1]s","image":%[2]q,"properties":[{"type":"olm.package","value":{"packageName":"hello-operator","version":"%[1]s"}}]}` + "\n"
	return blobs + fmt.Sprintf(bundle, "1.0.0", image) + fmt.Sprintf(bundle, "2.0.0", repository+":2.0.0") + fmt.Sprintf(bundle, "3.0.0", plain)
}

// faultsAt returns the messages of faults by the path of their field.
func faultsAt(config *console.ExtensionConfig) map[string]string {
	faults := map[string]string{}
	for _, fault := range config.Faults {
		faults[strings.Join(fault.Path, ".")] = fault.Message
	}
	return faults
}

// The versions of all channels have one order, in which a release is newer than its candidates.
func TestExtensionOffers(t *testing.T) {
	f := newFixture(t, nil)
	const bundle = `{"schema":"olm.bundle","package":"kettle","name":"kettle.v%[1]s","image":"example.com/kettle:%[1]s","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"%[1]s"}}]}` + "\n"
	var blobs strings.Builder
	blobs.WriteString(`{"schema":"olm.package","name":"kettle","defaultChannel":"stable"}
{"schema":"olm.channel","package":"kettle","name":"stable","entries":[{"name":"kettle.v1.9.0"},{"name":"kettle.v1.10.0"}]}
{"schema":"olm.channel","package":"kettle","name":"candidate","entries":[{"name":"kettle.v1.10.0-rc.1"},{"name":"kettle.v1.10.0"}]}
`)
	for _, version := range []string{"1.9.0", "1.10.0-rc.1", "1.10.0"} {
		fmt.Fprintf(&blobs, bundle, version)
	}
	f.serveCatalog(blobs.String())

	var offers action.OfferedPackages
	f.signIn(f.newUser("installer", "", installerRules...)).do(http.MethodGet, "/api/v1/extension-offers/kettle", nil, &offers)
	if diff := cmp.Diff([]string{"1.10.0", "1.10.0-rc.1", "1.9.0"}, offers.Versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if len(offers.Catalogs) != 1 || len(offers.Catalogs[0].Channels) != 2 {
		t.Errorf("got %+v, want the two channels of the catalog", offers.Catalogs)
	}
}

// The schema of a configuration is that of the bundle that would be installed. Faults name their fields.
func TestExtensionConfig(t *testing.T) {
	f := newFixture(t, pullOverHTTP)
	catalog, _ := f.serveCatalog(f.pushHelloBundle())
	b := f.signIn(f.newUser("installer", "", installerRules...))
	request := console.ExtensionConfigRequest{
		BundleChoice: console.BundleChoice{Catalogs: []string{catalog}, Channels: []string{"stable"}, Version: "1.x"}, Package: "hello-operator", Namespace: "hello",
		Config: map[string]any{"watchNamespace": "A", "deploymentConfig": map[string]any{"env": []any{map[string]any{"value": "x"}}}, "other": 1},
	}

	var config console.ExtensionConfig
	b.do(http.MethodPost, "/api/v1/extension-configs", request, &config)
	properties, _ := config.Schema["properties"].(map[string]any)
	if config.Bundle != "hello-operator.v1.0.0" || properties["watchNamespace"] == nil || properties["deploymentConfig"] == nil || config.Unknown != nil {
		t.Fatalf("got %+v, want the schema of version 1.0.0", config)
	}
	want := map[string]string{
		"watchNamespace":              `field "watchNamespace" must match pattern`,
		"deploymentConfig.env.0.name": `required field "deploymentConfig.env[0].name" is missing`,
		"other":                       `unknown field "other"`,
	}
	got := faultsAt(&config)
	if len(got) != len(want) {
		t.Errorf("got the faults %v, want %v", got, want)
	}
	for path, text := range want {
		if !strings.HasPrefix(got[path], text) {
			t.Errorf("%s: got %q, want %q", path, got[path], text)
		}
	}

	config = console.ExtensionConfig{}
	request.Config = map[string]any{"watchNamespace": "teas"}
	b.do(http.MethodPost, "/api/v1/extension-configs", request, &config)
	if len(config.Faults) != 0 {
		t.Errorf("got the faults %v of a valid configuration", config.Faults)
	}

	config = console.ExtensionConfig{}
	request.Version = "2.0.0"
	b.do(http.MethodPost, "/api/v1/extension-configs", request, &config)
	if config.Schema != nil || config.Unknown == nil || !strings.Contains(config.Unknown.Detail, "hello-operator.v2.0.0") || len(config.Faults) != 0 {
		t.Errorf("got %+v for a bundle that cannot be pulled, want the reason and no faults", config)
	}

	config = console.ExtensionConfig{}
	request.Version = "3.0.0"
	b.do(http.MethodPost, "/api/v1/extension-configs", request, &config)
	if config.Schema != nil || config.Unknown == nil || !strings.Contains(config.Unknown.Detail, `the bundle format "plain" is not supported`) {
		t.Errorf("got the bundle %q and the problem %+v for a bundle that cannot be installed, want the reason", config.Bundle, config.Unknown)
	}

	stranger := f.signIn(f.newUser("stranger", ""))
	config = console.ExtensionConfig{}
	stranger.do(http.MethodPost, "/api/v1/extension-configs", request, &config)
	if config.Schema != nil || config.Unknown == nil || !strings.Contains(config.Unknown.Detail, "forbidden") {
		t.Errorf("got %+v for a user who may not read catalogs, want the reason", config)
	}
}

// The configuration of an installed extension is checked against the installed bundle, and changed with a plan.
func TestChangeExtensionConfig(t *testing.T) {
	f := newFixture(t, pullOverHTTP)
	catalog, _ := f.serveCatalog(f.pushHelloBundle())
	name := f.namespace + "-hello"
	extension := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	extension.Spec = olmv1.ClusterExtensionSpec{
		Namespace: f.namespace,
		Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{
			PackageName: "hello-operator", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: catalog}},
		}},
		Config: &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: []byte(`{"watchNamespace":"teas"}`)}},
	}
	f.CreateAll(extension)
	extension.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "hello-operator.v1.0.0", Version: "1.0.0"}}
	f.Must(f.Status().Update(t.Context(), extension))

	b := f.signIn(f.newUser("installer", "", installerRules...))
	path := "/api/v1/extensions/" + name
	var config console.ExtensionConfig
	b.do(http.MethodPost, path+"/config-checks", map[string]any{}, &config)
	if config.Bundle != "hello-operator.v1.0.0" || config.Config["watchNamespace"] != "teas" || config.Generation != extension.Generation || len(config.Faults) != 0 {
		t.Fatalf("got %+v, want the configuration and the schema of the installed version", config)
	}

	config = console.ExtensionConfig{}
	b.do(http.MethodPost, path+"/config-checks", map[string]any{"config": map[string]any{"watchNamespaces": "teas"}}, &config)
	if len(config.Faults) != 1 || !strings.Contains(faultsAt(&config)["watchNamespaces"], "unknown field") {
		t.Errorf("got the faults %v, want that of the changed configuration", config.Faults)
	}

	var asked atomic.Value
	f.writePlans(func(e *olmv1.ClusterExtension) map[string]any {
		asked.Store(e.Annotations[olmv1.AnnotationPlan])
		return map[string]any{"action": "change"}
	})
	change := console.ExtensionChange{Generation: extension.Generation, Config: map[string]any{"watchNamespace": "coffees"}}
	var preview console.PlanPreview
	b.do(http.MethodPost, path+"/upgrade-previews", change, &preview)
	if request, _ := asked.Load().(string); preview.Plan == nil || preview.Plan.Action != "change" || !strings.Contains(request, `"config":{"watchNamespace":"coffees"}`) {
		t.Errorf("got %+v for the request %q, want the plan of the changed configuration", preview, request)
	}

	b.do(http.MethodPost, path+"/upgrades", change, nil)
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, extension))
	if got := string(extension.Spec.Config.Inline.Raw); got != `{"watchNamespace":"coffees"}` || extension.Spec.Source.Catalog.Version != "" {
		t.Errorf("got the configuration %s and the version %q, want only the configuration changed", got, extension.Spec.Source.Catalog.Version)
	}

	b.do(http.MethodPost, path+"/upgrades", map[string]any{"generation": extension.Generation, "config": map[string]any{}}, nil)
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: name}, extension))
	if extension.Spec.Config != nil {
		t.Errorf("got %+v, want an empty configuration removed", extension.Spec.Config)
	}

	reader := f.signIn(f.newUser("reader", "", rbacv1.PolicyRule{APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"clustercatalogs"}, Verbs: []string{"list"}}))
	if got := reader.send(reader.newRequest(http.MethodPost, path+"/config-checks", map[string]any{})); got.Code != http.StatusForbidden {
		t.Errorf("a user who may not read the extension: got %d %s, want 403", got.Code, got.Body)
	}
}
