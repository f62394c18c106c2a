package fbc_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/bench/generate"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func loadModel(t *testing.T, blobs ...string) *fbc.Model {
	t.Helper()
	model, err := fbc.LoadModel(fbc.Read(strings.NewReader(strings.Join(blobs, "\n")), "catalog.json", fbc.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func TestModel(t *testing.T) {
	metadata := `{"type":"olm.csv.metadata","value":{"displayName":"Foo","installModes":[{"type":"AllNamespaces","supported":true},{"type":"OwnNamespace","supported":false},{"type":"SingleNamespace","supported":true}]}}`
	csv := base64.StdEncoding.EncodeToString([]byte(`{"kind":"ClusterServiceVersion","spec":{"displayName":"The Foo"}}`))
	model := loadModel(t,
		`{"schema":"olm.package","name":"bar","defaultChannel":"only"}`,
		`{"schema":"olm.bundle","package":"bar","name":"bar.v1.0.0","image":"quay.io/bar","properties":[{"type":"olm.package","value":{"packageName":"bar","version":"1.0.0"}}]}`,
		`{"schema":"olm.channel","package":"bar","name":"only","entries":[{"name":"bar.v1.0.0"}]}`,
		channelBlob("stable", entryJSON("foo.v1.1.0", `"replaces":"foo.v1.0.0"`, `"skips":["foo.v0.1.0"]`, `"skipRange":"<1.1.0"`), entryJSON("foo.v1.0.0")),
		channelBlob("beta", entryJSON("foo-v1.1.0-2")),
		bundleBlob("foo-v1.1.0-2", `"version":"1.1.0","release":"2"`),
		bundleWithProperties("foo.v1.1.0", strings.Join([]string{
			metadata, `{"type":"olm.package","value":{"packageName":"foo","version":"1.1.0"}}`,
			`{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}}`, `{"type":"olm.gvk.required","value":{"group":"h","version":"v2","kind":"L"}}`,
			`{"type":"olm.package.required","value":{"packageName":"bar","versionRange":">1.0.0"}}`,
		}, ",")),
		bundleWithProperties("foo.v1.0.0", stated1+`,{"type":"olm.bundle.object","value":{"data":"`+csv+`"}},`+metadata),
		foo,
		deprecationsBlob(deprecationJSON("olm.package", "", "old"), deprecationJSON("olm.channel", "beta", "older"), deprecationJSON("olm.bundle", "foo.v1.0.0", "oldest")),
		`{"schema":"other","package":"bar"}`,
	)
	if len(model.Packages) != 2 || model.Packages[0].Name != "bar" || model.Package("foo") != model.Packages[1] || model.Package("baz") != nil {
		t.Fatalf("got the packages %v, want bar and foo", model.Packages)
	}

	p := model.Package("foo")
	if p.DefaultChannel != "stable" || p.Deprecation != "old" || p.At.Document != 9 {
		t.Errorf("package: %+v", p)
	}

	var names []string
	for _, b := range p.Bundles {
		names = append(names, b.Name)
	}

	if diff := cmp.Diff([]string{"foo.v1.0.0", "foo.v1.1.0", "foo-v1.1.0-2"}, names); diff != "" {
		t.Errorf("bundles by version and release (-want +got):\n%s", diff)
	}
	if p.Bundle("foo.v1.1.0") != p.Bundles[1] || p.Bundle("x") != nil {
		t.Error("a bundle cannot be found by its name")
	}

	checkChannels(t, p)
	checkBundles(t, p)
}

func checkChannels(t *testing.T, p *fbc.ModelPackage) {
	t.Helper()
	if len(p.Channels) != 2 || p.Channels[0].Name != "beta" || p.Channel("stable") != p.Channels[1] || p.Channel("x") != nil {
		t.Fatalf("got the channels %v, want beta and stable", p.Channels)
	}
	if beta := p.Channel("beta"); beta.Deprecation != "older" || beta.Head == nil || beta.Head.Bundle.Release != "2" || beta.At.Document != 5 {
		t.Errorf("got the channel %+v, want beta with its deprecation, head and position", beta)
	}

	stable := p.Channel("stable")
	if stable.Deprecation != "" || stable.Head != stable.Entry("foo.v1.1.0") || stable.Entry("x") != nil || stable.Entry("foo.v1.0.0").Bundle != p.Bundles[0] {
		t.Errorf("channel: %+v", stable)
	}

	want := fbc.ChannelEntry{Name: "foo.v1.1.0", Replaces: "foo.v1.0.0", Skips: []string{"foo.v0.1.0"}, SkipRange: "<1.1.0"}
	if diff := cmp.Diff(want, stable.Entries[0].ChannelEntry); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

func checkBundles(t *testing.T, p *fbc.ModelPackage) {
	t.Helper()
	b := p.Bundle("foo.v1.1.0")
	type facts struct {
		Image, Version, DisplayName, Deprecation string
		HasCSV                                   bool
		Provides, Requires                       []fbc.GVK
		Packages                                 []fbc.PackageRequired
		InstallModes                             []string
		Document                                 int
	}

	want := facts{
		Image: "quay.io/foo/foo:1", Version: "1.1.0", DisplayName: "Foo", Document: 7,
		Provides: []fbc.GVK{{Group: "g", Version: "v1", Kind: "K"}}, Requires: []fbc.GVK{{Group: "h", Version: "v2", Kind: "L"}},
		Packages: []fbc.PackageRequired{{PackageName: "bar", VersionRange: ">1.0.0"}}, InstallModes: []string{"AllNamespaces", "SingleNamespace"},
	}
	got := facts{b.Image, b.VersionRelease().String(), b.DisplayName, b.Deprecation, b.HasCSV, b.Provides, b.Requires, b.RequiresPackages, b.InstallModes, b.At.Document}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	if b := p.Bundle("foo.v1.0.0"); b.DisplayName != "The Foo" || !b.HasCSV || b.Deprecation != "oldest" {
		t.Errorf("got %+v, want the values of the CSV", b)
	}
}

// An invalid catalog must have a model of its valid parts.
func TestModelOfAWrongCatalog(t *testing.T) {
	blobs := []string{foo, foo, stableChannel("foo.v1.0.0", "foo.v9.0.0"), channelBlob("", entryJSON("x")), bundleOfVersion("1.0.0"), bundleBlob("foo.v2.0.0", `"version":"two"`), `{"schema":"olm.bundle","package":"foo","name":"broken","image":1}`}
	model, err := fbc.LoadModel(fbc.Read(strings.NewReader(strings.Join(blobs, "\n")), "catalog.json", fbc.Limits{}))
	if err == nil || model == nil {
		t.Fatalf("got model %v, error %v, want both", model, err)
	}

	p := model.Package("foo")
	if len(p.Bundles) != 2 || len(p.Channels) != 1 || p.Channels[0].Entry("foo.v9.0.0").Bundle != nil || p.Channels[0].Entry("foo.v1.0.0").Bundle == nil {
		t.Errorf("package: %+v", p)
	}
}

// Reading on all processors with reused buffers must return the same model as sequential reading.
func TestModelAtOnce(t *testing.T) {
	dir := t.TempDir()
	if _, err := generate.Catalog(dir, generate.Size{Packages: 5, Bundles: 100}); err != nil {
		t.Fatal(err)
	}
	checkSameModel(t, dir)
}

func checkSameModel(t *testing.T, dir string) *fbc.Model {
	t.Helper()
	atOnce, err := fbc.LoadModelFS(os.DirFS(dir), fbc.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	oneByOne, err := fbc.LoadModel(fbc.Walk(os.DirFS(dir), fbc.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(oneByOne, atOnce); diff != "" || len(atOnce.Packages) == 0 {
		t.Errorf("%d packages (-sequential +parallel):\n%s", len(atOnce.Packages), diff)
	}

	return atOnce
}

func TestModelOfRealCatalogs(t *testing.T) {
	for _, p := range checkSameModel(t, realCatalogsFolder(t)).Packages {
		for _, channel := range p.Channels {
			if channel.Head == nil || channel.Head.Bundle == nil {
				t.Errorf("package %s, channel %s: got no head, want one", p.Name, channel.Name)
			}
		}
		for _, b := range p.Bundles {
			if b.Image == "" || b.DisplayName == "" || len(b.InstallModes) == 0 || b.At.File == "" {
				t.Errorf("bundle %s: got %+v, want an image, a display name, install modes and a position", b.Name, b)
			}
		}
	}
}

// realCatalogsFolder returns the folder of real catalogs next to the repository. It skips the test
// if it does not exist.
func realCatalogsFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	for ; ; dir = filepath.Dir(dir) {
		catalogs := filepath.Join(filepath.Dir(dir), "shared", "data", "fbc")
		if _, err := os.Stat(catalogs); err == nil {
			return catalogs
		}
		if dir == filepath.Dir(dir) {
			t.Skip("there is no folder shared/data/fbc next to the repository")
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	dir := b.TempDir()
	size, err := generate.Catalog(dir, generate.MB10)
	if err != nil {
		b.Fatal(err)
	}

	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := fbc.ValidateFS(os.DirFS(dir), fbc.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkModel builds a model from summaries.
func BenchmarkModel(b *testing.B) {
	dir := b.TempDir()
	if _, err := generate.Catalog(dir, generate.MB10); err != nil {
		b.Fatal(err)
	}

	var summaries []fbc.Summary
	for meta, err := range fbc.Walk(os.DirFS(dir), fbc.Limits{}) {
		if err != nil {
			b.Fatal(err)
		}
		summaries = append(summaries, fbc.Summarize(meta))
	}

	b.ReportAllocs()
	for b.Loop() {
		var builder fbc.Builder
		for _, s := range summaries {
			if err := builder.Add(s); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := builder.Model(); err != nil {
			b.Fatal(err)
		}
	}
}
