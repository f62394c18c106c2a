package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// unusedReasons exist for clients only.
var unusedReasons = map[string]bool{"WaitingOnCleanup": true}

// The page about ClusterServiceVersions explains each reason of their status.
func TestReasonsAreDocumented(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "kinds", "clusterserviceversion.md"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api", "operators", "v1alpha1", "clusterserviceversion_phases.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	count := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "CSVReason") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		reason, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		if count++; !unusedReasons[reason] && !strings.Contains(string(page), "`"+reason+"`") {
			t.Errorf("docs/kinds/clusterserviceversion.md does not explain the reason %s", reason)
		}
		return true
	})
	if count < 20 {
		t.Errorf("got %d reasons, want all", count)
	}
}
