package marketplace

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// manifest of a catalog; more are further lines.
func manifest(name, more string) string {
	return "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata:\n  name: " + name + "\nspec:\n  sourceType: grpc\n  image: registry.example.com/" + name + ":v1\n" + more
}

func folder(files map[string]string) fstest.MapFS {
	of := fstest.MapFS{}
	for name, text := range files {
		of[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return of
}

func TestReadDefaults(t *testing.T) {
	many := map[string]string{}
	for i := range maxManifestFiles + 1 {
		many[fmt.Sprintf("f%03d.yaml", i)] = manifest(fmt.Sprintf("c%03d", i), "")
	}

	for name, c := range map[string]struct {
		files    map[string]string
		names    string
		problems []string // beginnings
	}{
		"none":                {nil, "", nil},
		"two":                 {map[string]string{"b.yaml": manifest("b", ""), "a.yml": manifest("a", "")}, "a b", nil},
		"JSON":                {map[string]string{"a.json": `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"CatalogSource","metadata":{"name":"a"},"spec":{"sourceType":"grpc"}}`}, "a", nil},
		"a mounted ConfigMap": {map[string]string{"..2030_01_02/a.yaml": manifest("a", ""), "..data/a.yaml": manifest("a", ""), "a.yaml": manifest("a", "")}, "a", nil},
		"other files":         {map[string]string{"README.md": "text", "a.yaml": manifest("a", ""), "more/b.yaml": manifest("b", "")}, "a", nil},
		"an unknown field":    {map[string]string{"a.yaml": manifest("a", "  imge: x\n"), "b.yaml": manifest("b", "")}, "b", []string{`a.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "imge"`}},
		"another kind":        {map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, "", []string{`a.yaml: it is a "ConfigMap" of "v1", and must be a CatalogSource of operators.coreos.com/v1alpha1`}},
		"no name":             {map[string]string{"a.yaml": manifest("", "")}, "", []string{"a.yaml: metadata.name is missing"}},
		"two documents":       {map[string]string{"a.yaml": manifest("a", "") + "---\n" + manifest("b", "")}, "", []string{"a.yaml: the file has more than one document"}},
		"markers":             {map[string]string{"a.yaml": "# A catalog.\n---\n" + manifest("a", "") + "---\n"}, "a", nil},
		"empty":               {map[string]string{"a.yaml": ""}, "", []string{`a.yaml: it is a "" of ""`}},
		"twice":               {map[string]string{"a.yaml": manifest("c", ""), "b.yaml": manifest("c", "")}, "c", []string{`b.yaml: catalog "c" is already defined in a.yaml`}},
		"another namespace":   {map[string]string{"a.yaml": strings.Replace(manifest("a", ""), "metadata:", "metadata:\n  namespace: default", 1)}, "", []string{`a.yaml: metadata.namespace is "default": leave it out, default catalogs are in market`}},
		"its namespace":       {map[string]string{"a.yaml": strings.Replace(manifest("a", ""), "metadata:", "metadata:\n  namespace: market", 1)}, "a", nil},
		"too large":           {map[string]string{"a.yaml": strings.Repeat("#", maxManifestBytes+1)}, "", []string{"a.yaml: the manifest has 1048577 bytes, more than the limit of 1048576"}},
		"too many":            {many, strings.Join(namesOf(maxManifestFiles), " "), []string{"there are more than 100 default catalogs: f100.yaml and the following files are ignored"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := readDefaults(folder(c.files), "market")
			if got := strings.Join(found.sortedNames(), " "); got != c.names {
				t.Errorf("found %q, want %q", got, c.names)
			}
			if len(found.problems) != len(c.problems) {
				t.Fatalf("problems: %v", found.problems)
			}
			for i, want := range c.problems {
				if got := found.problems[i].Error(); !strings.HasPrefix(got, want) {
					t.Errorf("problem %q does not begin with %q", got, want)
				}
			}
		})
	}

	if found := readDefaults(nil, "market"); len(found.catalogs)+len(found.problems) != 0 {
		t.Errorf("without a folder: got %+v", found)
	}
}

func namesOf(count int) []string {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	return names
}

// Only the spec, labels and annotations of a manifest count, because it can be an export from a cluster.
func TestParseDefault(t *testing.T) {
	text := strings.Replace(manifest("a", "status:\n  message: old\n"), "metadata:", "metadata:\n  uid: b\n  labels: {x: z}\n  annotations: {note: here}", 1)
	got, err := parseDefault([]byte(text), "market")
	if err != nil {
		t.Fatal(err)
	}

	want := &v1alpha1.CatalogSource{Spec: v1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "registry.example.com/a:v1"}}
	want.Namespace, want.Name, want.Labels = "market", "a", map[string]string{"x": "z"}
	want.Annotations = map[string]string{"note": "here", "operatorframework.io/managed-by": "marketplace-operator"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// Any file is a catalog of the namespace with a name, or an error.
func FuzzParseDefault(f *testing.F) {
	f.Add(manifest("a", "  grpcPodConfig:\n    nodeSelector: {a: b}\n"))
	f.Add("apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: x, namespace: other}")
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			t.Skip("longer texts find no more errors")
		}
		catalog, err := parseDefault([]byte(text), "market")
		switch {
		case err != nil && catalog != nil:
			t.Errorf("got an error and the catalog %+v", catalog)
		case err == nil && (catalog.Namespace != "market" || catalog.Name == "" || catalog.Annotations[annotationManagedBy] == ""):
			t.Errorf("read %+v", catalog)
		}
	})
}
