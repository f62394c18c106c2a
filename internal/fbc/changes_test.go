package fbc_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// The changes that the documentation recommends keep a catalog valid.
func TestDocumentedChanges(t *testing.T) {
	channel := stableChannel("foo.v1.0.0", "foo.v1.1.0")
	bundles := bundleOfVersion("1.0.0") + bundleOfVersion("1.1.0")
	bar := func(blob string) string { return strings.ReplaceAll(blob, "foo", "bar") }
	const yamlChannel = "---\nschema: olm.channel\npackage: foo\nname: stable\nentries:\n- name: foo.v1.0.0\n"
	for name, c := range map[string]struct {
		files map[string]string
		// breaks is the error of an incomplete change.
		breaks string
	}{
		"files of JSON and YAML": {files: map[string]string{"a.json": foo + bundleOfVersion("1.0.0"), "b/c.yaml": yamlChannel}},
		"deprecations in a file of their own": {files: map[string]string{
			"foo/index.yaml":        foo + channel + bundles,
			"foo/deprecations.yaml": "schema: olm.deprecations\npackage: foo\nentries:\n- reference:\n    schema: olm.package\n  message: |\n    gone\n- reference: {schema: olm.channel, name: stable}\n  message: old\n- reference: {schema: olm.bundle, name: foo.v1.0.0}\n  message: old\n",
		}},
		"a catalog in another": {files: map[string]string{"a/index.json": foo + channel + bundles, "b/x/index.json": bar(foo + channel + bundles)}},
		"a package removed":    {files: map[string]string{"b/x/index.json": bar(foo + channel + bundles)}},
		"a package removed partly": {
			files:  map[string]string{"a/index.json": channel + bundles, "b/x/index.json": bar(foo + channel + bundles)},
			breaks: `unknown package "foo" for channel "stable"`,
		},
		"a bundle promoted to a second channel": {files: map[string]string{"a": foo + channel + bundles + channelBlob("candidate", entryJSON("foo.v1.1.0"))}},
		"a bundle twice in a channel": {
			files:  map[string]string{"a": foo + channelBlob("stable", entryJSON("foo.v1.0.0"), entryJSON("foo.v1.1.0", `"replaces":"foo.v1.0.0"`), entryJSON("foo.v1.0.0")) + bundles},
			breaks: `duplicate entry "foo.v1.0.0"`,
		},
		"a skip that is added later": {files: map[string]string{"a": foo + channelBlob("stable",
			entryJSON("foo.v1.2.3"), entryJSON("foo.v1.2.4", `"replaces":"foo.v1.2.3"`), entryJSON("foo.v1.3.0", `"replaces":"foo.v1.2.3"`, `"skips":["foo.v1.2.4"]`)) +
			bundleOfVersion("1.2.3") + bundleOfVersion("1.2.4") + bundleOfVersion("1.3.0")}},
		"an update without an edge from an older bundle": {
			files: map[string]string{"a": foo + channelBlob("stable",
				entryJSON("foo.v1.2.3"), entryJSON("foo.v1.2.4", `"replaces":"foo.v1.2.3"`), entryJSON("foo.v1.3.0", `"replaces":"foo.v1.2.3"`)) +
				bundleOfVersion("1.2.3") + bundleOfVersion("1.2.4") + bundleOfVersion("1.3.0")},
			breaks: "multiple channel heads found in graph: foo.v1.2.4, foo.v1.3.0",
		},
		"a range and a bundle elsewhere": {files: map[string]string{"a": foo + channelBlob("stable",
			entryJSON("foo.v2.7.1", `"skipRange":">=2.6.0 <2.7.1"`, `"replaces":"foo.v2.7.0"`)) + bundleOfVersion("2.7.1")}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for file, text := range c.files {
				fsys[file] = &fstest.MapFile{Data: []byte(text)}
			}
			err := fbc.ValidateFS(fsys, fbc.Limits{})
			switch {
			case c.breaks == "" && err != nil:
				t.Error(err)
			case c.breaks != "" && (err == nil || !strings.Contains(err.Error(), c.breaks)):
				t.Errorf("got error %v, want %s", err, c.breaks)
			}
		})
	}
}
