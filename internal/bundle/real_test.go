package bundle

import (
	"bytes"
	order "cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// rawCSV reads the CSV of a bundle without this package.
func rawCSV(t *testing.T, dir string) map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*"))
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		var content map[string]any
		if err := yaml.Unmarshal(data, &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if content["kind"] == "ClusterServiceVersion" {
			return content
		}
	}

	t.Fatalf("%s has no ClusterServiceVersion", dir)
	return nil
}

func TestLoadRealBundles(t *testing.T) {
	for _, dir := range checkout.RealBundles(t) {
		name := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			b, err := Load(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := b.Package+"/"+b.Version.String(), name; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if len(b.Warnings)+len(b.Omitted) > 0 {
				t.Errorf("got warnings %q and omitted content %q, want none", b.Warnings, b.Omitted)
			}

			files, err := filepath.Glob(filepath.Join(dir, "manifests", "*"))
			if err != nil {
				t.Fatal(err)
			}
			if got := 1 + len(b.CRDs) + len(b.Objects); got != len(files) { // each file of these bundles holds one object
				t.Errorf("got %d objects, want one for each of %d files", got, len(files))
			}

			checkBlob(t, b)
			checkCatalogObjects(t, b)
			checkRoundTrip(t, b, rawCSV(t, dir))
		})
	}
}

func checkBlob(t *testing.T, b *Bundle) {
	t.Helper()
	const image = "registry.example/bundle:v1"
	blob, err := b.FBC(image, WithMetadata)
	if err != nil {
		t.Fatal(err)
	}

	count := map[string]int{}
	for _, p := range blob.Properties {
		count[p.Type]++
		if !json.Valid(p.Value) {
			t.Errorf("property %s has an invalid value %s", p.Type, p.Value)
		}
	}

	if count[fbc.PropertyPackage] != 1 || count[fbc.PropertyCSVMetadata] != 1 || count[fbc.PropertyGVK] < len(b.CRDs) {
		t.Errorf("got the property counts %v, want one package, one metadata and at least %d GVKs", count, len(b.CRDs))
	}
	if !slices.Contains(blob.RelatedImages, fbc.RelatedImage{Image: image}) {
		t.Errorf("got the related images %v, want the bundle's image among them", blob.RelatedImages)
	}
}

// checkCatalogObjects checks that a catalog contains every manifest file as an object, in
// order.
func checkCatalogObjects(t *testing.T, loaded *Bundle) {
	t.Helper()
	blob, err := loaded.FBC("", WithObjects)
	if err != nil {
		t.Fatal(err)
	}

	want := len(blob.Properties)
	objects, err := Objects(&blob)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 1+len(loaded.CRDs)+len(loaded.Objects) {
		t.Errorf("got %d objects in the blob, want %d", len(objects), 1+len(loaded.CRDs)+len(loaded.Objects))
	}

	sorted := slices.IsSortedFunc(blob.Properties, func(a, b fbc.Property) int {
		return order.Or(order.Compare(manifestPropertyRank(a), manifestPropertyRank(b)), order.Compare(a.Type, b.Type), bytes.Compare(a.Value, b.Value))
	})
	if !sorted {
		t.Error("the properties are not sorted")
	}
	if err := Migrate(&blob, MigrateAll); err != nil || len(blob.Properties) != want {
		t.Errorf("without an image: got %d properties, %v; want %d with the objects", len(blob.Properties), err, want)
	}
}

// notInType has the fields of real CSVs that are not in the API.
var notInType = map[string]bool{
	".spec.customresourcedefinitions.owned[].group": true,
}

// checkRoundTrip checks that a CSV loses no values when it is converted to the Go type.
func checkRoundTrip(t *testing.T, b *Bundle, raw map[string]any) {
	t.Helper()
	encoded, err := json.Marshal(b.CSV)
	if err != nil {
		t.Fatal(err)
	}

	var got map[string]any
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}

	delete(raw, "apiVersion") // Some CSVs omit the group.
	for _, difference := range lostPaths(raw, got, "") {
		if !notInType[difference] {
			t.Error(difference)
		}
	}
}

// lostPaths returns the paths of values of raw that got does not have. Empty values count
// as absent, and quantities are compared as numbers.
func lostPaths(raw, got any, path string) []string {
	if isEmpty(raw) && isEmpty(got) {
		return nil
	}

	switch raw := raw.(type) {
	case map[string]any:
		gotMap, ok := got.(map[string]any)
		if !ok {
			return []string{path}
		}
		var paths []string
		for _, key := range slices.Sorted(maps.Keys(raw)) {
			paths = append(paths, lostPaths(raw[key], gotMap[key], path+"."+key)...)
		}
		return paths
	case []any:
		gotList, ok := got.([]any)
		if !ok || len(gotList) != len(raw) {
			return []string{path}
		}
		var paths []string
		for i := range raw {
			paths = append(paths, lostPaths(raw[i], gotList[i], path+"[]")...)
		}
		return paths
	default:
		if cmp.Equal(raw, got) || sameQuantity(raw, got) {
			return nil
		}
		return []string{path}
	}
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if !isEmpty(v) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	default:
		return value == nil || value == "" || value == false
	}
}

func sameQuantity(raw, got any) bool {
	a, err := resource.ParseQuantity(fmt.Sprint(raw))
	if err != nil {
		return false
	}
	b, err := resource.ParseQuantity(fmt.Sprint(got))
	return err == nil && a.Cmp(b) == 0
}
