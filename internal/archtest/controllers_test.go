package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	"internal/console/audit.go":             "records the writes that users of the console request, whatever they write",
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

		source, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range findStatusWrites(t, source) {
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

// TestFindStatusWrites checks which calls count as writes of a status.
func TestFindStatusWrites(t *testing.T) {
	for call, want := range map[string][]string{
		`c.Status().Update(ctx, o)`:                     {"Status().Update"},
		`r.client.Status().Patch(ctx, o, p)`:            {"Status().Patch"},
		`c.SubResource("status").Apply(ctx, o)`:         {"SubResource"},
		`write(c.SubResource("status"))`:                {"SubResource"},
		`c.SubResource(name).Update(ctx, o)`:            {"SubResource"},
		`objects.ApplyStatus(ctx, "a", o, options)`:     {"ApplyStatus"},
		`objects.Patch(ctx, "a", t, d, o, "status")`:    {"Patch"},
		`c.SubResource("eviction").Create(ctx, o, e)`:   nil,
		`c.Update(ctx, o)`:                              nil,
		`objects.Patch(ctx, "status", t, d, o)`:         nil,
		`retry.RetryOnConflict(b, f)`:                   {"RetryOnConflict"},
		`if apierrors.IsConflict(c.Update(ctx, o)) { }`: {"IsConflict"},
	} {
		t.Run(call, func(t *testing.T) {
			got := findStatusWrites(t, []byte("package a\n\nfunc f() {\n"+call+"\n}\n"))
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// findStatusWrites returns the calls of a file that write a status or ask for a conflict. A call for a subresource
// whose name is not in the call counts, because it can be the status.
func findStatusWrites(t *testing.T, source []byte) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
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
		case "IsConflict", "RetryOnConflict", "UpdateStatus", "ApplyStatus":
			found = append(found, what)
		case "SubResource":
			if len(call.Args) == 1 && (!isText(call.Args[0]) || isStatusText(call.Args[0])) {
				found = append(found, what)
			}
		case "Patch", "Update", "Apply":
			if isStatusClient(method.X) {
				found = append(found, "Status()."+what)
			}
			// The last argument of a dynamic client is the subresource.
			if len(call.Args) > 3 && isStatusText(call.Args[len(call.Args)-1]) {
				found = append(found, what)
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

// isText reports whether an expression is a string literal.
func isText(x ast.Expr) bool {
	literal, ok := x.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING
}

// isStatusText reports whether an expression is the string literal "status".
func isStatusText(x ast.Expr) bool {
	return isText(x) && x.(*ast.BasicLit).Value == `"status"`
}
