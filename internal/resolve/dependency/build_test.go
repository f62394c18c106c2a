package dependency_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// properties returns one property for each statement: "gvk Kind", "needs Kind", "pkg name range",
// "also type value" and "constraint <JSON>".
func properties(id string, statements ...string) []fbc.Property {
	name, version, _ := strings.Cut(id, "@")
	list := []fbc.Property{property(fbc.PropertyPackage, fbc.PackageProperty{PackageName: name, Version: version})}
	for _, statement := range statements {
		verb, rest, _ := strings.Cut(statement, " ")
		word, tail, _ := strings.Cut(rest, " ")
		api := bundle.GVKProperty{Group: "example.com", Version: "v1", Kind: word}
		switch verb {
		case "gvk":
			list = append(list, property(fbc.PropertyGVK, api))
		case "needs":
			list = append(list, property(fbc.PropertyGVKRequired, api))
		case "pkg":
			list = append(list, property(fbc.PropertyPackageRequired, bundle.PackageRequiredProperty{PackageName: word, VersionRange: tail}))
		case "also":
			list = append(list, property(word, tail))
		case "constraint":
			list = append(list, fbc.Property{Type: fbc.PropertyConstraint, Value: json.RawMessage(rest)})
		default:
			panic("unknown statement " + statement)
		}
	}

	return list
}

func property(propertyType string, value any) fbc.Property {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return fbc.Property{Type: propertyType, Value: raw}
}

// newBundle returns a bundle "name@version" with the properties of the statements.
func newBundle(id string, statements ...string) *dependency.Bundle {
	name, version, _ := strings.Cut(id, "@")
	return dependency.NewBundle(name+".v"+version, name, semver.MustParse(version), properties(id, statements...))
}

// installed returns a bundle that is installed as an extension of the package's name.
func installed(id string, statements ...string) *dependency.Bundle {
	b := newBundle(id, statements...)
	b.Extension = b.Package
	return b
}

// offer is a bundle in a catalog: its id and its statements. A "!" at the end of the id means deprecated. A
// "/channel" before the "!" names a channel other than stable.
type offer []string

func catalog(name string, priority int32, offers ...offer) dependency.Catalog {
	contents := map[string]*fbc.Content{}
	c := dependency.Catalog{Name: name, Priority: priority}
	for _, o := range offers {
		id, deprecated := strings.CutSuffix(o[0], "!")
		id, channel, other := strings.Cut(id, "/")
		pkg, version, _ := strings.Cut(id, "@")
		content := contents[pkg]
		if content == nil {
			content = &fbc.Content{Package: &fbc.Package{Name: pkg, DefaultChannel: "stable"}, Deprecations: &fbc.Deprecations{}}
			content.Channels = []fbc.Channel{{Name: "stable"}}
			contents[pkg] = content
			c.Contents = append(c.Contents, content)
		}

		b := fbc.Bundle{Name: pkg + ".v" + version, Package: pkg, Properties: properties(id, o[1:]...)}
		content.Bundles = append(content.Bundles, b)
		entry := fbc.ChannelEntry{Name: b.Name}
		if other {
			content.Channels = append(content.Channels, fbc.Channel{Name: channel, Entries: []fbc.ChannelEntry{entry}})
		} else {
			content.Channels[0].Entries = append(content.Channels[0].Entries, entry)
		}

		if deprecated {
			content.Deprecations.Entries = append(content.Deprecations.Entries, fbc.DeprecationEntry{
				Reference: fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: b.Name}})
		}
	}

	return c
}

func servesKinds(kinds ...string) func(schema.GroupVersionKind) bool {
	return func(gvk schema.GroupVersionKind) bool {
		for _, kind := range kinds {
			if gvk == (schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}) {
				return true
			}
		}
		return false
	}
}

// describeBundles returns the names of bundles with their catalogs and channels.
func describeBundles(bundles []*dependency.Bundle) string {
	var words []string
	for _, b := range bundles {
		words = append(words, fmt.Sprintf("%s@%s %s/%s", b.Package, b.Version, b.Catalog, b.Channel))
	}
	return strings.Join(words, ", ")
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
