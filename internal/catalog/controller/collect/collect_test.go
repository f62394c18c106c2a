package collect_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/collect"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// stored returns a store with content for the named catalogs.
func stored(t *testing.T, names ...string) *catalogstore.Store {
	t.Helper()
	s, err := catalogstore.Open(t.TempDir(), catalogstore.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(s.Close)
	for _, name := range names {
		_, err := s.Unpack(t.Context(), name, catalogstore.Source{}, fstest.MapFS{"c.json": {Data: []byte(`{"schema":"x"}`)}})
		if err != nil {
			t.Fatal(err)
		}
	}

	return s
}

// create creates a catalog.
func create(t *testing.T, c client.Client, name string, mode olmv1.AvailabilityMode) {
	t.Helper()
	catalog := &olmv1.ClusterCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: olmv1.ClusterCatalogSpec{
			AvailabilityMode: mode,
			Source:           olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "registry.example/catalog:v1"}},
		},
	}
	if err := c.Create(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = c.Delete(context.Background(), catalog) })
}

func TestUnusedContentIsRemoved(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	create(t, c, "wanted", olmv1.AvailabilityModeAvailable)
	create(t, c, "disabled", olmv1.AvailabilityModeUnavailable)
	create(t, c, "not-stored", olmv1.AvailabilityModeAvailable)
	s := stored(t, "wanted", "disabled", "gone")
	collector := &collect.Collector{Reader: c, Store: s}
	if collector.NeedLeaderElection() {
		t.Error("the collector requires leader election, want it to run on each replica, which has its own store")
	}
	if err := collector.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"wanted"}, s.Names()); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// failing is a reader that cannot list.
type failing struct{ client.Reader }

func (failing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}

func TestWithoutTheAPIServerNothingIsRemoved(t *testing.T) {
	s := stored(t, "a", "b")
	collector := &collect.Collector{Reader: failing{}, Store: s}
	if err := collector.Collect(t.Context()); err == nil {
		t.Error("got no error, want one")
	}
	if err := collector.Start(t.Context()); err != nil {
		t.Errorf("got error %v from Start after a failed collection, want none", err)
	}
	if got := s.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got stored catalogs %v, want a and b", got)
	}
	// If nothing is stored, the API server is not used.
	if err := (&collect.Collector{Reader: failing{}, Store: stored(t)}).Collect(t.Context()); err != nil {
		t.Error(err)
	}
}
