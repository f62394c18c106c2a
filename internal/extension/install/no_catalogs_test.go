package install_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// TestInstalledBundleIsKeptWithoutCatalogs changes the spec of an extension whose last
// catalog was deleted.
func TestInstalledBundleIsKeptWithoutCatalogs(t *testing.T) {
	const done = "True Succeeded desired state reached"
	w := newFixture(t)
	w.createNamespace("orphaned")
	catalog := w.createCatalog("orphaned", "1.0.0")
	other := w.createCatalog("elsewhere", "1.0.0", "1.1.0")
	w.CreateForTest(newExtension("orphaned", "orphaned"))
	w.markSucceeded(w.waitForRevision("orphaned-1"))
	w.expectCondition("orphaned", olmv1.TypeProgressing, done)
	before := w.waitForRevision("orphaned-1").Annotations
	w.delete(catalog)

	// The configuration is applied to the installed bundle.
	ext := w.getExtension("orphaned")
	w.PatchObject(ext, func() { ext.Spec.Config = inlineConfig(`{"deploymentConfig":{"nodeSelector":{"disk":"ssd"}}}`) })
	second := w.waitForRevision("orphaned-2")
	w.markSucceeded(second)
	w.expectCondition("orphaned", olmv1.TypeProgressing, done)
	for _, key := range []string{
		olmv1.AnnotationBundleName, olmv1.AnnotationBundleVersion, olmv1.AnnotationBundleReference, olmv1.AnnotationPackageName,
		olmv1.AnnotationProvides, olmv1.AnnotationRequires, "mainstay.dev/bundle-image",
	} {
		if got, want := second.Annotations[key], before[key]; got != want {
			t.Errorf("annotation %s: got %q, want %q", key, got, want)
		}
	}

	// Preflight settings and the installed version are applied, too.
	ext = w.getExtension("orphaned")
	w.PatchObject(ext, func() {
		ext.Spec.Source.Catalog.Version = "1.0.0"
		ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{
			CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: olmv1.CRDUpgradeSafetyEnforcementNone},
		}}
	})

	w.expectObserved("orphaned", done)

	// Another version is not available.
	ext = w.getExtension("orphaned")
	w.PatchObject(ext, func() { ext.Spec.Source.Catalog.Version = "1.1.0" })
	w.expectCondition("orphaned", olmv1.TypeProgressing, `True Retrying error upgrading from currently installed version "1.0.0": no bundles found for package "hello-operator" matching version "1.1.0"`)

	// With a catalog, even one without the bundle, the spec is resolved again.
	w.setCatalogVersions(other)
	ext = w.getExtension("orphaned")
	w.PatchObject(ext, func() {
		ext.Spec.Source.Catalog.Version = ""
		ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"test": "elsewhere"}}
	})
	w.expectCondition("orphaned", olmv1.TypeProgressing, `True Retrying error upgrading from currently installed version "1.0.0": no bundles found for package "hello-operator"`)
	var revisions []string
	for _, revision := range w.getExtension("orphaned").Status.ActiveRevisions {
		revisions = append(revisions, revision.Name)
	}

	if diff := cmp.Diff([]string{"orphaned-2"}, revisions); diff != "" {
		t.Errorf("active revisions (-want +got):\n%s", diff)
	}
}

// expectObserved waits until Progressing has the wanted value for the latest generation.
func (w *fixture) expectObserved(name, want string) {
	w.T.Helper()
	w.Eventually("Progressing of "+name+" is "+want+" for its latest spec", func() error {
		ext := w.getExtension(name)
		for _, c := range ext.Status.Conditions {
			got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
			if c.Type == olmv1.TypeProgressing && (got != want || c.ObservedGeneration != ext.Generation) {
				return fmt.Errorf("got %s for generation %d of %d", got, c.ObservedGeneration, ext.Generation)
			}
		}
		return nil
	})
}
