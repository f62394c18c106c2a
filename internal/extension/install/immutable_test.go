package install_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// TestInstalledBundlesAreNotReinstalled: a catalog that lists an installed bundle with another
// image changes nothing, until there is another version.
func TestInstalledBundlesAreNotReinstalled(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("immutable")
	catalog := w.createCatalog("immutable", "1.0.0")
	w.CreateForTest(newExtension("immutable", "immutable"))
	w.markSucceeded(w.waitForRevision("immutable-1"))
	w.expectCondition("immutable", olmv1.TypeInstalled, "True")

	base := "https://catalogd/catalogs/immutable"
	w.setCatalogVersions(catalog, "1.0.0")
	w.mu.Lock()
	changed := *w.content[base]
	changed.Bundles = []fbc.Bundle{changed.Bundles[0]}
	changed.Bundles[0].Image = "quay.io/example/hello:1.1.0"
	changed.Deprecations = &fbc.Deprecations{Entries: []fbc.DeprecationEntry{{Reference: fbc.DeprecationReference{Schema: fbc.SchemaPackage}, Message: "read again"}}}
	w.content[base] = &changed
	w.mu.Unlock()
	ext := w.getExtension("immutable")
	w.PatchObject(ext, func() { ext.Annotations = map[string]string{"test": "again"} })
	w.expectCondition("immutable", olmv1.TypeDeprecated, "True Deprecated read again")
	var sets olmv1.ClusterObjectSetList
	if err := w.List(t.Context(), &sets, client.MatchingLabels{olmv1.LabelOwnerName: "immutable"}); err != nil {
		t.Fatal(err)
	}
	if len(sets.Items) != 1 {
		t.Errorf("got %d revisions", len(sets.Items))
	}

	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")
	if got, want := w.waitForRevision("immutable-2").Annotations[olmv1.AnnotationBundleVersion], "1.1.0"; got != want {
		t.Errorf("got version %s, want %s", got, want)
	}
}
