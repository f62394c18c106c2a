package reconcile_test

import (
	"errors"
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
	if err := w.CheckOutdated(newCatalog("1")); err != nil {
		t.Errorf("a catalog that was never written: got error %v, want nil", err)
	}

	for version, want := range map[string]bool{"9": true, "10": false, "11": false} {
		w.Add(newCatalog("10"))
		err := w.CheckOutdated(newCatalog(version))
		if got := errors.Is(err, reconcile.ErrOutdatedCache) && reconcile.IsWait(err); got != want {
			t.Errorf("version %s after a write of version 10: got error %v, want one that waits: %t", version, err, want)
		}
	}

	w.Add(newCatalog("10"))
	w.Remove(types.NamespacedName{Name: "catalog"})
	if err := w.CheckOutdated(newCatalog("9")); err != nil {
		t.Errorf("after the catalog was removed: got error %v, want nil", err)
	}
}
