package packageserver_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestServerRestarts kills the API server while packages are served. The same program then serves packages through the new one,
// and continues to watch the catalogs.
func TestServerRestarts(t *testing.T) {
	f := newFixture(t)
	first, _ := serveCatalog(t, folderOf(t, simple("fig", "1.0.0")))
	second, _ := serveCatalog(t, folderOf(t, simple("date", "1.0.0")))
	catalog := f.catalog(f.namespace, "first", first)
	f.untilPackages(f.namespace, "first/fig")

	env.RestartServer(t)

	until(t, "the API server passes requests on again", func() (bool, string) {
		err := f.client.List(t.Context(), &packagesv1.PackageManifestList{}, client.InNamespace(f.namespace))
		if err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	f.untilPackages(f.namespace, "first/fig")
	f.catalog(f.namespace, "second", second)
	f.untilPackages(f.namespace, "first/fig", "second/date")
	if err := f.client.Delete(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	f.untilPackages(f.namespace, "second/date")
}
