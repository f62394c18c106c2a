package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// goFlagsOfMake is the line of the Makefile that sets the flags of every go command.
var goFlagsOfMake = regexp.MustCompile(`^export GOFLAGS := .* -trimpath -tags=(\S+)$`)

// flagsOfCompiledPackages are flags and variables that determine whether a compiled package is used again. The flags of
// the linker do not.
var flagsOfCompiledPackages = []string{"GOFLAGS", "CGO_ENABLED", "-trimpath", "-tags", "-gcflags", "-asmflags", "-race", "-cover", "-buildmode"}

// Programs, tests and linters are compiled with the same flags, so that nobody compiles a package twice.
func TestFlagsOfCompilerAreSetOnce(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}

	var tags []string
	for line := range strings.Lines(string(makefile)) {
		line = strings.TrimSuffix(line, "\n")
		if match := goFlagsOfMake.FindStringSubmatch(line); match != nil && tags == nil {
			tags = strings.Split(match[1], ",")
			continue
		}
		if line == "export CGO_ENABLED := 0" || strings.HasPrefix(line, "#") {
			continue
		}

		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\"'$(){}", r) }) {
			if name, _, _ := strings.Cut(word, "="); slices.Contains(flagsOfCompiledPackages, name) {
				t.Errorf("the Makefile has %q, want %s only once, at its top, for all commands", line, name)
			}
		}
	}
	if len(tags) == 0 {
		t.Fatal("the Makefile has no line 'export GOFLAGS := … -trimpath -tags=…', which all commands share")
	}

	linters, err := os.ReadFile(filepath.Join(root, ".golangci.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	var config struct {
		Run struct {
			BuildTags []string `json:"build-tags"`
		} `json:"run"`
	}
	if err := yaml.Unmarshal(linters, &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Run.BuildTags, tags) {
		t.Errorf("got the tags %q for the linters in .golangci.yaml, want those of the Makefile, %q", config.Run.BuildTags, tags)
	}
}
