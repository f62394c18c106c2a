package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mainstay-dev/mainstay"

// notPure are packages that a pure package does not import.
var notPure = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "net/http", "os"}

// nested modules are not part of this one.
var nested = []string{"devcluster", "tools"}

type file struct {
	folder  string
	name    string
	imports []string
}

func (f file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

func TestImports(t *testing.T) {
	tab := readTable(t)
	built := map[string]bool{}
	for _, f := range goFiles(t) {
		row, ok := longestRow(tab.imports, f.folder)
		if !ok {
			t.Errorf("%s is in no table of docs/architecture.md: add a row", f.folder)
			continue
		}

		built[row] = true
		for _, imported := range f.imports {
			tab.checkImport(t, f, row, imported)
		}
	}

	for _, row := range slices.Sorted(maps.Keys(tab.imports)) {
		if !built[row] {
			t.Logf("not built yet: %s", row)
		}
	}
}

func (tab *table) checkImport(t *testing.T, f file, row, imported string) {
	t.Helper()
	where := path.Join(f.folder, f.name)
	inside, ok := strings.CutPrefix(imported, module+"/")
	if !ok {
		if slices.Contains(tab.pure, row) && !f.isTest() && slices.ContainsFunc(notPure, func(p string) bool { return within(imported, p) }) {
			t.Errorf("%s: the pure package %s imports %s", where, row, imported)
		}
		return
	}

	target, ok := longestRow(tab.imports, inside)
	switch {
	case !ok:
		t.Errorf("%s imports %s, which is in no table of docs/architecture.md", where, inside)
	case target == row:
	case target == "internal/testing":
		if !f.isTest() && !tab.allows(row, target) {
			t.Errorf("%s: product code imports %s", where, inside)
		}
	case f.isTest(): // A test may arrange its input with any package.
	case !tab.allows(row, target):
		t.Errorf("%s: %s may not import %s", where, row, target)
	}
}

// allows reports whether a folder may import another.
func (tab *table) allows(from, to string) bool {
	return slices.Contains(tab.imports[from], to) || slices.Contains(tab.imports[from], anything)
}

// Packages of OLM Classic import only what their row names.
func TestImportsInsideClassic(t *testing.T) {
	tab := readTable(t)
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		folder, ok := strings.CutPrefix(f.folder, classicFolder)
		if !ok || f.isTest() {
			continue
		}
		row, ok := longestRow(tab.classic, folder)
		if !ok {
			t.Errorf("%s is not in the table %q of docs/architecture.md: add a row", f.folder, classicSection)
			continue
		}

		for _, imported := range f.imports {
			target, ok := strings.CutPrefix(imported, module+"/"+classicFolder)
			if !ok {
				continue
			}
			target, _ = longestRow(tab.classic, target)
			used[row+" "+target] = true
			if target != row && !slices.Contains(tab.classic[row], target) {
				t.Errorf("%s: %s may not import %s", path.Join(f.folder, f.name), row, target)
			}
		}
	}

	for row, targets := range tab.classic {
		for _, target := range targets {
			if !used[row+" "+target] {
				t.Errorf("docs/architecture.md lets %s import %s, which it does not: remove it from the row", row, target)
			}
		}
	}
}

// classicFolder is the folder of OLM Classic.
const classicFolder = "internal/classic/"

// longestRow returns the longest row that holds a folder.
func longestRow(rows map[string][]string, folder string) (string, bool) {
	best := ""
	for row := range rows {
		if within(folder, row) && len(row) > len(best) {
			best = row
		}
	}
	return best, best != ""
}

func within(folder, row string) bool {
	return folder == row || strings.HasPrefix(folder, row+"/")
}

// goFiles reads the imports of every Go file of the module.
func goFiles(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}

		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			if slices.Contains(nested, rel) || name == "testdata" || name == "bin" || name == "node_modules" ||
				(strings.HasPrefix(name, ".") && rel != ".") {
				return fs.SkipDir
			}
			return nil
		}

		if path.Ext(rel) != ".go" {
			return nil
		}

		parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}

		f := file{folder: path.Dir(rel), name: path.Base(rel)}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imported)
		}

		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files found: the test looks in the wrong place")
	}

	return files
}

// The table must be able to fail: these imports are forbidden.
func TestTableForbids(t *testing.T) {
	cases := map[string]struct{ from, to string }{
		"a component and another":          {"internal/catalog", "internal/extension"},
		"a pure package and a shared one":  {"internal/fbc", "internal/image"},
		"a shared package and a component": {"internal/apply", "internal/extension"},
		"api and anything":                 {"api", "internal/fbc"},
		"the CLI and a component":          {"internal/cli", "internal/catalog"},
		"product code and test kits":       {"internal/extension", "internal/testing"},
	}

	tab := readTable(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if tab.allows(c.from, c.to) {
				t.Errorf("%s may import %s", c.from, c.to)
			}
		})
	}
}
