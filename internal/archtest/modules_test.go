package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var modulesOfMake = regexp.MustCompile(`(?m)^MODULES := (.*)$`)

// Each module of the repository has a bill of materials, and is checked for vulnerabilities.
func TestEveryModuleHasBillAndCheck(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}

	match := modulesOfMake.FindSubmatch(makefile)
	if match == nil {
		t.Fatal("the Makefile has no line MODULES := …")
	}

	listed := strings.Fields(string(match[1]))
	slices.Sort(listed)

	var found []string
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata") {
			return fs.SkipDir
		}
		if entry.Name() == "go.mod" {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			found = append(found, filepath.ToSlash(dir))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	slices.Sort(found)
	if !slices.Equal(listed, found) {
		t.Errorf("got MODULES := %s in the Makefile, want the folders with a go.mod: %s", strings.Join(listed, " "), strings.Join(found, " "))
	}

	for _, command := range []string{"$(SBOM)", "$(VULNCHECK)"} {
		line := regexp.MustCompile(regexp.QuoteMeta("\t@"+command+" ") + `.* \$\(MODULES\)\n`)
		if !line.Match(makefile) {
			t.Errorf("the Makefile does not run %s for $(MODULES)", command)
		}
	}
}
