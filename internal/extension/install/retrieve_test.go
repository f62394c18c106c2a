package install_test

import (
	"fmt"
	"testing"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// TestSilentRegistriesDelayNoOtherExtension has ten extensions whose bundles are in a
// registry that never answers, and one whose bundle can be pulled.
func TestSilentRegistriesDelayNoOtherExtension(t *testing.T) {
	w := newFixture(t)
	const silent, good = "silent-registry", "beside-silent-registry"
	w.createNamespace(silent)
	w.createCatalog(silent, "silent")
	var waiting []*olmv1.ClusterExtension
	for i := range 10 {
		ext := newExtension(fmt.Sprintf("%s-%d", silent, i), silent)
		ext.Spec.Source.Catalog.Selector.MatchLabels["test"] = silent
		w.CreateForTest(ext)
		waiting = append(waiting, ext)
	}

	const pulling = `True RollingOut bundle "hello-operator.vsilent": pulling image silent.example/example/hello:silent`
	for _, ext := range waiting {
		w.expectCondition(ext.Name, olmv1.TypeProgressing, pulling)
	}

	w.createNamespace(good)
	w.createCatalog(good, "1.0.0")
	w.CreateForTest(newExtension(good, good))
	w.waitForRevision(good + "-1")

	// They do not delay their own removal or a better image either.
	w.setCatalogVersions(w.getCatalog(silent), "1.1.0")
	w.Eventually("one of the extensions finds a better image", func() error {
		var sets olmv1.ClusterObjectSetList
		if err := w.List(t.Context(), &sets); err != nil {
			return err
		}
		for i := range sets.Items {
			if name := sets.Items[i].Labels[olmv1.LabelOwnerName]; name == waiting[0].Name {
				return nil
			}
		}
		return fmt.Errorf("got %d revisions, none of %s", len(sets.Items), waiting[0].Name)
	})
}

// TestAFailureIsShownUntilTheNextPullHasEnded has a registry that rejects a bundle, and then
// does not answer any more.
func TestAFailureIsShownUntilTheNextPullHasEnded(t *testing.T) {
	w := newFixture(t)
	const name = "failure-then-silence"
	w.createNamespace(name)
	catalog := w.createCatalog(name, "unreachable")
	w.CreateForTest(newExtension(name, name))
	const failed = `True Retrying bundle "hello-operator.vunreachable": registry quay.io does not answer`
	w.expectCondition(name, olmv1.TypeProgressing, failed)
	w.setCatalogVersions(catalog, "1.0.0")
	w.waitForRevision(name + "-1")
}
