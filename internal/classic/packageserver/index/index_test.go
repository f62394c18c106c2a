package index_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

func pack(t testing.TB, name, says string) *index.Package {
	t.Helper()
	p, err := index.NewPacker().Pack(&packagesv1.PackageStatus{PackageName: name, DefaultChannel: says}, map[string]string{"says": says}, index.Icon{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func packs(t testing.TB, names ...string) []*index.Package {
	t.Helper()
	var all []*index.Package
	for _, name := range names {
		all = append(all, pack(t, name, "x"))
	}
	return all
}

func catalog(namespace, name string, priority int) index.Catalog {
	return index.Catalog{Key: types.NamespacedName{Namespace: namespace, Name: name}, Priority: priority}
}

// seen returns the packages of a view, as NAMESPACE:CATALOG/PACKAGE.
func seen(items func(func(index.Item) bool)) []string {
	var all []string
	for item := range items {
		all = append(all, item.Namespace+":"+item.Catalog.Key.Name+"/"+item.Package.Name)
	}
	return all
}

// A namespace lists its own packages before the global ones, those of a higher priority before those of a
// lower one, and the other ones by name.
func TestOrder(t *testing.T) {
	i := index.New()
	i.Set(catalog("own", "b", 0), packs(t, "pear", "apple"))
	i.Set(catalog("own", "a", 0), packs(t, "apple"))
	i.Set(catalog("own", "z", 9), packs(t, "apple"))
	i.Set(catalog("global", "everybodys", 100), packs(t, "apple", "fig"))
	i.Set(catalog("other", "c", 0), packs(t, "kiwi"))
	snapshot, _ := i.Snapshot()
	for name, of := range map[string]struct {
		view index.View
		want []string
	}{
		"a namespace":          {index.View{Namespace: "own", Global: "global"}, []string{"own:z/apple", "own:a/apple", "own:b/apple", "own:b/pear", "own:everybodys/apple", "own:everybodys/fig"}},
		"one without catalogs": {index.View{Namespace: "empty", Global: "global"}, []string{"empty:everybodys/apple", "empty:everybodys/fig"}},
		"the global one":       {index.View{Namespace: "global", Global: "global"}, []string{"global:everybodys/apple", "global:everybodys/fig"}},
		"without a global one": {index.View{Namespace: "other"}, []string{"other:c/kiwi"}},
		"all":                  {index.View{Global: "global"}, []string{"global:everybodys/apple", "global:everybodys/fig", "other:c/kiwi", "own:z/apple", "own:a/apple", "own:b/apple", "own:b/pear"}},
		"a selection":          {index.View{Namespace: "own", Global: "global", Match: func(i index.Item) bool { return i.Package.Name == "pear" }}, []string{"own:b/pear"}},
	} {
		if diff := cmp.Diff(of.want, seen(snapshot.All(of.view))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	want := []string{"own:z/apple", "own:a/apple", "own:b/apple", "own:everybodys/apple"}
	if diff := cmp.Diff(want, seen(snapshot.Named(index.View{Namespace: "own", Global: "global"}, "apple"))); diff != "" {
		t.Errorf("by name (-want +got):\n%s", diff)
	}

	for first := range snapshot.All(index.View{Namespace: "own"}) {
		if first.Catalog.Key.Name != "z" {
			t.Errorf("got the first package of %s", first.Catalog.Key.Name)
		}
		break
	}
}

// A package is served as it was packed, with the name and publisher of its catalog.
func TestAppendJSON(t *testing.T) {
	status := packagesv1.PackageStatus{
		PackageName: "plum", DefaultChannel: "stable", Provider: operatorsv1alpha1.AppLink{Name: "Someone", URL: "https://example.com"},
		Deprecation: &packagesv1.Deprecation{Message: "use \"prune\""},
		Channels: []packagesv1.PackageChannel{{
			Name: "stable", CurrentCSV: "plum.v1", Entries: []packagesv1.ChannelEntry{{Name: "plum.v1", Version: "1.0.0"}},
			CurrentCSVDesc: packagesv1.CSVDescription{Version: "1.0.0", LongDescription: strings.Repeat("long ", 5000)},
		}},
	}

	p, err := index.NewPacker().Pack(&status, map[string]string{"provider": "Someone", "catalog": "forged"}, index.Icon{})
	if err != nil {
		t.Fatal(err)
	}

	i := index.New()
	created := time.Unix(1_700_000_000, 0)
	i.Set(index.Catalog{
		Key: types.NamespacedName{Namespace: "ns", Name: "cat"}, DisplayName: "The <cat>", Publisher: "P", Created: created, Labels: map[string]string{"team": "a"},
	}, []*index.Package{p})
	snapshot, _ := i.Snapshot()
	for item := range snapshot.All(index.View{Namespace: "ns"}) {
		text, err := item.AppendJSON([]byte("before"), "7")
		if err != nil {
			t.Fatal(err)
		}

		var got packagesv1.PackageManifest
		if err := json.Unmarshal(text[len("before"):], &got); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}

		want := packagesv1.PackageManifest{
			TypeMeta: metav1.TypeMeta{Kind: "PackageManifest", APIVersion: "packages.operators.coreos.com/v1"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "plum", Namespace: "ns", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(created),
				Labels: map[string]string{"team": "a", "provider": "Someone", "catalog": "cat", "catalog-namespace": "ns"},
			},
			Status: packagesv1.PackageManifestStatus{
				CatalogSource: "cat", CatalogSourceNamespace: "ns", CatalogSourceDisplayName: "The <cat>", CatalogSourcePublisher: "P", PackageStatus: status,
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}

	if p.Bytes() > 1000 {
		t.Errorf("got %d bytes for a text that repeats itself", p.Bytes())
	}
}

// An icon is returned as it was stored, regardless of whether it is compressed.
func TestIcons(t *testing.T) {
	for name, data := range map[string][]byte{"none": nil, "a text": []byte(strings.Repeat("<path/>", 500)), "what cannot be compressed": {1, 2, 3, 4, 5}} {
		want := index.Icon{MediaType: "image/x", ETag: index.ETag("p", `c"`, "v"), Data: data}
		p, err := index.NewPacker().Pack(&packagesv1.PackageStatus{PackageName: "p"}, nil, want)
		if err != nil {
			t.Fatal(err)
		}

		got, err := p.Icon()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || got.ETag != `"p.c.v"` {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPackagesThatAreTooLarge(t *testing.T) {
	_, err := index.NewPacker().Pack(&packagesv1.PackageStatus{PackageName: "p", DefaultChannel: strings.Repeat("x", 65<<20)}, nil, index.Icon{})
	if err == nil || !strings.Contains(err.Error(), `package "p" is too large`) {
		t.Errorf("got error %v", err)
	}
}

// The version depends only on the content. Watches are notified of changes only.
func TestVersion(t *testing.T) {
	one, two := index.New(), index.New()
	one.Set(catalog("n", "a", 0), packs(t, "apple", "fig"))
	one.Set(catalog("n", "b", 0), packs(t, "kiwi"))
	two.Set(catalog("n", "b", 0), packs(t, "pear"))
	two.Set(catalog("n", "a", 0), packs(t, "fig", "apple"))
	two.Set(catalog("n", "c", 0), packs(t, "plum"))
	before, changed := two.Snapshot()
	two.Set(catalog("n", "b", 0), packs(t, "kiwi"))
	two.Remove(types.NamespacedName{Namespace: "n", Name: "c"})
	two.Remove(types.NamespacedName{Namespace: "n", Name: "never there"})
	two.UpdateCatalog(catalog("n", "never there", 0))
	select {
	case <-changed:
	default:
		t.Error("got no notification of the change")
	}

	first, unchanged := one.Snapshot()
	second, _ := two.Snapshot()
	if first.Version() != second.Version() {
		t.Errorf("got the versions %s and %s of the same content", first.Version(), second.Version())
	}
	if before.Version() == second.Version() || first.Version() == "0" {
		t.Errorf("got the version %s of other content too", before.Version())
	}

	one.Set(catalog("n", "a", 0), packs(t, "apple", "fig"))
	select {
	case <-unchanged:
		t.Error("got a notification without a change")
	default:
	}

	named := catalog("n", "a", 0)
	named.DisplayName = "Another"
	one.UpdateCatalog(named)
	if third, _ := one.Snapshot(); third.Version() == first.Version() {
		t.Error("the name of a catalog is not in the version")
	}
}

// A snapshot and its changes result in the next snapshot.
func FuzzChanges(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{1, 5, 9}, true)
	f.Add([]byte{}, []byte{0x11, 0x22, 0xff}, false)
	cached := map[string]*index.Package{}
	for n := range 4 {
		for says := range 2 {
			cached[fmt.Sprint(n, says)] = pack(f, fmt.Sprintf("p%d", n), strconv.Itoa(says))
		}
	}

	// state creates an index. Two bits of each byte define which catalog has which package,
	// one the description, and one the display name of the catalog.
	state := func(bytes []byte) *index.Snapshot {
		type key struct{ c, p int }
		chosen := map[key]string{}
		names := map[int]string{}
		for _, b := range bytes {
			c, p := int(b&3), int(b>>2&3)
			chosen[key{c, p}] = fmt.Sprint(p, int(b>>4&1))
			names[c] = strconv.Itoa(int(b >> 5 & 1))
		}

		i := index.New()
		for c, name := range names {
			var of []*index.Package
			for k, which := range chosen {
				if k.c == c {
					of = append(of, cached[which])
				}
			}
			made := catalog(fmt.Sprintf("n%d", c/2), fmt.Sprintf("c%d", c), 0)
			made.DisplayName = name
			i.Set(made, of)
		}

		s, _ := i.Snapshot()
		return s
	}

	contents := func(s *index.Snapshot, v index.View) map[string]string {
		all := map[string]string{}
		for item := range s.All(v) {
			all[item.Catalog.Key.String()+"/"+item.Package.Name] = fmt.Sprint(item.Catalog.DisplayName, item.Package.Labels)
		}
		return all
	}

	f.Fuzz(func(t *testing.T, before, after []byte, choosy bool) {
		if len(before)+len(after) > 64 {
			return
		}
		a, b := state(before), state(after)
		for _, v := range []index.View{{}, {Namespace: "n0"}, {Namespace: "n1", Global: "n0"}} {
			if choosy {
				v.Match = func(i index.Item) bool { return i.Package.Labels["says"] == "1" }
			}
			have := contents(a, v)
			for change := range b.Changes(a, v) {
				key := change.Item.Catalog.Key.String() + "/" + change.Item.Package.Name
				_, known := have[key]
				if known == (change.Type == index.Added) {
					t.Fatalf("%s is %s", key, change.Type)
				}
				now := fmt.Sprint(change.Item.Catalog.DisplayName, change.Item.Package.Labels)
				if change.Type == index.Modified && have[key] == now {
					t.Fatalf("%s: got the change %s to the same content", key, change.Type)
				}
				have[key] = now
				if change.Type == index.Deleted {
					delete(have, key)
				}
			}
			if diff := cmp.Diff(contents(b, v), have); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
		if slices.Equal(before, after) && a.Version() != b.Version() {
			t.Fatal("got two versions of the same content")
		}
	})
}
