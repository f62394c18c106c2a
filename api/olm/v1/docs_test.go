package v1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

var manifest = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamplesOfTheDocumentation checks that a real API server accepts each manifest in the documentation, and
// knows every field. An example of the read-only kind is decoded into its Go type instead.
func TestExamplesOfTheDocumentation(t *testing.T) {
	c := env.NewFixture(t, corev1.AddToScheme)
	c.EnsureNamespace("olm") // The examples of OLM Classic are in its namespace.
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "kinds", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("got no pages (error %v), want those of docs/kinds", err)
	}

	pages = append(pages, filepath.Join("..", "..", "..", "docs", "user-access.md"))
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}

		examples := manifest.FindAllSubmatch(text, -1)
		if len(examples) == 0 {
			t.Errorf("%s: got no example, want one", page)
		}

		for _, example := range examples {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(example[1], &object.Object); err != nil {
				t.Errorf("%s: %v\n%s", page, err, example[1])
				continue
			}

			if object.GetKind() == packagesv1.PackageManifestKind { // It cannot be created.
				if err := yaml.UnmarshalStrict(example[1], &packagesv1.PackageManifest{}); err != nil {
					t.Errorf("%s: %v", page, err)
				}
				continue
			}

			strict := client.FieldValidation("Strict")
			if err := c.Create(t.Context(), object, client.DryRunAll, strict); err != nil {
				t.Errorf("%s: example %q: got error %v, want none", page, object.GetName(), err)
			}
		}
	}
}
