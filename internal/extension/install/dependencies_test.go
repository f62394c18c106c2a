package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Bundles implements install.CatalogReader.
func (w *fixture) Bundles(_ context.Context, baseURL string) iter.Seq2[*fbc.Bundle, error] {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []fbc.Bundle
	for _, content := range w.others[baseURL] {
		all = append(all, content.Bundles...)
	}

	return func(yield func(*fbc.Bundle, error) bool) {
		for i := range all {
			if !yield(&all[i], nil) {
				return
			}
		}
	}
}

// addPackageVersion adds a version of a package to a catalog, as an update of the previous
// version. It has the API that it provides, if any, and requirements in the syntax of
// dependencies.yaml.
func (w *fixture) addPackageVersion(catalog *olmv1.ClusterCatalog, pkg, version, api string, requirements ...string) {
	w.T.Helper()
	base := "https://catalogd/catalogs/" + catalog.Name
	name := pkg + ".v" + version
	b := fbc.Bundle{Package: pkg, Name: name, Image: "quay.io/example/" + pkg + ":" + version}
	b.Properties = []fbc.Property{{Type: fbc.PropertyPackage, Value: fmt.Appendf(nil, `{"packageName":%q,"version":%q}`, pkg, version)}}
	csv := map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"version": version, "installModes": []any{map[string]any{"type": "AllNamespaces", "supported": true}},
			"install": map[string]any{"strategy": "deployment", "spec": map[string]any{"deployments": []any{}}},
		},
	}

	files := fstest.MapFS{
		"metadata/annotations.yaml": {Data: []byte("annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n" +
			"  operators.operatorframework.io.bundle.manifests.v1: manifests/\n  operators.operatorframework.io.bundle.metadata.v1: metadata/\n" +
			"  operators.operatorframework.io.bundle.package.v1: " + pkg + "\n  operators.operatorframework.io.bundle.channels.v1: stable\n")},
		"manifests/account.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + pkg + "-of-" + version + "\n")},
	}

	if api != "" {
		b.Properties = append(b.Properties, fbc.Property{Type: fbc.PropertyGVK, Value: gvkProperty(api)})
		csv["spec"].(map[string]any)["customresourcedefinitions"] = map[string]any{"owned": []any{map[string]any{"name": plural(api) + ".deps.example.com", "version": "v1", "kind": api}}}
		files["manifests/crd.yaml"] = &fstest.MapFile{Data: encoded(w.T, crd(api).Object)}
	}

	for _, text := range requirements {
		var property fbc.Property
		w.Must(json.Unmarshal([]byte(text), &property))
		b.Properties = append(b.Properties, property)
	}

	files["manifests/csv.yaml"] = &fstest.MapFile{Data: encoded(w.T, csv)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images[b.Image] = files
	if w.others[base] == nil {
		w.others[base] = map[string]*fbc.Content{}
	}

	// A reader of the old content may still use it.
	before := w.others[base][pkg]
	content := &fbc.Content{Package: &fbc.Package{Name: pkg, DefaultChannel: "stable"}, Channels: []fbc.Channel{{Package: pkg, Name: "stable"}}}
	entry := fbc.ChannelEntry{Name: name}
	if before != nil {
		content.Bundles = append(content.Bundles, before.Bundles...)
		content.Channels[0].Entries = append(content.Channels[0].Entries, before.Channels[0].Entries...)
		entry.Replaces = content.Bundles[len(content.Bundles)-1].Name
	}

	content.Bundles = append(content.Bundles, b)
	content.Channels[0].Entries = append(content.Channels[0].Entries, entry)
	w.others[base][pkg] = content
}

func gvkProperty(api string) []byte {
	return fmt.Appendf(nil, `{"group":"deps.example.com","kind":%q,"version":"v1"}`, api)
}

func needsAPI(api string) string {
	return fmt.Sprintf(`{"type":"olm.gvk.required","value":%s}`, gvkProperty(api))
}

func needsPackage(pkg, versions string) string {
	return fmt.Sprintf(`{"type":"olm.package.required","value":{"packageName":%q,"versionRange":%q}}`, pkg, versions)
}

func plural(api string) string { return strings.ToLower(api) + "s" }

func crd(api string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural(api) + ".deps.example.com"},
		"spec": map[string]any{
			"group": "deps.example.com", "scope": "Cluster", "names": map[string]any{"kind": api, "plural": plural(api)},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		},
	}}
}

func encoded(t testing.TB, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newPackageExtension returns an extension of a package that selects the catalogs of a test.
func newPackageExtension(pkg, test string) *olmv1.ClusterExtension {
	ext := newExtension(pkg, test)
	ext.Spec.Source.Catalog.PackageName = pkg
	ext.Spec.Source.Catalog.Selector.MatchLabels["test"] = test
	return ext
}

// createInstalled creates an extension and simulates its rollout.
func (w *fixture) createInstalled(ext *olmv1.ClusterExtension) {
	w.T.Helper()
	w.CreateForTest(ext)
	w.markSucceeded(w.waitForRevision(ext.Name + "-1"))
	w.expectCondition(ext.Name, olmv1.TypeInstalled, "True")
}

func (w *fixture) waitUntilGone(name string) {
	w.T.Helper()
	w.Eventually("extension "+name+" is deleted", func() error {
		w.removeFinalizers(name)
		err := w.Get(w.T.Context(), client.ObjectKey{Name: name}, &olmv1.ClusterExtension{})
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// TestDependenciesBlock: by default the status names missing dependencies, and the extension waits for them.
func TestDependenciesBlock(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("block")
	catalog := w.createCatalog("block")
	w.addPackageVersion(catalog, "block-provider", "1.0.0", "Anvil")
	w.addPackageVersion(catalog, "block-user", "1.0.0", "", needsAPI("Anvil"), needsPackage("block-provider", ">=1.0.0 <2.0.0"))
	w.CreateForTest(newPackageExtension("block-user", "block"))
	w.expectCondition("block-user", olmv1.TypeProgressing, `True Retrying bundle "block-user.v1.0.0" has a dependency declared via property "olm.gvk.required" which is not met: `+
		`it needs the API Anvil of deps.example.com/v1, which would come with package "block-provider" in version 1.0.0 (catalog "block"); `+
		`and one declared via property "olm.package.required": it needs package "block-provider" in version ">=1.0.0 <2.0.0", which would come with package "block-provider" in version 1.0.0 (catalog "block"). `+
		`Install it, or set spec.install.dependencies.policy to Install to have it installed`)
	w.expectCondition("block-user", olmv1.TypeInstalled, "False Failed No bundle installed")

	// Once a user installs the dependency the extension continues by itself.
	w.createInstalled(newPackageExtension("block-provider", "block"))
	set := w.waitForRevision("block-user-1")
	want := `[{"type":"olm.gvk.required","value":{"group":"deps.example.com","kind":"Anvil","version":"v1"}},` +
		`{"type":"olm.package.required","value":{"packageName":"block-provider","versionRange":"\u003e=1.0.0 \u003c2.0.0"}}]`
	if diff := cmp.Diff(want, set.Annotations[olmv1.AnnotationRequires]); diff != "" {
		t.Errorf("recorded requirements (-want +got):\n%s", diff)
	}

	provides := w.waitForRevision("block-provider-1").Annotations[olmv1.AnnotationProvides]
	if want := `[{"type":"olm.gvk","value":` + string(gvkProperty("Anvil")) + `}]`; provides != want {
		t.Errorf("recorded as provided: %s, want %s", provides, want)
	}
	if set := w.waitForRevision("block-provider-1"); set.Annotations[olmv1.AnnotationRequires] != "" {
		t.Errorf("got the requirements %s of a bundle without any", set.Annotations[olmv1.AnnotationRequires])
	}
}

// TestServedAPIsAreThere: a requirement of a served API is met, regardless of how the API was installed.
func TestServedAPIsAreThere(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("served")
	w.addPackageVersion(w.createCatalog("served"), "served-user", "1.0.0", "", needsAPI("Bellows"))
	w.CreateForTest(newPackageExtension("served-user", "served"))
	w.expectCondition("served-user", olmv1.TypeProgressing, `True Retrying bundle "served-user.v1.0.0" has a dependency declared via property "olm.gvk.required" which is not met: `+
		`it needs the API Bellows of deps.example.com/v1, which nothing in the catalogs provides: looked at "served"`)
	w.CreateForTest(crd("Bellows"))
	w.Eventually("the API is found", func() error {
		ext := w.getExtension("served-user")
		w.PatchObject(ext, func() { metav1.SetMetaDataAnnotation(&ext.ObjectMeta, "test", ext.ResourceVersion) })
		return w.Get(w.T.Context(), client.ObjectKey{Name: "served-user-1"}, &olmv1.ClusterObjectSet{})
	})
}

// TestBundlesThatMeetTheirOwnNeeds installs bundles that provide what they require.
func TestBundlesThatMeetTheirOwnNeeds(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("own")
	w.addPackageVersion(w.createCatalog("own"), "own-user", "1.0.0", "Chisel", needsAPI("Chisel"))
	w.CreateForTest(newPackageExtension("own-user", "own"))
	w.waitForRevision("own-user-1")
}

// TestBadRequirements stop the bundle, with the reason.
func TestBadRequirements(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("odd")
	w.addPackageVersion(w.createCatalog("odd"), "odd-user", "1.0.0", "", `{"type":"olm.constraint","value":{"weather":"good"}}`)
	w.CreateForTest(newPackageExtension("odd-user", "odd"))
	w.expectCondition("odd-user", olmv1.TypeProgressing, `False Blocked bundle "odd-user.v1.0.0": property "olm.constraint": json: unknown field "weather"`)
}

// TestConsent: with the policy Install missing packages are installed as extensions of their own,
// including dependencies of dependencies. They stay when the extension is deleted.
func TestConsent(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("consent")
	catalog := w.createCatalog("consent")
	w.addPackageVersion(catalog, "consent-base", "1.0.0", "")
	w.addPackageVersion(catalog, "consent-base", "2.0.0", "")
	w.addPackageVersion(catalog, "consent-provider", "1.0.0", "Drill", needsPackage("consent-base", ">=1.0.0 !1.5.0 <2.0.0"))
	w.addPackageVersion(catalog, "consent-user", "1.0.0", "", needsAPI("Drill"))
	ext := newPackageExtension("consent-user", "consent")
	ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Dependencies: &olmv1.DependenciesConfig{Policy: olmv1.DependencyPolicyInstall}}
	w.CreateForTest(ext)
	w.expectCondition("consent-user", olmv1.TypeProgressing, "True RollingOut waiting for its dependencies, to be installed as extensions of their own: consent-base, consent-provider")
	base, provider := w.getExtension("consent-base"), w.getExtension("consent-provider")
	t.Cleanup(func() {
		for _, made := range []*olmv1.ClusterExtension{base, provider} {
			if err := client.IgnoreNotFound(w.Delete(context.Background(), made)); err != nil {
				t.Error(err)
			}
		}
	})

	want := olmv1.ClusterExtensionSpec{
		Namespace: "consent",
		Source: olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: &olmv1.CatalogFilter{
			PackageName: "consent-base", Channels: []string{"stable"}, Version: ">=1.0.0 !=1.5.0 <2.0.0",
			Selector:                ext.Spec.Source.Catalog.Selector,
			UpgradeConstraintPolicy: olmv1.UpgradeConstraintPolicyCatalogProvided,
		}},
	}
	if diff := cmp.Diff(want, base.Spec); diff != "" {
		t.Errorf("the extension of a dependency (-want +got):\n%s", diff)
	}
	if base.Annotations[olmv1.AnnotationCreatedFor] != "consent-user" || len(base.OwnerReferences) != 0 {
		t.Errorf("got the annotations %v and the owners %v of the extension of a dependency", base.Annotations, base.OwnerReferences)
	}

	w.expectCondition("consent-provider", olmv1.TypeProgressing, `True Retrying bundle "consent-provider.v1.0.0" has a dependency`)
	w.markSucceeded(w.waitForRevision("consent-base-1"))
	w.markSucceeded(w.waitForRevision("consent-provider-1"))
	w.markSucceeded(w.waitForRevision("consent-user-1"))
	w.expectCondition("consent-user", olmv1.TypeInstalled, "True")

	w.delete(ext)
	w.waitUntilGone("consent-user")
	if provider := w.getExtension("consent-provider"); !provider.DeletionTimestamp.IsZero() {
		t.Error("a dependency is deleted with the extension")
	}
}

// TestCircles: extensions that need only each other continue together. The extension
// that requires them waits until they are installed.
func TestCircles(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("circle")
	catalog := w.createCatalog("circle")
	w.addPackageVersion(catalog, "circle-one", "1.0.0", "Fork", needsAPI("Gimlet"))
	w.addPackageVersion(catalog, "circle-two", "1.0.0", "Gimlet", needsAPI("Fork"))
	w.addPackageVersion(catalog, "circle-user", "1.0.0", "", needsAPI("Fork"))
	w.CreateForTest(newPackageExtension("circle-user", "circle"))
	w.expectCondition("circle-user", olmv1.TypeProgressing, `True Retrying bundle "circle-user.v1.0.0" has a dependency`)
	w.CreateForTest(newPackageExtension("circle-one", "circle"))
	w.expectCondition("circle-one", olmv1.TypeProgressing, `True Retrying bundle "circle-one.v1.0.0" has a dependency`)
	w.CreateForTest(newPackageExtension("circle-two", "circle"))
	one, two := w.waitForRevision("circle-one-1"), w.waitForRevision("circle-two-1")
	w.markSucceeded(one)
	w.markSucceeded(two)
	w.waitForRevision("circle-user-1")
}

// TestConsentThatDoesNotHelp expects the conflict, and a possible solution, in the message.
func TestConsentThatDoesNotHelp(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("futile")
	catalog := w.createCatalog("futile")
	w.addPackageVersion(catalog, "futile-base", "1.0.0", "")
	w.addPackageVersion(catalog, "futile-base", "2.0.0", "")
	w.addPackageVersion(catalog, "futile-user", "1.0.0", "", needsPackage("futile-base", ">=2.0.0"))
	base := newPackageExtension("futile-base", "futile")
	base.Spec.Source.Catalog.Version = "1.0.0"
	w.createInstalled(base)
	ext := newPackageExtension("futile-user", "futile")
	ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Dependencies: &olmv1.DependenciesConfig{Policy: olmv1.DependencyPolicyInstall}}
	w.CreateForTest(ext)
	w.Eventually("the conflict is reported", func() error {
		for _, c := range w.getExtension("futile-user").Status.Conditions {
			if c.Type == olmv1.TypeProgressing && strings.HasSuffix(c.Message, `package "futile-base" is installed in version 1.0.0 as extension "futile-base". `+
				`It would work with extension "futile-base" at version 2.0.0 of package "futile-base"`) {
				return nil
			}
		}
		return fmt.Errorf("got the conditions %+v", w.getExtension("futile-user").Status.Conditions)
	})

	// It continues as soon as the conflict is solved.
	base = w.getExtension("futile-base")
	w.PatchObject(base, func() { base.Spec.Source.Catalog.Version = "" })
	w.markSucceeded(w.waitForRevision("futile-base-2"))
	w.waitForRevision("futile-user-1")
}

// TestUpdatesThatBreakOthers are rejected until the others no longer need it.
func TestUpdatesThatBreakOthers(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("update")
	catalog := w.createCatalog("update")
	w.addPackageVersion(catalog, "update-provider", "1.0.0", "Easel")
	w.addPackageVersion(catalog, "update-user", "1.0.0", "", needsAPI("Easel"))
	w.createInstalled(newPackageExtension("update-provider", "update"))
	user := newPackageExtension("update-user", "update")
	w.createInstalled(user)

	w.addPackageVersion(catalog, "update-provider", "2.0.0", "")
	w.setCatalogVersions(catalog, "9.9.9") // The catalog has another version now.
	w.expectCondition("update-provider", olmv1.TypeProgressing, `False Blocked updating from bundle "update-provider.v1.0.0" to "update-provider.v2.0.0" would break others: `+
		`extension "update-user" (bundle "update-user.v1.0.0") needs the API Easel of deps.example.com/v1. `+
		`Update or remove those first, or keep this one back with spec.source.catalog.version`)
	w.expectCondition("update-provider", olmv1.TypeInstalled, "True")

	w.delete(user)
	w.waitUntilGone("update-user")
	w.waitForRevision("update-provider-2")
}

// TestRemovalsThatBreakOthers expects that such removals wait, unless an annotation overrides
// that.
func TestRemovalsThatBreakOthers(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("removal")
	catalog := w.createCatalog("removal")
	held := `False Blocked the removal waits: it would break others: extension "%s" (bundle "%[1]s.v1.0.0") needs package "%s". ` +
		`Remove those first, or set the annotation mainstay.dev/remove-despite-dependents: "true" on this extension`
	for _, name := range []string{"one", "two"} {
		w.addPackageVersion(catalog, "removal-provider-"+name, "1.0.0", "")
		w.addPackageVersion(catalog, "removal-user-"+name, "1.0.0", "", needsPackage("removal-provider-"+name, ""))
		w.createInstalled(newPackageExtension("removal-provider-"+name, "removal"))
		w.createInstalled(newPackageExtension("removal-user-"+name, "removal"))
		w.delete(w.getExtension("removal-provider-" + name))
		w.expectCondition("removal-provider-"+name, olmv1.TypeProgressing, fmt.Sprintf(held, "removal-user-"+name, "removal-provider-"+name))
		if set := w.waitForRevision("removal-provider-" + name + "-1"); !set.DeletionTimestamp.IsZero() {
			t.Error("the removal has started")
		}
	}

	ext := w.getExtension("removal-provider-one")
	w.PatchObject(ext, func() {
		metav1.SetMetaDataAnnotation(&ext.ObjectMeta, olmv1.AnnotationRemoveDespiteDependents, "true")
	})
	w.waitUntilGone("removal-provider-one")
	w.delete(w.getExtension("removal-user-two"))
	w.waitUntilGone("removal-provider-two")
}
