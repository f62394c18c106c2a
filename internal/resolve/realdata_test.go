package resolve_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// sharedCatalogs returns the files of shared/data/fbc next to the repository. It skips the test if the folder does not exist.
func sharedCatalogs(t *testing.T) []string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	for ; ; dir = filepath.Dir(dir) {
		found, err := filepath.Glob(filepath.Join(dir, "shared", "data", "fbc", "*", "catalog.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return found
		}
		if dir == filepath.Dir(dir) {
			t.Skip("there is no folder shared/data/fbc next to the repository")
		}
	}
}

// readCatalog decodes a file of one package.
func readCatalog(t *testing.T, path string) *fbc.Content {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	content := &fbc.Content{}
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		var meta struct{ Schema string }
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatal(err)
		}

		var into any
		switch meta.Schema {
		case fbc.SchemaPackage:
			content.Package = &fbc.Package{}
			into = content.Package
		case fbc.SchemaChannel:
			content.Channels = append(content.Channels, fbc.Channel{})
			into = &content.Channels[len(content.Channels)-1]
		case fbc.SchemaBundle:
			content.Bundles = append(content.Bundles, fbc.Bundle{})
			into = &content.Bundles[len(content.Bundles)-1]
		case fbc.SchemaDeprecations:
			content.Deprecations = &fbc.Deprecations{}
			into = content.Deprecations
		default:
			continue
		}

		if err := yaml.Unmarshal(document, into); err != nil {
			t.Fatal(err)
		}
	}

	if content.Package == nil || len(content.Channels) == 0 || len(content.Bundles) == 0 {
		t.Fatalf("%s: got package %v, %d channels, %d bundles, want all of them", path, content.Package, len(content.Channels), len(content.Bundles))
	}

	return content
}

// TestRealCatalogs checks that the highest version of each channel of each package is
// chosen, and that every installed version reaches it by updates that the catalog allows.
func TestRealCatalogs(t *testing.T) {
	for _, path := range sharedCatalogs(t) {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			content := readCatalog(t, path)
			catalogs := []resolve.Catalog{{Name: "redhat", Content: content}}
			versions := map[string]semver.Version{}
			for _, b := range content.Bundles {
				exact, err := resolve.Resolve(resolve.Request{Package: content.Package.Name}, []resolve.Catalog{
					{Content: &fbc.Content{Bundles: []fbc.Bundle{b}}}})
				if err != nil {
					t.Fatalf("%v %q", err, resolve.Hints(err))
				}
				versions[b.Name] = exact.Version
			}

			for _, ch := range content.Channels {
				g := upgradegraph.New(content.Package.Name, []fbc.Channel{ch}, func(name string) (semver.Version, bool) {
					v, ok := versions[name]
					return v, ok
				})
				if err := g.Err(); err != nil {
					t.Error(err)
				}

				head := g.Heads(ch.Name)[0]
				req := resolve.Request{Package: content.Package.Name, Channels: []string{ch.Name}}
				got, err := resolve.Resolve(req, catalogs)
				if err != nil {
					t.Fatalf("%v %q", err, resolve.Hints(err))
				}
				if got.Bundle.Name != head || len(got.Warnings) > 0 {
					t.Errorf("channel %q: got %q (%q), want the head %q", ch.Name, got.Bundle.Name, got.Warnings, head)
				}

				for _, entry := range ch.Entries {
					checkReaches(t, g, req, catalogs, entry.Name, versions[entry.Name], head)
				}

				checkReaches(t, g, req, catalogs, "from-an-older-release", semver.MustParse("4.10.0"), head)
			}
		})
	}
}

// checkReaches updates from a bundle until there is no further update.
func checkReaches(t *testing.T, g *upgradegraph.Graph, req resolve.Request, catalogs []resolve.Catalog, name string, version semver.Version, head string) {
	t.Helper()
	path, ok := g.ShortestPath(upgradegraph.Node{Name: name, Version: &version}, head)
	if !ok {
		t.Errorf("got no path from %q to %q, want one", name, head)
	}

	at := &resolve.Installed{Name: name, Version: version.String()}
	for steps := 0; at.Name != head; steps++ {
		req.Installed = at
		got, err := resolve.Resolve(req, catalogs)
		if err != nil {
			t.Fatalf("from %q: %v %q", name, err, resolve.Hints(err))
		}
		if got.Bundle.Name == at.Name || steps > len(path) {
			t.Errorf("updates from %q: got %q after %d steps, want %q", name, at.Name, steps, head)
			return
		}

		at = &resolve.Installed{Name: got.Bundle.Name, Version: got.Version.String()}
	}
}
