package content

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// stream is a source of JSON blobs.
func stream(text string) Stream {
	return Stream{
		Name: "test",
		All: func(yield func(fbc.Meta, error) bool) {
			fbc.Read(strings.NewReader(text), "test", fbc.Limits{})(yield)
		},
		Checksum: func(context.Context) (uint64, error) { return 1, nil },
	}
}

// minimal is a catalog of one package and one bundle, which has further properties.
func minimal(image string, properties ...string) string {
	properties = append([]string{`{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}`}, properties...)
	return fmt.Sprintf(`{"schema":"olm.package","name":"a","defaultChannel":"x"}
{"schema":"olm.channel","package":"a","name":"x","entries":[{"name":"a.v1"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":%q,"properties":[%s]}`, image, strings.Join(properties, ","))
}

// theBundle returns the one bundle of a catalog as a client receives it.
func theBundle(t *testing.T, catalog string) (*registrypb.Bundle, error) {
	t.Helper()
	content := mustOpen(t, quiet(""), stream(catalog))
	for place := range content.Places() {
		sent, err := content.Bundle(place)
		if err != nil {
			return nil, err
		}

		wire, err := proto.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}

		got := &registrypb.Bundle{}
		if err := proto.Unmarshal(wire, got); err != nil {
			t.Fatal(err)
		}

		return got, nil
	}

	t.Fatal("there is no bundle")
	return nil, nil
}

func manifest(text string) string {
	return fmt.Sprintf(`{"type":"olm.bundle.object","value":{"data":%q}}`, base64.StdEncoding.EncodeToString([]byte(text)))
}

func TestManifests(t *testing.T) {
	const image = "registry.example.com/a:v1"
	metadata := `{"type":"olm.csv.metadata","value":{"displayName":"A"}}`
	made := `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"a.v1"},` +
		`"spec":{"displayName":"A","install":{"spec":{"deployments":null},"strategy":"deployment"},"version":"1.0.0"}}`
	sparse := strings.Replace(made, `"displayName":"A",`, "", 1)
	csv := `{"kind":"ClusterServiceVersion","metadata":{"name":"a.v1"}}`
	for _, test := range []struct {
		name       string
		properties []string
		csv        string
		manifests  []string
	}{
		{name: "nothing"},
		{name: "metadata alone", properties: []string{metadata}, csv: made, manifests: []string{made}},
		{name: "manifests alone", properties: []string{manifest(`{"kind":"Role"}`), manifest(csv)}, csv: csv, manifests: []string{`{"kind":"Role"}`, csv}},
		{name: "both", properties: []string{metadata, manifest(csv)}, csv: csv, manifests: []string{csv}},
		{name: "metadata and manifests without a CSV", properties: []string{metadata, manifest(`{"kind":"Role"}`)}, csv: made, manifests: []string{`{"kind":"Role"}`}},
		{name: "two CSVs", properties: []string{manifest(csv), manifest(`{"kind":"ClusterServiceVersion"}`)}, csv: csv, manifests: []string{csv, `{"kind":"ClusterServiceVersion"}`}},
		{name: "YAML", properties: []string{manifest("kind: Role\nrules: []\n")}, manifests: []string{`{"kind":"Role","rules":[]}`}},
		{name: "JSON with blanks", properties: []string{manifest("{ \"kind\" : \"Role\" }\n")}, manifests: []string{`{"kind":"Role"}`}},
		{name: "not UTF-8", properties: []string{manifest("{\"kind\":\"Role\xff\"}")}, manifests: []string{"{\"kind\":\"Role\ufffd\"}"}},
		{name: "nulls", properties: []string{`{"type":"olm.csv.metadata","value":{"annotations":null}}`},
			csv:       `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"annotations":null,"name":"a.v1"},"spec":{"install":{"spec":{"deployments":null},"strategy":"deployment"},"version":"1.0.0"}}`,
			manifests: []string{`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"annotations":null,"name":"a.v1"},"spec":{"install":{"spec":{"deployments":null},"strategy":"deployment"},"version":"1.0.0"}}`}},
		{name: "null metadata", properties: []string{`{"type":"olm.csv.metadata","value":null}`}, csv: sparse, manifests: []string{sparse}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := theBundle(t, minimal(image, test.properties...))
			if err != nil {
				t.Fatal(err)
			}
			want := &registrypb.Bundle{
				CsvName: "a.v1", PackageName: "a", ChannelName: "x", BundlePath: image, Version: "1.0.0",
				Properties: []*registrypb.Property{{Type: "olm.package", Value: `{"packageName":"a","version":"1.0.0"}`}},
				CsvJson:    test.csv, Object: test.manifests,
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidCatalogsAreRefused(t *testing.T) {
	const head = `{"schema":"olm.package","name":"a","defaultChannel":"x"}` + "\n"
	for name, test := range map[string]struct{ catalog, want string }{
		"two olm.package properties": {
			minimal("registry.example.com/a", `{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}`),
			`process package "a": package "a" bundle "a.v1" must have exactly 1 "olm.package" property, found 2`,
		},
		"two olm.csv.metadata properties": {
			minimal("registry.example.com/a", `{"type":"olm.csv.metadata","value":{}}`, `{"type":"olm.csv.metadata","value":{}}`),
			`process package "a": bundle "a.v1": parse properties: expected at most 1 property of type "olm.csv.metadata", found 2`,
		},
		"a property that cannot be read": {
			minimal("registry.example.com/a", `{"type":"olm.gvk","value":[]}`),
			`process package "a": parse properties for bundle "a.v1": parse property[1] of type "olm.gvk": json: cannot unmarshal array`,
		},
		"no image and no manifests": {
			minimal(""), "process package \"a\": invalid index:\n└── invalid package \"a\":\n    └── invalid channel \"x\":\n        └── invalid bundle \"a.v1\":\n            └── bundle image must be set",
		},
		"a channel of no package":       {`{"schema":"olm.channel","package":"b","name":"x","entries":[]}`, `process package "b": unknown package "b" for channel "x"`},
		"an entry without a bundle":     {head + `{"schema":"olm.channel","package":"a","name":"x","entries":[{"name":"a.v1"}]}`, `process package "a": `},
		"the first package is named":    {minimal("") + "\n" + strings.ReplaceAll(minimal(""), `"a`, `"A`), `process package "A": `},
		"a manifest that is not base64": {minimal("", `{"type":"olm.bundle.object","value":{"data":"?"}}`), `process package "a": read bundle objects: package "a", bundle "a.v1": parse property at index 1 as bundle object: illegal base64`},
	} {
		_, err := quiet("").Open(t.Context(), stream(test.catalog))
		want := `failed to load or rebuild cache: failed to rebuild cache: build package index: ` + test.want
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", name, err, want)
		}
	}
}

// A database may break the rules of catalogs. It is served except for channels without a head.
func TestUncheckedCatalogIsServed(t *testing.T) {
	bundle := func(name, version, more string) string {
		return fmt.Sprintf(`{"schema":"olm.bundle","package":"a","name":%q,"image":"registry.example.com/%[1]s","properties":[%s%s]}`+"\n", name, version, more)
	}
	version := `{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}`
	source := stream(`{"schema":"olm.package","name":"a","defaultChannel":"none"}
{"schema":"olm.channel","package":"a","name":"two-heads","entries":[{"name":"a.v1"},{"name":"a.v2"},{"name":"a.v9"}]}
{"schema":"olm.channel","package":"a","name":"one-head","entries":[{"name":"a.v2","replaces":"a.v1"},{"name":"a.v1"}]}
{"schema":"olm.channel","package":"b","name":"x","entries":[{"name":"b.v1"}]}
` + bundle("a.v1", "", "") + bundle("a.v2", version, `,{"type":"olm.gvk","value":1}`) + bundle("a.v2", version, "") + bundle("a.v3", `1`, ""))
	if _, err := quiet("").Open(t.Context(), source); err == nil {
		t.Fatal("the catalog breaks no rule")
	}

	source.Database = true
	content := mustOpen(t, quiet(""), source)
	got := map[string][]string{}
	for p := range content.Packages() {
		for c := range p.Channels {
			channel := &p.Channels[c]
			head := "no head"
			if h := channel.Head(); h != nil {
				head = h.Name
			}

			key := p.Name + "/" + channel.Name + ": " + head
			got[key] = []string{}
			for e := range channel.Entries {
				got[key] = append(got[key], channel.Entries[e].Name)
				if _, err := content.Bundle(Place{p, channel, &channel.Entries[e]}); err != nil {
					t.Error(err)
				}
			}
		}
	}

	want := map[string][]string{
		"a/none: no head":      {},
		"a/one-head: a.v2":     {"a.v1", "a.v2"},
		"a/two-heads: no head": {"a.v1", "a.v2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The first of two blobs with the same name counts, in the index and in later reads.
func TestFirstOfDuplicatesIsKept(t *testing.T) {
	bundle := func(image string) string {
		return `{"schema":"olm.bundle","package":"a","name":"a.v1","image":"` + image + `","properties":[` +
			`{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"displayName":"` + image + `"}}]}`
	}
	source := stream(`{"schema":"olm.package","name":"a","defaultChannel":"x","description":"one"}
{"schema":"olm.package","name":"a","defaultChannel":"y","description":"two"}
{"schema":"olm.channel","package":"a","name":"x","entries":[{"name":"a.v1"}]}
` + bundle("example.com/one") + bundle("example.com/two"))
	source.Database = true
	content := mustOpen(t, quiet(""), source)
	p := content.Package("a")
	got, err := content.Bundle(Place{p, p.Channel("x"), p.Channel("x").Entry("a.v1")})
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{`"description":"one"`, `"displayName":"example.com/one"`} {
		if !strings.Contains(got.GetCsvJson(), want) {
			t.Errorf("got no %s in %s", want, got.GetCsvJson())
		}
	}

	wire, err := proto.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if sent := new(registrypb.Bundle); proto.Unmarshal(wire, sent) != nil || sent.GetBundlePath() != "example.com/one" || p.DefaultChannel != "x" {
		t.Errorf("got the image %s and the default channel %s", sent.GetBundlePath(), p.DefaultChannel)
	}
}

func TestSynthesizedCSVUsesPackage(t *testing.T) {
	const head = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"a.v1"},"spec":{`
	const tail = `"install":{"spec":{"deployments":null},"strategy":"deployment"},"version":""}}`
	for _, test := range []struct{ metadata, pkg, want string }{
		{`{}`, `{}`, ``},
		{`{}`, `{"description":null,"icon":null}`, ``},
		{`{}`, `{"description":"p","icon":{}}`, `"description":"p","icon":[{}],`},
		{`{"description":"b"}`, `{"description":"p"}`, `"description":"b",`},
		{`{"description":""}`, `{"description":"p"}`, `"description":"p",`},
		{`{"description":""}`, `{}`, `"description":"",`},
	} {
		got := synthesizeCSV(&fbc.Bundle{Name: "a.v1"}, []byte(test.metadata), []byte(test.pkg))
		if want := head + test.want + tail; got != want {
			t.Errorf("%s of %s: got\n%s, want\n%s", test.metadata, test.pkg, got, want)
		}
	}
}

func TestInvalidManifests(t *testing.T) {
	for _, property := range []string{
		`{"type":"olm.bundle.object","value":{"data":"not base64!"}}`,
		`{"type":"olm.bundle.object","value":"x"}`,
		manifest(""), manifest("{"), manifest("- a list"), manifest("[1]"), manifest(`"text"`), manifest("a: b: c"),
		manifest("a: \"" + strings.Repeat("x", maxYAMLBytes) + "\""),
	} {
		source := stream(minimal("registry.example.com/a", property))
		source.Database = true
		content := mustOpen(t, quiet(""), source)
		for place := range content.Places() {
			_, err := content.Bundle(place)
			if err == nil || !strings.HasPrefix(err.Error(), `package "a", bundle "a.v1": parse property at index 1 as bundle object: `) {
				t.Errorf("%.60s: got error %v", property, err)
			}
			if _, err := content.Summary(place); err != nil {
				t.Errorf("%.60s: got error %v without its manifests", property, err)
			}
		}
	}
}

// Summaries are stored in groups between the blobs. Each bundle has its own summary.
func TestSummariesOfManyBundles(t *testing.T) {
	const bundles = 40
	filler := strings.Repeat("x", summaryRunBytes/10)
	var catalog strings.Builder
	catalog.WriteString(`{"schema":"olm.package","name":"a","defaultChannel":"x"}` + "\n")
	var entries []string
	for i := range bundles {
		name := fmt.Sprintf("a.v%02d", i)
		entries = append(entries, fmt.Sprintf(`{"name":%q,"replaces":"a.v%02d"}`, name, i-1))
		fmt.Fprintf(&catalog, `{"schema":"olm.bundle","package":"a","name":%q,"image":"registry.example.com/a:%[1]s","properties":[`+
			`{"type":"olm.package","value":{"packageName":"a","version":"1.0.%d"}},{"type":"filler","value":%q}]}`+"\n", name, i, filler)
	}

	fmt.Fprintf(&catalog, `{"schema":"olm.channel","package":"a","name":"x","entries":[%s]}`, strings.Join(entries, ","))
	content := mustOpen(t, quiet(""), stream(catalog.String()))
	n := 0
	for place := range content.PlacesByChannel() {
		sent, err := content.Summary(place)
		if err != nil {
			t.Fatal(err)
		}

		wire, err := proto.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}

		got := &registrypb.Bundle{}
		if err := proto.Unmarshal(wire, got); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("1.0.%d", n); got.GetCsvName() != place.Entry.Name || got.GetVersion() != want {
			t.Errorf("bundle %d: got %s, version %s, want %s, version %s", n, got.GetCsvName(), got.GetVersion(), place.Entry.Name, want)
		}

		n++
	}

	if n != bundles {
		t.Errorf("%d bundles, want %d", n, bundles)
	}
}

func TestBuildEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	source, blobs := stream(minimal("registry.example.com/a")), 0
	all := source.All
	source.All = func(yield func(fbc.Meta, error) bool) {
		for meta, err := range all {
			blobs++
			cancel()
			if !yield(meta, err) {
				return
			}
		}
	}
	if _, err := quiet("").Open(ctx, source); !errors.Is(err, context.Canceled) || blobs != 1 {
		t.Errorf("after %d blobs: got error %v", blobs, err)
	}
}

// Built content can be read again, also if a bundle has a property twice.
func TestDuplicateProvidedAPI(t *testing.T) {
	gvk := `{"type":"olm.gvk","value":{"group":"g","kind":"K","version":"v"}}`
	dir, source := t.TempDir(), stream(minimal("registry.example.com/a", gvk, gvk))
	fill(t, dir, source)
	n := 0
	for range mustOpen(t, quiet(dir), source).Providers(fbc.GVK{Group: "g", Kind: "K", Version: "v"}) {
		n++
	}

	if n != 1 {
		t.Errorf("got %d entries, want 1", n)
	}
}

func TestBuildFailsWithStreamError(t *testing.T) {
	broken := errors.New("the database is locked")
	source := stream("")
	source.All = func(yield func(fbc.Meta, error) bool) { yield(fbc.Meta{}, broken) }
	if _, err := quiet("").Open(t.Context(), source); !errors.Is(err, broken) {
		t.Errorf("got error %v", err)
	}

	source.Checksum = func(context.Context) (uint64, error) { return 0, broken }
	if _, err := with(quiet(t.TempDir()), func(c *Cache) { c.Integrity = EnforceIntegrity }).Open(t.Context(), source); !errors.Is(err, broken) {
		t.Errorf("got error %v", err)
	}
}

func TestStreamIsNotReadWithValidCache(t *testing.T) {
	dir, source := t.TempDir(), stream(minimal("registry.example.com/a"))
	fill(t, dir, source)
	source.All = func(func(fbc.Meta, error) bool) { t.Error("the stream is read") }
	if n := len(mustOpen(t, quiet(dir), source).packages); n != 1 {
		t.Errorf("got %d packages", n)
	}
}
