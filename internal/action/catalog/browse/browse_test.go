package browse_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/browse"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const kettle = `
{"schema":"olm.package","name":"kettle","defaultChannel":"stable"}
{"schema":"olm.channel","package":"kettle","name":"stable","entries":[{"name":"kettle.v1.0.0"},{"name":"kettle.v1.10.0","replaces":"kettle.v1.0.0"}]}
{"schema":"olm.channel","package":"kettle","name":"alpha","entries":[{"name":"kettle.v2.0.0-rc1"}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1.0.0","image":"example.com/kettle:1","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1.10.0","image":"example.com/kettle:1.10","properties":[
 {"type":"olm.package","value":{"packageName":"kettle","version":"1.10.0","release":"2"}},
 {"type":"olm.gvk","value":{"group":"kitchen.example.com","version":"v1","kind":"Kettle"}},
 {"type":"olm.gvk.required","value":{"group":"kitchen.example.com","version":"v1","kind":"Stove"}},
 {"type":"olm.package.required","value":{"packageName":"water","versionRange":">=1.0.0"}},
 {"type":"olm.constraint","value":{"failureMessage":"needs a cup"}},
 {"type":"olm.csv.metadata","value":{"displayName":"The Kettle","description":"Boils water.","keywords":["tea"],"minKubeVersion":"1.25.0","provider":{"name":"Kitchen"},
   "installModes":[{"type":"OwnNamespace","supported":false},{"type":"AllNamespaces","supported":true}]}}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v2.0.0-rc1","image":"example.com/kettle:2","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"2.0.0-rc1"}}]}
{"schema":"olm.deprecations","package":"kettle","entries":[{"reference":{"schema":"olm.bundle","name":"kettle.v1.0.0"},"message":"old"},{"reference":{"schema":"olm.channel","name":"alpha"},"message":"not for you"}]}
`

const pan = `
{"schema":"olm.package","name":"pan","defaultChannel":"stable","description":"Fries what a Kettle cannot."}
{"schema":"olm.channel","package":"pan","name":"stable","entries":[{"name":"pan.v1"}]}
`

func loadPackages(t *testing.T, name, text string) []*browse.Package {
	t.Helper()
	packages, err := browse.Load(name, fbc.Read(strings.NewReader(text), "catalog", fbc.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func TestLoad(t *testing.T) {
	got := loadPackages(t, "kettle", pan+kettle)
	if len(got) != 1 {
		t.Fatalf("got %d packages, want 1", len(got))
	}

	want := &browse.Package{
		Name: "kettle", DisplayName: "The Kettle", Description: "Boils water.", Provider: "Kitchen", Keywords: []string{"tea"}, DefaultChannel: "stable",
		Channels: []browse.Channel{
			{Name: "alpha", Heads: []string{"kettle.v2.0.0-rc1"}, Entries: 1, Deprecated: "not for you"},
			{Name: "stable", Heads: []string{"kettle.v1.10.0"}, Entries: 2},
		},
		Bundles: []browse.Bundle{
			{Name: "kettle.v2.0.0-rc1", Version: "2.0.0-rc1", Image: "example.com/kettle:2", Channels: []string{"alpha"}},
			{
				Name: "kettle.v1.10.0", Version: "1.10.0", Release: "2", Image: "example.com/kettle:1.10", Channels: []string{"stable"},
				Provides: []string{"Kettle.v1.kitchen.example.com"}, Requires: []string{"Stove.v1.kitchen.example.com", "needs a cup", "water >=1.0.0"},
				InstallModes: []string{"AllNamespaces"}, MinKubeVersion: "1.25.0",
			},
			{Name: "kettle.v1.0.0", Version: "1.0.0", Image: "example.com/kettle:1", Channels: []string{"stable"}, Deprecated: "old"},
		},
	}

	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		field, ok := p.Last().(cmp.StructField)
		return ok && strings.ToLower(field.Name()[:1]) == field.Name()[:1]
	}, cmp.Ignore())
	if diff := cmp.Diff(want, got[0], ignore); diff != "" {
		t.Errorf("package (-want +got):\n%s", diff)
	}
	if newest := got[0].Newest(); newest == nil || newest.Name != "kettle.v1.10.0" {
		t.Errorf("got newest %+v, want the head of the default channel", newest)
	}
}

func TestLoadInvalidBlob(t *testing.T) {
	text := strings.Replace(kettle, `"version":"1.0.0"`, `"version":[]`, 1)
	_, err := browse.Load("", fbc.Read(strings.NewReader(text), "catalog", fbc.Limits{}))
	if err == nil || !strings.Contains(err.Error(), `name "kettle.v1.0.0"`) || !strings.Contains(err.Error(), `properties[0] of type "olm.package"`) {
		t.Errorf("got error %v, want one that names the bundle and the property", err)
	}
}

func TestSearch(t *testing.T) {
	packages := loadPackages(t, "", pan+kettle)
	for name, test := range map[string]struct {
		words []string
		want  map[string][]string
		first string
	}{
		"everything":          {nil, map[string][]string{"kettle": nil, "pan": nil}, "kettle"},
		"name before text":    {[]string{"KETTLE"}, map[string][]string{"kettle": {"name", "display name", "kinds"}, "pan": {"description"}}, "kettle"},
		"all words":           {[]string{"tea", "boils"}, map[string][]string{"kettle": {"keywords", "description"}}, "kettle"},
		"one word is missing": {[]string{"tea", "fries"}, map[string][]string{}, ""},
		"kind":                {[]string{"kettle.v1.kitchen"}, map[string][]string{"kettle": {"kinds"}}, "kettle"},
	} {
		t.Run(name, func(t *testing.T) {
			found := browse.Search(packages, test.words...)
			got := map[string][]string{}
			for _, f := range found {
				got[f.Name] = f.Where
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			if len(found) > 0 && found[0].Name != test.first {
				t.Errorf("got %s first, want %s", found[0].Name, test.first)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	changed := strings.NewReplacer(
		`"defaultChannel":"stable"`, `"defaultChannel":"alpha"`,
		`{"name":"kettle.v1.0.0"},{"name":"kettle.v1.10.0","replaces":"kettle.v1.0.0"}`, `{"name":"kettle.v1.10.0"}`,
		"example.com/kettle:2", "example.com/kettle:3",
		`{"reference":{"schema":"olm.bundle","name":"kettle.v1.0.0"},"message":"old"}`, `{"reference":{"schema":"olm.package"},"message":"gone soon"}`,
	).Replace(kettle)

	got := browse.Compare(loadPackages(t, "", kettle+pan), loadPackages(t, "", changed+strings.ReplaceAll(pan, "pan", "pot")))
	if diff := cmp.Diff([]string{"pot"}, got.PackagesAdded); diff != "" {
		t.Errorf("packages added (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pan"}, got.PackagesRemoved); diff != "" {
		t.Errorf("packages removed (-want +got):\n%s", diff)
	}
	if got.Stranded() != 2 {
		t.Errorf("got %d stranded bundles, want 2", got.Stranded())
	}

	change := got.Packages[0]
	if diff := cmp.Diff([]string{"kettle.v1.0.0"}, change.Stranded); diff != "" {
		t.Errorf("stranded (-want +got):\n%s", diff)
	}
	if change.DefaultChannel != "alpha" {
		t.Errorf("got default channel %q, want alpha", change.DefaultChannel)
	}
	if diff := cmp.Diff([]string{"kettle.v2.0.0-rc1"}, change.BundlesChanged); diff != "" {
		t.Errorf("bundles changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"package"}, change.Deprecated); diff != "" {
		t.Errorf("deprecated (-want +got):\n%s", diff)
	}
	if same := browse.Compare(loadPackages(t, "", kettle), loadPackages(t, "", kettle)); len(same.Packages) != 0 {
		t.Errorf("got differences %+v between equal catalogs, want none", same)
	}
}
