package content

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// The bundles of any catalog can be encoded for clients, and their JSON fields are valid JSON.
func FuzzBundle(f *testing.F) {
	const pkg = `{"schema":"olm.package","name":"a","description":"d","icon":{"base64data":"eA==","mediatype":"image/png"}}`
	f.Add(minimal("registry.example.com/a", `{"type":"olm.csv.metadata","value":{"keywords":["a"],"annotations":{}}}`), pkg)
	f.Add(minimal("", manifest(`{"kind":"ClusterServiceVersion"}`), manifest("kind: Role")), pkg)
	f.Add(minimal("", `{"type":"olm.gvk.required","value":{"group":"g","kind":"K","version":"v"}}`), `{"schema":"olm.package","name":"a","icon":null}`)
	f.Add(minimal("", `{"type":"olm.package.required","value":{"packageName":"\ud800","versionRange":">1"}}`), pkg)
	f.Fuzz(func(t *testing.T, catalog, pkgText string) {
		pkg := []byte("{}")
		for meta, err := range fbc.Read(strings.NewReader(pkgText), "package", fbc.Limits{}) {
			if err == nil && meta.Schema == fbc.SchemaPackage {
				pkg = meta.Blob
			}
		}
		for meta, err := range fbc.Read(strings.NewReader(catalog), "catalog", fbc.Limits{}) {
			if err != nil {
				return
			}

			d, err := digestBlob(meta)
			if err != nil || meta.Schema != fbc.SchemaBundle || d.summary == nil {
				continue
			}
			if err := proto.Unmarshal(d.summary, &registrypb.Bundle{}); err != nil {
				t.Fatalf("the summary cannot be decoded: %v", err)
			}

			b, err := fbc.DecodeBundle(meta)
			if err != nil {
				t.Fatal(err)
			}

			csv, objects, err := bundleManifests(b, pkg)
			if err != nil {
				continue
			}

			for _, text := range append(objects, csv) {
				if text != "" && (!json.Valid([]byte(text)) || !utf8.ValidString(text)) {
					t.Fatalf("a manifest is not JSON: %s", text)
				}
			}
		}
	})
}
