package fbc_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// The following functions return blobs for the package foo.

const foo = `{"schema":"olm.package","name":"foo","defaultChannel":"stable"}`

func channelBlob(name string, entries ...string) string {
	return fmt.Sprintf(`{"schema":"olm.channel","package":"foo","name":%q,"entries":[%s]}`, name, strings.Join(entries, ","))
}

// entryJSON returns an entry with a name and further fields as JSON.
func entryJSON(name string, fields ...string) string {
	return "{" + strings.Join(append([]string{fmt.Sprintf(`"name":%q`, name)}, fields...), ",") + "}"
}

func stableChannel(names ...string) string {
	entries := make([]string, len(names))
	for i, name := range names {
		entries[i] = entryJSON(name)
		if i > 0 {
			entries[i] = entryJSON(name, fmt.Sprintf(`"replaces":%q`, names[i-1]))
		}
	}

	return channelBlob("stable", entries...)
}

const image = `"image":"quay.io/foo/foo:1"`

// bundleBlob returns a bundle with a name and, as JSON, the fields of its olm.package property
// except the package name, and further fields.
func bundleBlob(name, stated string, fields ...string) string {
	return bundleWithProperties(name, fmt.Sprintf(`{"type":"olm.package","value":{"packageName":"foo",%s}}`, stated), fields...)
}

func bundleWithProperties(name, properties string, fields ...string) string {
	if len(fields) == 0 {
		fields = []string{image}
	}
	return fmt.Sprintf(`{"schema":"olm.bundle","package":"foo","name":%q,"properties":[%s],%s}`, name, properties, strings.Join(fields, ","))
}

// bundleOfVersion returns a bundle foo.v<version>.
func bundleOfVersion(v string) string { return bundleBlob("foo.v"+v, fmt.Sprintf(`"version":%q`, v)) }

func deprecationsBlob(entries ...string) string {
	return fmt.Sprintf(`{"schema":"olm.deprecations","package":"foo","entries":[%s]}`, strings.Join(entries, ","))
}

func deprecationJSON(schema, name, message string) string {
	return fmt.Sprintf(`{"reference":{"schema":%q,"name":%q},"message":%q}`, schema, name, message)
}

const stated1 = `{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}`

// catalogOfOneBundle returns a catalog of a bundle with these properties.
func catalogOfOneBundle(properties string, fields ...string) []string {
	return []string{foo, stableChannel("foo.v1.0.0"), bundleWithProperties("foo.v1.0.0", properties, fields...)}
}

func validateBlobs(blobs ...string) error {
	return fbc.Validate(fbc.Read(strings.NewReader(strings.Join(blobs, "\n")), "catalog.json", fbc.Limits{}))
}

// Each of these catalogs has one fault. The error has the text of opm and no other faults.
func TestValidateSaysTheFault(t *testing.T) {
	const good = `"version":"1.0.0"`
	cases := map[string]struct {
		blobs []string
		want  string
	}{
		"nothing":                 {[]string{}, ""},
		"one bundle":              {[]string{foo, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, ""},
		"several":                 {[]string{foo, stableChannel("foo.v1.0.0", "foo.v1.1.0"), bundleOfVersion("1.0.0"), bundleOfVersion("1.1.0")}, ""},
		"a schema of its own":     {[]string{`{"schema":"a","x":1}`, `{"schema":"olm.new","package":"","properties":7}`}, ""},
		"package with no name":    {[]string{`{"schema":"olm.package","defaultChannel":"stable"}`}, `config contains package with no name`},
		"duplicate package":       {[]string{foo, foo, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, `duplicate package "foo"`},
		"duplicate, different":    {[]string{foo, `{"schema":"olm.package","name":"foo"}`, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, `duplicate package "foo"`},
		"package name":            {replaceInAll("foo", "Foo_x", foo, stableChannel("a.v1.0.0"), bundleBlob("a.v1.0.0", good, `"image":"quay.io/a"`)), `invalid package name "Foo_x": [a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')]`},
		"package name with dots":  {replaceInAll("foo", "f.oo", foo, stableChannel("a.v1.0.0"), bundleBlob("a.v1.0.0", good, `"image":"quay.io/a"`)), `invalid package name "f.oo": [must not contain dots]`},
		"package name long":       {replaceInAll("foo", strings.Repeat("f", 64), foo, stableChannel("a.v1.0.0"), bundleBlob("a.v1.0.0", good, `"image":"quay.io/a"`)), `invalid package name "` + strings.Repeat("f", 64) + `": [must be no more than 63 characters]`},
		"channel's package":       {[]string{stableChannel()}, `unknown package "foo" for channel "stable"`},
		"channel without package": {[]string{`{"schema":"olm.channel","name":"stable"}`}, `unknown package "" for channel "stable"`},
		"channel with no name":    {[]string{foo, channelBlob("", entryJSON("foo.v1.0.0")), bundleOfVersion("1.0.0")}, `package "foo" contains channel with no name`},
		"duplicate channel":       {[]string{foo, stableChannel("foo.v1.0.0"), stableChannel("foo.v1.1.0"), bundleOfVersion("1.0.0"), bundleOfVersion("1.1.0")}, `package "foo" has duplicate channel "stable"`},
		"duplicate entry":         {[]string{foo, channelBlob("stable", entryJSON("foo.v1.0.0"), entryJSON("foo.v1.0.0")), bundleOfVersion("1.0.0")}, `invalid package "foo", channel "stable": duplicate entry "foo.v1.0.0"`},
		"bundle without package":  {[]string{foo, stableChannel("foo.v1.0.0"), `{"schema":"olm.bundle","name":"foo.v1.0.0",` + image + `,"properties":[` + stated1 + `]}`}, `package name must be set for bundle "foo.v1.0.0"`},
		"bundle's package":        {[]string{foo, stableChannel("foo.v1.0.0"), strings.ReplaceAll(bundleOfVersion("1.0.0"), `"foo"`, `"fou"`)}, `unknown package "fou" for bundle "foo.v1.0.0"`},
		"duplicate bundle":        {[]string{foo, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0"), bundleOfVersion("1.0.0")}, `package "foo" has duplicate bundle "foo.v1.0.0"`},
		"no olm.package":          {catalogOfOneBundle(``), `package "foo" bundle "foo.v1.0.0" must have exactly 1 "olm.package" property, found 0`},
		"two olm.package":         {catalogOfOneBundle(stated1 + `,` + stated1), `package "foo" bundle "foo.v1.0.0" must have exactly 1 "olm.package" property, found 2`},
		"olm.package of another":  {catalogOfOneBundle(`{"type":"olm.package","value":{"packageName":"bar","version":"1.0.0"}}`), `package "foo" does not match "olm.package" property "bar"`},
		"image in upper case":     {catalogOfOneBundle(stated1, `"image":"quay.io/a/B:1"`), `package "foo" bundle "foo.v1.0.0" image: invalid image pull spec "quay.io/a/B:1": invalid reference format: repository name (a/B) must be lowercase`},
		"image with a typo":       {catalogOfOneBundle(stated1, `"image":"quay.io/a/b@sha25:`+strings.Repeat("0", 64)+`"`), `package "foo" bundle "foo.v1.0.0" image: invalid image pull spec "quay.io/a/b@sha25:` + strings.Repeat("0", 64) + `": unsupported digest algorithm`},
		"image, tag and digest":   {catalogOfOneBundle(stated1, `"image":"quay.io/a/b:1@sha256:`+strings.Repeat("0", 64)+`"`), ``},
		"related image":           {catalogOfOneBundle(stated1, image, `"relatedImages":[{"name":"a","image":""},{"name":"b","image":"quay.io/a b"}]`), `package "foo" bundle "foo.v1.0.0" relatedImages[1].image: invalid image pull spec "quay.io/a b": invalid reference format`},
		"version":                 {[]string{foo, stableChannel("foo.v1.0.0"), bundleBlob("foo.v1.0.0", `"version":"v1"`)}, `error parsing bundle "foo.v1.0.0" version "v1": No Major.Minor.Patch elements found`},
		"no version":              {[]string{foo, stableChannel("foo.v1.0.0"), bundleBlob("foo.v1.0.0", `"release":"1"`)}, `error parsing bundle "foo.v1.0.0" version "": Version string empty`},
		"two without a version":   {[]string{foo, stableChannel("foo.v1.0.0", "foo.v1.1.0"), bundleBlob("foo.v1.0.0", `"version":"1"`), bundleBlob("foo.v1.1.0", `"version":"2"`)}, "invalid index:\n└── invalid package \"foo\":\n    ├── error parsing bundle \"foo.v1.0.0\" version \"1\": No Major.Minor.Patch elements found\n    └── error parsing bundle \"foo.v1.1.0\" version \"2\": No Major.Minor.Patch elements found"},
		"a version, no channel":   {[]string{foo, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0"), bundleBlob("other", good)}, `package "foo", bundle "other" not found in any channel entries`},
		"release":                 {[]string{foo, stableChannel("foo.v1.0.0"), bundleBlob("foo.v1.0.0", good+`,"release":"01"`)}, `error parsing bundle "foo.v1.0.0" release version "01": invalid release "01": segment 0: Numeric PreRelease version must not contain leading zeroes "01"`},
		"long release":            {[]string{foo, stableChannel("foo.v1.0.0"), bundleBlob("foo.v1.0.0", good+`,"release":"123456789012345678901"`)}, `error parsing bundle "foo.v1.0.0" release version "123456789012345678901": invalid release "123456789012345678901": exceeds maximum length of 20 characters`},
		"bundle in no channel":    {[]string{foo, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0"), bundleOfVersion("1.1.0")}, `package "foo", bundle "foo.v1.1.0" not found in any channel entries`},
		"entries without bundle":  {[]string{foo, stableChannel("foo.v1.0.0", "foo.v1.2.0", "foo.v1.1.0"), channelBlob("a", entryJSON("foo.v1.3.0")), bundleOfVersion("1.0.0")}, `no olm.bundle blobs found in package "foo" for olm.channel entries [foo.v1.1.0 foo.v1.2.0 foo.v1.3.0]`},
		"default channel missing": {[]string{foo, channelBlob("a", entryJSON("foo.v1.0.0")), channelBlob("z", entryJSON("foo.v1.0.0"), entryJSON("foo.v1.1.0")), bundleOfVersion("1.0.0"), bundleOfVersion("1.1.0")}, "invalid index:\n└── invalid package \"foo\":\n    ├── invalid channel \"stable\":\n    │   └── channel must contain at least one bundle\n    └── invalid channel \"z\":\n        └── multiple channel heads found in graph: foo.v1.0.0, foo.v1.1.0"},
		"entry misnamed":          {[]string{foo, stableChannel("foov1.0.0"), bundleOfVersion("1.0.0")}, "invalid index:\n└── invalid package \"foo\":\n    ├── package \"foo\", bundle \"foo.v1.0.0\" not found in any channel entries\n    └── no olm.bundle blobs found in package \"foo\" for olm.channel entries [foov1.0.0]"},

		"deprecation without package": {withValidCatalog(`{"schema":"olm.deprecations","entries":[]}`), `package name must be set for deprecation item 0`},
		"deprecation's package":       {withValidCatalog(strings.ReplaceAll(deprecationsBlob(), "foo", "bar")), `cannot apply deprecations to an unknown package "bar"`},
		"two deprecations":            {withValidCatalog(deprecationsBlob(), deprecationsBlob()), `expected a maximum of one deprecation per package: "foo"`},
		"deprecation without schema":  {withValidCatalog(deprecationsBlob(deprecationJSON("olm.package", "", "m"), deprecationJSON("", "", "m"))), `schema must be set for deprecation entry [1] for package "foo"`},
		"duplicate deprecation":       {withValidCatalog(deprecationsBlob(deprecationJSON("olm.channel", "stable", "m"), deprecationJSON("olm.channel", "stable", "n"))), `duplicate deprecation entry declcfg.PackageScopedReference{Schema:"olm.channel", Name:"stable"} for package "foo"`},
		"deprecated bundle":           {withValidCatalog(deprecationsBlob(deprecationJSON("olm.bundle", "x", "m"))), `cannot deprecate bundle "x" for package "foo": bundle not found`},
		"deprecated channel":          {withValidCatalog(deprecationsBlob(deprecationJSON("olm.channel", "", "m"))), `cannot deprecate channel "" for package "foo": channel not found`},
		"deprecated package's name":   {withValidCatalog(deprecationsBlob(deprecationJSON("olm.package", "foo", "m"))), `package name must be empty for deprecated package "foo" (specified "foo")`},
		"deprecated schema":           {withValidCatalog(deprecationsBlob(deprecationJSON("olm.package", "", "m"), deprecationJSON("other", "x", "m"))), `cannot deprecate object declcfg.PackageScopedReference{Schema:"other", Name:"x"} referenced by entry 1 for package "foo": object schema unknown`},
		"three deprecations":          {withValidCatalog(deprecationsBlob(), deprecationsBlob(), deprecationsBlob()), "invalid index:\n└── invalid package \"foo\":\n    ├── expected a maximum of one deprecation per package: \"foo\"\n    └── expected a maximum of one deprecation per package: \"foo\""},
		"a duplicate and another":     {withValidCatalog(deprecationsBlob(deprecationJSON("olm.package", "", "m"), deprecationJSON("olm.package", "", "m"), deprecationJSON("olm.bundle", "x", "m"))), "invalid index:\n└── invalid package \"foo\":\n    ├── duplicate deprecation entry declcfg.PackageScopedReference{Schema:\"olm.package\", Name:\"\"} for package \"foo\"\n    └── cannot deprecate bundle \"x\" for package \"foo\": bundle not found"},
		"all deprecated":              {withValidCatalog(deprecationsBlob(deprecationJSON("olm.package", "", "m"), deprecationJSON("olm.channel", "stable", "m"), deprecationJSON("olm.bundle", "foo.v1.0.0", "m"))), ``},

		"no package":             {[]string{`{"schema":"olm.package","name":"foo","defaultChannel":1}`, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, locatedFault(1, `olm.package, name "foo"`, `parse package: json: cannot unmarshal number into Go struct field Package.defaultChannel of type string`)},
		"no icon":                {[]string{`{"schema":"olm.package","name":"foo","defaultChannel":"stable","icon":{"base64data":"%","mediatype":"x"}}`, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, locatedFault(1, `olm.package, name "foo"`, `parse package: illegal base64 data at input byte 0`)},
		"any icon":               {[]string{`{"schema":"olm.package","name":"foo","defaultChannel":"stable","icon":{"base64data":"aGk=","mediatype":"nonsense"}}`, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, ``},
		"no channel":             {[]string{foo, `{"schema":"olm.channel","package":"foo","name":"stable","entries":{}}`, bundleOfVersion("1.0.0")}, locatedFault(2, `olm.channel, package "foo", name "stable"`, `parse channel: json: cannot unmarshal object into Go struct field Channel.entries of type []fbc.ChannelEntry`)},
		"no bundle":              {[]string{foo, stableChannel("foo.v1.0.0"), `{"schema":"olm.bundle","package":"foo","name":"foo.v1.0.0","image":["a"]}`}, locatedFault(3, `olm.bundle, package "foo", name "foo.v1.0.0"`, `parse bundle: json: cannot unmarshal array into Go struct field Bundle.image of type string`)},
		"no deprecations":        {withValidCatalog(`{"schema":"olm.deprecations","package":"foo","entries":1}`), locatedFault(4, `olm.deprecations, package "foo"`, `parse deprecation: json: cannot unmarshal number into Go struct field Deprecations.entries of type []fbc.DeprecationEntry`)},
		"olm.package no object":  {catalogOfOneBundle(`{"type":"olm.package","value":"1.0.0"}`), `parse properties for bundle "foo.v1.0.0": parse property[0] of type "olm.package": json: cannot unmarshal string into Go value of type fbc.PackageProperty`},
		"olm.csv.metadata":       {catalogOfOneBundle(stated1 + `,{"type":"olm.csv.metadata","value":{"displayName":{}}}`), `parse properties for bundle "foo.v1.0.0": parse property[1] of type "olm.csv.metadata": json: cannot unmarshal object into Go struct field csvMetadata.displayName of type string`},
		"olm.gvk":                {catalogOfOneBundle(stated1 + `,{"type":"olm.gvk","value":{"group":"g","version":1,"kind":"k"}}`), `parse properties for bundle "foo.v1.0.0": parse property[1] of type "olm.gvk": json: cannot unmarshal number into Go struct field GVK.version of type string`},
		"olm.gvk without a kind": {catalogOfOneBundle(stated1 + `,{"type":"olm.gvk","value":{"group":"g","version":"v1"}}`), ``},
		"required range":         {catalogOfOneBundle(stated1 + `,{"type":"olm.package.required","value":{"packageName":"p","versionRange":"zzz"}}`), ``},
		"required without range": {catalogOfOneBundle(stated1 + `,{"type":"olm.package.required","value":{"packageName":"p"}}`), ``},
		"required of none":       {catalogOfOneBundle(stated1 + `,{"type":"olm.package.required","value":{"versionRange":"1.0.0"}}`), ``},
		"property without type":  {catalogOfOneBundle(stated1 + `,{"value":1}`), ``},
		"required >>1":           {catalogOfOneBundle(stated1 + `,{"type":"olm.package.required","value":{"packageName":"p","versionRange":">>1"}}`), ``},
		"olm.csv.metadata null":  {catalogOfOneBundle(stated1 + `,{"type":"olm.csv.metadata","value":null}`), ``},
		"property without value": {catalogOfOneBundle(stated1 + `,{"type":"x"}`), `parse properties for bundle "foo.v1.0.0": parse property[1] of type "x": unexpected end of JSON input`},
		"property null":          {catalogOfOneBundle(stated1 + `,{"type":"x","value":null}`), ``},
		"property of a package":  {[]string{`{"schema":"olm.package","name":"foo","defaultChannel":"stable","properties":[{"type":"x","value":1},{"type":"","value":1}]}`, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, ``},
		"property of a channel":  {[]string{foo, `{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1.0.0"}],"properties":[{"type":"x"}]}`, bundleOfVersion("1.0.0")}, ``},
		"all properties": {catalogOfOneBundle(strings.Join([]string{
			stated1, `{"type":"olm.package.required","value":{"packageName":"p","versionRange":">=1.0.0 <2.0.0 || 3.x"}}`, `{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"k"}}`,
			`{"type":"olm.gvk.required","value":{"group":"g","version":"v1","kind":"k"}}`, `{"type":"olm.csv.metadata","value":{"annotations":{"a":"b"},"apiServiceDefinitions":{},"crdDescriptions":{},"provider":{}}}`,
			`{"type":"olm.constraint","value":{"all":[]}}`, `{"type":"olm.maxOpenShiftVersion","value":"4.9"}`, `{"type":"x","value":false}`,
		}, ",")), ``},
		"object no base64":  {catalogOfOneBundle(stated1 + `,{"type":"olm.bundle.object","value":{"data":"%"}}`), `read bundle objects: package "foo", bundle "foo.v1.0.0": parse property at index 1 as bundle object: illegal base64 data at input byte 0`},
		"object no JSON":    {catalogOfOneBundle(stated1 + `,{"type":"olm.bundle.object","value":{"data":"` + base64.StdEncoding.EncodeToString([]byte("a: b: c")) + `"}}`), `read bundle objects: package "foo", bundle "foo.v1.0.0": convert bundle object property at index 1 to JSON: cannot be parsed as YAML: yaml: mapping values are not allowed in this context`},
		"no image, objects": {catalogOfOneBundle(stated1+`,{"type":"olm.bundle.object","value":{"data":"`+base64.StdEncoding.EncodeToString([]byte("kind: Service"))+`"}}`, `"image":""`), ``},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := validateBlobs(c.blobs...); err != nil {
				got = anyByte.ReplaceAllString(err.Error(), ", byte BYTE)")
			}
			if got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// locatedFault returns the text of a fault outside a tree, with its position and its blob.
func locatedFault(document int, blob, text string) string {
	return fmt.Sprintf("catalog.json: document %d (line %d, byte BYTE): blob of schema %s: %s", document, document, blob, text)
}

// anyByte matches the offset of a position.
var anyByte = regexp.MustCompile(`, byte \d+\)`)

func replaceInAll(old, with string, blobs ...string) []string {
	for i := range blobs {
		blobs[i] = strings.ReplaceAll(blobs[i], `"`+old+`"`, `"`+with+`"`)
	}
	return blobs
}

// withValidCatalog adds blobs to a valid catalog.
func withValidCatalog(blobs ...string) []string {
	return append([]string{foo, stableChannel("foo.v1.0.0"), bundleOfVersion("1.0.0")}, blobs...)
}

// Each folder of testdata/validate is a catalog. The files next to it have its faults: the
// tree, and the tree with positions.
func TestValidateTree(t *testing.T) {
	catalogs, err := os.ReadDir(filepath.Join("testdata", "validate"))
	if err != nil {
		t.Fatal(err)
	}

	checked := 0
	for _, catalog := range catalogs {
		name, isCatalog := strings.CutSuffix(catalog.Name(), ".yaml")
		if !isCatalog {
			continue
		}
		checked++
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "validate", catalog.Name()))
			if err != nil {
				t.Fatal(err)
			}

			err = fbc.ValidateFS(fstest.MapFS{catalog.Name(): {Data: text}}, fbc.Limits{})
			var tree *fbc.TreeError
			if !errors.As(err, &tree) {
				t.Fatalf("got error %v, want a tree", err)
			}

			var places strings.Builder
			for fault := range tree.Leaves() {
				fmt.Fprintf(&places, "document %d, line %d: %s\n", fault.At.Document, fault.At.Line, fault.Message)
			}

			golden.Check(t, path.Join("validate", name+".txt"), []byte(tree.Error()+"\n\n"+places.String()))
		})
	}

	if checked == 0 {
		t.Error("got no catalogs in testdata/validate, want some")
	}
}

// If a catalog cannot be read, its rules are not checked, but faults of single blobs are
// reported.
func TestValidateBrokenCatalog(t *testing.T) {
	bad := bundleBlob("foo.v1.0.0", `"version":"v1"`)
	t.Run("unreadable content", func(t *testing.T) {
		err := validateBlobs(foo, stableChannel("foo.v1.0.0"), `{"schema":`)
		var content *fbc.Error
		if !errors.As(err, &content) || content.Document != 3 || err.Error() != content.Error() {
			t.Errorf("got %v", err)
		}
	})

	t.Run("unreadable content and a blob with a fault", func(t *testing.T) {
		err := validateBlobs(foo, bad, `{"schema":`)
		var content *fbc.Error
		if !errors.As(err, &content) {
			t.Errorf("got error %v, want one that wraps an *fbc.Error", err)
		}

		const want = "invalid index:\n├── error parsing bundle \"foo.v1.0.0\" version \"v1\": No Major.Minor.Patch elements found\n└── catalog.json: document 3 (line 3, byte "
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got:\n%v\nwant:\n%s…", err, want)
		}
	})

	t.Run("a failure of the reader", func(t *testing.T) {
		broken := fmt.Errorf("disk: %w", fs.ErrPermission)
		err := fbc.Validate(func(yield func(fbc.Meta, error) bool) {
			if yield(fbc.Meta{Schema: fbc.SchemaBundle, Package: "foo", Blob: []byte(bad)}, nil) {
				yield(fbc.Meta{}, broken)
			}
		})
		if !errors.Is(err, fs.ErrPermission) || err.Error() != broken.Error() {
			t.Errorf("got %v, want %v", err, broken)
		}
	})

	t.Run("no catalog", func(t *testing.T) {
		if err := fbc.ValidateFS(os.DirFS(filepath.Join(t.TempDir(), "missing")), fbc.Limits{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an empty catalog", func(t *testing.T) {
		if err := fbc.ValidateFS(fstest.MapFS{}, fbc.Limits{}); err != nil {
			t.Errorf("got %v", err)
		}
	})
}
