package fbc_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// A catalog with findings is valid, and each finding names the object and the reason.
func TestFindings(t *testing.T) {
	property := func(text string) []string { return catalogOfOneBundle(stated1 + "," + text) }
	named := func(name, version string) []string {
		return []string{foo, stableChannel(name), bundleBlob(name, `"version":"`+version+`"`)}
	}
	const prefix = `package "foo", bundle "foo.v1.0.0": property[1] of type `
	for name, c := range map[string]struct {
		blobs []string
		want  string
	}{
		"nothing":            {nil, ""},
		"good":               {property(`{"type":"olm.gvk","value":{"group":"example.com","version":"v1beta1","kind":"Foo"}},{"type":"olm.package.required","value":{"packageName":"p","versionRange":">=1.0.0 <2.0.0"}}`), ""},
		"own schema":         {append(named("foo.v1.0.0", "1.0.0"), `{"schema":"example.about"}`), ""},
		"reserved schema":    {append(named("foo.v1.0.0", "1.0.0"), `{"schema":"olm.about"}`), `schema "olm.about" is not one of OLM: schemas that start with olm. are reserved, use a prefix of your own`},
		"no type":            {property(`{"value":1}`), prefix + `"": it has no type, so nothing uses it`},
		"null":               {property(`{"type":"x","value":null}`), prefix + `"x": its value is null`},
		"no group":           {property(`{"type":"olm.gvk","value":{"version":"v1","kind":"Foo"}}`), prefix + `"olm.gvk": group is missing`},
		"no kind":            {property(`{"type":"olm.gvk","value":{"group":"example.com","version":"v1"}}`), prefix + `"olm.gvk": kind is missing`},
		"group":              {property(`{"type":"olm.gvk","value":{"group":"Example.com","version":"v1","kind":"Foo"}}`), prefix + `"olm.gvk": group "Example.com" is invalid: a lowercase RFC 1123 subdomain`},
		"version":            {property(`{"type":"olm.gvk.required","value":{"group":"example.com","version":"1","kind":"Foo"}}`), prefix + `"olm.gvk.required": version "1" is invalid: a DNS-1035 label`},
		"kind":               {property(`{"type":"olm.gvk.required","value":{"group":"example.com","version":"v1","kind":"Foo Bar"}}`), prefix + `"olm.gvk.required": kind "foo bar" is invalid: a DNS-1035 label`},
		"no package":         {property(`{"type":"olm.package.required","value":{"versionRange":"1.0.0"}}`), prefix + `"olm.package.required": packageName is missing`},
		"no range":           {property(`{"type":"olm.package.required","value":{"packageName":"p"}}`), prefix + `"olm.package.required": versionRange is missing`},
		"range":              {property(`{"type":"olm.package.required","value":{"packageName":"p","versionRange":">>1"}}`), prefix + `"olm.package.required": versionRange ">>1" is invalid: `},
		"name without v":     {named("foo.1.0.0", "1.0.0"), ""},
		"name with build":    {named("foo.v1.0.0-1", "1.0.0+1"), ""},
		"name with no point": {named("foov1.0.0", "1.0.0"), `package "foo", bundle "foov1.0.0": the name does not end with a period and the version: use a name such as foo.v1.0.0`},
		"rebuild":            {[]string{foo, stableChannel("foo-v1.0.0-2"), bundleBlob("foo-v1.0.0-2", `"version":"1.0.0","release":"2"`)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			model, err := fbc.LoadModel(fbc.Read(strings.NewReader(strings.Join(c.blobs, "\n")), "catalog.json", fbc.Limits{}))
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if len(model.Findings) > 0 {
					t.Errorf("got findings %v, want none", model.Findings)
				}
				return
			}
			if len(model.Findings) != 1 || !strings.HasPrefix(model.Findings[0].Message, c.want) {
				t.Fatalf("got findings %v, want one that starts with %q", model.Findings, c.want)
			}
			if model.Findings[0].At.Document == 0 || !strings.HasPrefix(model.Findings[0].String(), "catalog.json: document ") {
				t.Errorf("got the finding %s, want one with a position", model.Findings[0])
			}
			if err := fbc.NewFindingsError(model.Findings); err == nil || !strings.Contains(err.Error(), model.Findings[0].Message) {
				t.Errorf("as an error: %v", err)
			}
		})
	}
}

// Findings are in the order of the catalog, and their number is limited.
func TestFindingsAreOrderedAndLimited(t *testing.T) {
	var few []string
	blobs := []string{`{"schema":"olm.b"}`, foo, stableChannel("foov1.0.0"), bundleOfVersionNamed("foov1.0.0", "1.0.0"), `{"schema":"olm.a"}`}
	model, err := fbc.LoadModel(fbc.Read(strings.NewReader(strings.Join(blobs, "\n")), "catalog.json", fbc.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range model.Findings {
		first, _, _ := strings.Cut(finding.Message, ":")
		few = append(few, first)
	}
	if diff := cmp.Diff([]string{`schema "olm.b" is not one of OLM`, `package "foo", bundle "foov1.0.0"`, `schema "olm.a" is not one of OLM`}, few); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}

	model, err = fbc.LoadModel(fbc.Read(strings.NewReader(strings.Repeat(`{"schema":"olm.a"}`, 5000)), "catalog.json", fbc.Limits{}))
	if err != nil || len(model.Findings) != 100 {
		t.Errorf("got %d findings, error %v; want 100", len(model.Findings), err)
	}
	if err := fbc.NewFindingsError(nil); err != nil {
		t.Errorf("got error %v without findings, want none", err)
	}
}

func bundleOfVersionNamed(name, version string) string {
	return bundleBlob(name, `"version":"`+version+`"`)
}

// Catalogs of the field have no findings.
func TestFindingsOfRealCatalogs(t *testing.T) {
	model, err := fbc.LoadModelFS(os.DirFS(realCatalogsFolder(t)), fbc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(model.Packages) == 0 || len(model.Findings) > 0 {
		t.Errorf("got %d packages with the findings %v, want packages and no findings", len(model.Packages), model.Findings)
	}
}
