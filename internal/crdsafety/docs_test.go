package crdsafety

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestDocumentation runs the examples of the page for users.
func TestDocumentation(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	page, err := os.ReadFile(filepath.Join(root, "docs", "crd-upgrade-safety.md"))
	if err != nil {
		t.Fatal(err)
	}

	yaml := blocks(string(page), "yaml")
	text := blocks(string(page), "")
	if len(yaml) != 3 || len(text) != 1 {
		t.Fatalf("got %d YAML examples and %d messages in the page, want 3 and 1", len(yaml), len(text))
	}

	old, updated := parse[apiextensionsv1.CustomResourceDefinition](t, yaml[0]), parse[apiextensionsv1.CustomResourceDefinition](t, yaml[1])
	got := Check(old, updated)
	want := strings.TrimPrefix(strings.TrimSpace(text[0]), `validating upgrade for CRD "samples.test.example.com" failed: `)
	if got == nil || got.Error() != want {
		t.Errorf("got error\n%v\nwant that of the page\n%s", got, want)
	}

	ext := parse[olmv1.ClusterExtension](t, yaml[2])
	if ext.Spec.Install.Preflight.CRDUpgradeSafety.Enforcement != olmv1.CRDUpgradeSafetyEnforcementNone {
		t.Error("got an enabled check in the last example, want it disabled")
	}
}

// blocks returns the fenced blocks of a page in a language.
func blocks(page, language string) []string {
	var result []string
	for i, part := range strings.Split("\n"+page, "\n```") {
		first, rest, _ := strings.Cut(part, "\n")
		if i%2 == 1 && first == language {
			result = append(result, rest)
		}
	}

	return result
}
