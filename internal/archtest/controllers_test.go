package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// handWritten are the places that write a status or handle a conflict themselves, each with its
// reason. All others leave it to internal/reconcile.
var handWritten = map[string]string{
	"internal/reconcile":                    "the kit itself",
	"internal/apply":                        "a conflict of server-side apply means that another manager owns a field",
	"internal/cluster/worker/error.go":      "explains the error of a manifest to a person",
	"internal/cluster/version/write.go":     "the field's clients expect fields that are null, which a merge patch removes",
	"internal/classic/copied/controller.go": "writes the status of the copies that it creates, not of the object that it reconciles",
	"internal/action":                       "commands of a person, not controllers",
}

// Controllers write statuses and handle conflicts in one way: that of internal/reconcile.
func TestOnlyTheKitWritesStatuses(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.isTest() || !within(f.folder, "internal") || within(f.folder, "internal/testing") {
			continue
		}

		name := path.Join(f.folder, f.name)
		exempt := ""
		for place := range handWritten {
			if within(name, place) {
				exempt = place
			}
		}

		for _, call := range findStatusWrites(t, name) {
			if exempt == "" {
				t.Errorf("%s: %s: use reconcile.PatchStatus, IsStale, IgnoreStale or RetryStale", name, call)
			}
			used[exempt] = true
		}
	}

	for place := range handWritten {
		if !used[place] {
			t.Errorf("%s no longer writes a status or handles a conflict: remove it from the list", place)
		}
	}
}

// findStatusWrites returns the calls of a file that write a status or ask for a conflict.
func findStatusWrites(t *testing.T, name string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}

	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}

		switch what := method.Sel.Name; what {
		case "IsConflict", "RetryOnConflict", "UpdateStatus":
			found = append(found, what)
		case "Patch", "Update", "Apply":
			if isStatusClient(method.X) {
				found = append(found, "Status()."+what)
			}
		}
		return true
	})

	return found
}

// isStatusClient reports whether an expression is a call of Status().
func isStatusClient(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && strings.HasSuffix(method.Sel.Name, "Status")
}
