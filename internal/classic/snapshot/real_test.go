package snapshot_test

import (
	"encoding/json"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// From any entry of any real channel, updates lead to the entry that
// no other entry replaces. Each update follows an edge of the channel.
func TestRealCatalogs(t *testing.T) {
	dir := checkout.SharedData(t, "fbc")
	catalog := serveReal(t, dir)
	started := 0
	for meta, err := range fbc.Walk(os.DirFS(dir), fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		if meta.Schema != fbc.SchemaChannel {
			continue
		}

		channel, err := fbc.DecodeChannel(meta)
		if err != nil {
			t.Fatal(err)
		}

		head := headOf(channel)
		for _, entry := range channel.Entries {
			e := catalog.Find(channel.Package, channel.Name, entry.Name)
			if e == nil {
				t.Errorf("%s/%s: entry %s is not in the snapshot", channel.Package, channel.Name, entry.Name)
				continue
			}
			started++
			if last := walk(t, catalog, e, len(channel.Entries)); last != head {
				t.Errorf("%s/%s: updates of %s: got %s as the last one, want %s", channel.Package, channel.Name, entry.Name, last, head)
			}
		}
	}

	if started == 0 {
		t.Error("there are no channels")
	}
}

// headOf returns the entry that no other one updates.
func headOf(channel *fbc.Channel) string {
	replaced := map[string]bool{}
	for _, e := range channel.Entries {
		replaced[e.Replaces] = true
		for _, name := range e.Skips {
			replaced[name] = true
		}
	}

	for _, e := range channel.Entries {
		if !replaced[e.Name] {
			return e.Name
		}
	}
	return ""
}

// walk installs an entry and its updates one by one, and returns the name of the last one.
func walk(t *testing.T, catalog *resolution.Snapshot, e *resolution.Entry, most int) string {
	t.Helper()
	for range most + 1 {
		properties, err := json.Marshal(map[string]any{"properties": e.Properties})
		if err != nil {
			t.Fatal(err)
		}

		csv := v1alpha1.ClusterServiceVersion{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: e.Name, Annotations: map[string]string{csvinfo.AnnotationProperties: string(properties)}},
			Spec:       v1alpha1.ClusterServiceVersionSpec{Version: v1alpha1.LooseVersion(e.Version)},
		}
		sub := &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sub"},
			Spec:       v1alpha1.SubscriptionSpec{CatalogSource: catalog.Catalog.Name, CatalogSourceNamespace: catalog.Catalog.Namespace, Package: e.Package, Channel: e.Channel},
			Status:     v1alpha1.SubscriptionStatus{InstalledCSV: e.Name},
		}
		choices, err := resolution.Resolve(resolution.Input{
			Namespace: "ns", Offers: []resolution.Offer{{Snapshot: catalog}}, Subscriptions: []*v1alpha1.Subscription{sub}, CSVs: []v1alpha1.ClusterServiceVersion{csv},
		})
		switch {
		case err != nil:
			t.Fatalf("with %s installed: got error %v", e.Name, err)
		case len(choices) == 0:
			return e.Name
		case choices[0].Replaces != e.Name:
			t.Fatalf("with %s installed: got %s, which replaces %s", e.Name, choices[0].Name, choices[0].Replaces)
		}

		e = choices[0].Entry
	}

	t.Fatalf("the updates do not end: %s is repeated", e.Name)
	return ""
}

// serveReal returns a snapshot of a file-based catalog.
func serveReal(t *testing.T, dir string) *resolution.Snapshot {
	t.Helper()
	key := named(t)
	got, err := snapshot.New(clients{key: catalogserver.Dial(t, catalogserver.ServeFolder(t, dir))}, nil).Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}

	return got
}
