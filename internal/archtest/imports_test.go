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

// pure rooms take values and give back values.
var pure = []string{
	"internal/bundle", "internal/certificate", "internal/cincinnati", "internal/classic/csvinfo", "internal/classic/resolution", "internal/classic/steps", "internal/crdsafety", "internal/fbc", "internal/node/config", "internal/node/pools", "internal/objectdiff", "internal/rbac",
	"internal/release", "internal/render", "internal/resolve", "internal/template", "internal/upgradegraph",
}

// shared rooms are used by more than one component.
var shared = slices.Concat(pure, []string{
	"internal/apply", "internal/catalogclient", "internal/catalogstore", "internal/httpserver", "internal/image", "internal/indexdb", "internal/operatorstatus", "internal/pull", "internal/reconcile",
	"internal/releaseimage",
})

var components = []string{
	"internal/catalog", "internal/classic", "internal/cluster", "internal/extension", "internal/node",
}

// anything marks a row that may import every room.
const anything = "*"

// rooms is the table: a folder, and the folders of this module that it and what
// lies below it may import beside itself. The longest folder that holds a package
// is its room.
var rooms = map[string][]string{
	"api": nil,

	"internal/bundle":             append([]string{"api"}, pure...),
	"internal/certificate":        append([]string{"api"}, pure...),
	"internal/cincinnati":         append([]string{"api"}, pure...),
	"internal/classic/csvinfo":    append([]string{"api"}, pure...),
	"internal/classic/resolution": append([]string{"api"}, pure...),
	"internal/classic/steps":      append([]string{"api"}, pure...),
	"internal/crdsafety":          append([]string{"api"}, pure...),
	"internal/fbc":                append([]string{"api"}, pure...),
	"internal/node/config":        append([]string{"api"}, pure...),
	"internal/node/pools":         append([]string{"api"}, pure...),
	"internal/objectdiff":         append([]string{"api"}, pure...),
	"internal/rbac":               append([]string{"api"}, pure...),
	"internal/release":            append([]string{"api"}, pure...),
	"internal/render":             append([]string{"api"}, pure...),
	"internal/resolve":            append([]string{"api"}, pure...),
	"internal/template":           append([]string{"api"}, pure...),
	"internal/upgradegraph":       append([]string{"api"}, pure...),

	"internal/reconcile":      {"api"},
	"internal/apply":          append([]string{"api", "internal/reconcile"}, pure...),
	"internal/httpserver":     {},
	"internal/operatorstatus": {"api"},
	"internal/image":          append([]string{"api"}, pure...),
	"internal/pull":           append([]string{"api", "internal/image"}, pure...),
	"internal/catalogclient":  append([]string{"api"}, pure...),
	"internal/releaseimage":   append([]string{"api", "internal/image"}, pure...),
	"internal/catalogstore":   append([]string{"api"}, pure...),
	"internal/indexdb":        append([]string{"api", "internal/image"}, pure...),

	"internal/catalog":   append([]string{"api"}, shared...),
	"internal/classic":   append([]string{"api"}, shared...),
	"internal/cluster":   append([]string{"api"}, shared...),
	"internal/extension": append([]string{"api"}, shared...),
	"internal/node":      append([]string{"api"}, shared...),

	"internal/action":  append([]string{"api", "config"}, shared...),
	"internal/cli":     append([]string{"api", "internal/action"}, pure...),
	"internal/console": append([]string{"api", "internal/action", "web"}, pure...),
	"internal/run":     slices.Concat([]string{"api", "config", "internal/action"}, shared, components),
	"web":              nil,
	"config":           nil,

	"internal/testing":  {anything},
	"internal/archtest": nil,

	"cmd":      append([]string{"internal/cli", "internal/console", "internal/run"}, components...),
	"bench":    {anything},
	"examples": nil,
	"test":     {"api", "internal/testing"},
}

// notPure are packages that a pure room does not import.
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
	built := map[string]bool{}
	for _, f := range goFiles(t) {
		room, ok := roomOf(f.folder)
		if !ok {
			t.Errorf("%s lies in no room: give it a row here and in docs/architecture.md", f.folder)
			continue
		}
		built[room] = true
		for _, imported := range f.imports {
			checkImport(t, f, room, imported)
		}
	}

	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if !built[room] {
			t.Logf("not built yet: %s", room)
		}
	}
}

func checkImport(t *testing.T, f file, room, imported string) {
	t.Helper()
	where := path.Join(f.folder, f.name)
	inside, ok := strings.CutPrefix(imported, module+"/")
	if !ok {
		if slices.Contains(pure, room) && !f.isTest() && slices.ContainsFunc(notPure, func(p string) bool { return within(imported, p) }) {
			t.Errorf("%s: the pure room %s imports %s", where, room, imported)
		}
		return
	}

	target, ok := roomOf(inside)
	switch {
	case !ok:
		t.Errorf("%s imports %s, which lies in no room", where, inside)
	case target == room:
	case target == "internal/testing":
		if !f.isTest() && !slices.Contains(rooms[room], anything) && !slices.Contains(rooms[room], target) {
			t.Errorf("%s: product code imports %s", where, inside)
		}
	case f.isTest():
		// A test may set the scene with any room; what it tests is its own.
	case !slices.Contains(rooms[room], target) && !slices.Contains(rooms[room], anything):
		t.Errorf("%s: %s may not import %s", where, room, target)
	}
}

// roomOf returns the longest row that holds a folder.
func roomOf(folder string) (string, bool) {
	best := ""
	for room := range rooms {
		if within(folder, room) && len(room) > len(best) {
			best = room
		}
	}
	return best, best != ""
}

func within(folder, room string) bool {
	return folder == room || strings.HasPrefix(folder, room+"/")
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
		"a component and another":       {"internal/catalog", "internal/extension"},
		"a pure room and a shared one":  {"internal/fbc", "internal/image"},
		"a shared room and a component": {"internal/apply", "internal/extension"},
		"api and anything":              {"api", "internal/fbc"},
		"the CLI and a component":       {"internal/cli", "internal/catalog"},
		"product code and test kits":    {"internal/extension", "internal/testing"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(rooms[c.from], c.to) || slices.Contains(rooms[c.from], anything) {
				t.Errorf("%s may import %s", c.from, c.to)
			}
		})
	}
}
