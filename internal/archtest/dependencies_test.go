package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var direct = regexp.MustCompile(`(?m)^\s+(\S+) v\S+$`)

// Each module that is imported directly has its reason on the page.
func TestEveryDependencyHasItsReason(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}

	for _, module := range []string{"go.mod", filepath.Join("devcluster", "go.mod")} {
		text, err := os.ReadFile(filepath.Join(root, module))
		if err != nil {
			t.Fatal(err)
		}

		required, _, _ := strings.Cut(string(text), "replace (")
		found := direct.FindAllStringSubmatch(required, -1)
		if len(found) == 0 {
			t.Fatalf("%s requires nothing: the test reads it wrongly", module)
		}

		for _, match := range found {
			if !strings.Contains(string(page), "`"+match[1]+"`") {
				t.Errorf("%s requires %s, which docs/dependencies.md does not name", module, match[1])
			}
		}
	}
}
