// Language checks that Go code follows CONTRIBUTING.md: doc comments use Go's verbs, comments avoid
// words that readers stumble over, and private functions with a one-word name are on a list.
//
//	language DIR...
//
// Tests and generated files are not checked. Language prints a finding a line, in the form of the compiler, and
// exits with 1 when there are any.
package main

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// oneWordNames are the names that private functions and methods may have although they are one word:
// one a line, "#" begins a comment.
//
//go:embed names.txt
var oneWordNames string

var (
	// unidiomaticVerb finds a doc comment that begins with the name and a verb that Go does not use there.
	unidiomaticVerb = regexp.MustCompile(`^(\w+) (tells|says)\b`)
	// stumblingWords are the words and phrases that comments must not contain.
	stumblingWords = regexp.MustCompile(`(?i)\b(gives|tells whether|says whether|anew|is to be had|that which|stands? for itself|whoever|what it is told)\b`)
)

func main() {
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: language DIR...") }
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}

	checker := newChecker(oneWordNames)
	for _, folder := range flag.Args() {
		if err := checker.checkFolder(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}

	for _, f := range checker.findings {
		fmt.Println(f)
	}
	if len(checker.findings) > 0 {
		os.Exit(1)
	}
}

// finding is one place that does not read as it should.
type finding struct {
	position token.Position
	text     string
}

// String returns the finding in the form of the compiler's errors.
func (f finding) String() string { return fmt.Sprintf("%s: %s", f.position, f.text) }

// checker collects the findings of files.
type checker struct {
	allowedNames map[string]bool
	findings     []finding
}

// newChecker returns a checker that accepts the one-word names of a list.
func newChecker(names string) *checker {
	allowed := map[string]bool{}
	for line := range strings.Lines(names) {
		name, _, _ := strings.Cut(line, "#")
		for _, word := range strings.Fields(name) {
			allowed[word] = true
		}
	}

	return &checker{allowedNames: allowed}
}

// checkFolder checks the Go files below a folder.
func (c *checker) checkFolder(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "bin", "node_modules", "testdata", "vendor":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}

		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return c.checkFile(path, source)
	})
}

// checkFile checks one file. It fails when the file is not Go.
func (c *checker) checkFile(path string, source []byte) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}

	for _, group := range file.Comments {
		for _, comment := range group.List {
			if word := stumblingWords.FindString(comment.Text); word != "" {
				c.report(set.Position(comment.Pos()), fmt.Sprintf("%q in a comment: use plain words, such as %q", word, plainWords(word)))
			}
		}
	}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			c.checkFunction(set, function)
		}
	}

	slices.SortStableFunc(c.findings, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.position.Filename, b.position.Filename), cmp.Compare(a.position.Offset, b.position.Offset))
	})
	return nil
}

// checkFunction checks the name and the doc comment of a function.
func (c *checker) checkFunction(set *token.FileSet, function *ast.FuncDecl) {
	name := function.Name.Name
	if match := unidiomaticVerb.FindStringSubmatch(function.Doc.Text()); match != nil && match[1] == name {
		c.report(set.Position(function.Pos()), fmt.Sprintf("the comment of %s begins with %q: Go's idiom is %q or %q", name, match[2], "returns", "reports whether"))
	}
	if ast.IsExported(name) || name == "main" || name == "init" || name == "_" || countWords(name) > 1 || c.allowedNames[name] {
		return
	}
	c.report(set.Position(function.Name.Pos()), fmt.Sprintf(
		"%s is one word: name the verb and the noun, or add the name to tools/language/names.txt if it means the same in every package", name))
}

func (c *checker) report(at token.Position, text string) {
	c.findings = append(c.findings, finding{at, text})
}

// plainWords returns what to write instead of a word that readers stumble over.
func plainWords(word string) string {
	switch strings.ToLower(word) {
	case "gives":
		return "returns"
	case "tells whether", "says whether":
		return "reports whether"
	case "anew":
		return "again"
	}
	return "the plain subject and verb"
}

// countWords returns how many words a name in camel case has.
func countWords(name string) int {
	words := 1
	previous := rune(0)
	for _, r := range name {
		if unicode.IsUpper(r) && previous != 0 && !unicode.IsUpper(previous) {
			words++
		}
		previous = r
	}
	return words
}
