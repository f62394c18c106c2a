package reconcile_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

func TestWrittenVersions(t *testing.T) {
	newCatalog := func(version string) *olmv1.ClusterCatalog {
		return &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "catalog", ResourceVersion: version}}
	}
	w := &reconcile.WrittenVersions{}
	if w.IsOutdated(newCatalog("1")) {
		t.Error("got a catalog that was never written as outdated")
	}

	w.Add(newCatalog("10"))
	for version, want := range map[string]bool{"9": true, "10": false, "11": false} {
		if got := w.IsOutdated(newCatalog(version)); got != want {
			t.Errorf("version %s after a write of version 10: got outdated %t, want %t", version, got, want)
		}
	}

	w.Remove(types.NamespacedName{Name: "catalog"})
	if w.IsOutdated(newCatalog("9")) {
		t.Error("got a catalog as outdated after it was removed")
	}
}
