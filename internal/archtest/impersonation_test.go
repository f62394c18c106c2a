package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"testing"
)

// Only internal/impersonation acts as a service account, because it checks that the account exists.
func TestOnlyOnePackageImpersonates(t *testing.T) {
	const allowed = "internal/impersonation"
	found := false
	for _, f := range goFiles(t) {
		if f.isTest() || within(f.folder, "internal/testing") {
			continue
		}

		name := path.Join(f.folder, f.name)
		switch {
		case !mentionsSelector(t, name, "ImpersonationConfig"):
		case within(f.folder, allowed):
			found = true
		default:
			t.Errorf("%s impersonates a user: get the client from %s", name, allowed)
		}
	}

	if !found {
		t.Errorf("%s does not impersonate anyone: the test no longer recognizes impersonation", allowed)
	}
}

// mentionsSelector reports whether a file has a selector expression with the name, such as rest.ImpersonationConfig.
func mentionsSelector(t *testing.T, name, selector string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}

	mentioned := false
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == selector {
			mentioned = true
		}
		return !mentioned
	})
	return mentioned
}
