package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var packages = []listedPackage{
	{ImportPath: "fmt", Standard: true},
	{ImportPath: "vendor/golang.org/x/net/idna", Standard: true, Imports: []string{"fmt"}},
	{ImportPath: "example.com/old/v2", Module: &module{Path: "example.com/old/v2", Version: "v2.8.3+incompatible", Sum: "h1:old="}, Imports: []string{"fmt"}},
	{ImportPath: "example.com/api/v1", Module: &module{
		Path: "example.com/api", Version: "v0.1.0", Replace: &module{Path: "example.com/fork", Version: "v0.2.0", Sum: "h1:fork="},
	}, Imports: []string{"fmt", "example.com/old/v2"}},
	{ImportPath: "example.com/own/tool", Module: &module{Path: "example.com/own", Main: true}, Imports: []string{
		"example.com/api/v1", "example.com/own/internal", "C",
	}},
	{ImportPath: "example.com/own/internal", Module: &module{Path: "example.com/own", Main: true}},
}

// TestBOM compares the SBOM with the golden file, which has the format that scanners read.
func TestBOM(t *testing.T) {
	bom, err := newBOM(packages, "v1.0.0", "1.26.0")
	if err != nil {
		t.Fatal(err)
	}

	var got bytes.Buffer
	if err := encodeBOM(&got, bom); err != nil {
		t.Fatal(err)
	}

	want, err := os.ReadFile(filepath.Join("testdata", "own.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got the SBOM\n%s\nwant\n%s", &got, want)
	}
}

func TestNoBOM(t *testing.T) {
	if _, err := newBOM(packages[:4], "v1.0.0", "1.26.0"); err == nil {
		t.Error("got no error for packages without a main module")
	}
	if _, err := writeBOM(t.Context(), t.TempDir(), "v1.0.0", t.TempDir()); err == nil || !strings.Contains(err.Error(), "go list: ") {
		t.Errorf("got %v, want that go list failed", err)
	}
}

// TestBOMOfModule checks that the SBOM of a module contains the dependencies of its programs and
// tools, and not those of its tests.
func TestBOMOfModule(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}

	dir, to := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"go.mod":        "module example.com/own\n\ngo 1.26\n\ntool example.com/own/tool\n",
		"own.go":        "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n",
		"own_test.go":   "package main\n\nimport _ \"example.com/missing\"\n",
		"tool/tool.go":  "package main\n\nfunc main() {}\n",
		"doc/README.md": "no package\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	file, err := writeBOM(t.Context(), dir, "v1.0.0", to)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(to, "own.cdx.json"); file != want {
		t.Errorf("got the file %s, want %s", file, want)
	}

	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{`"pkg:golang/example.com/own@v1.0.0?type=module"`, `"pkg:golang/std@`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("got an SBOM without %s:\n%s", want, data)
		}
	}

	if bytes.Contains(data, []byte("missing")) {
		t.Errorf("got an SBOM with dependencies of tests:\n%s", data)
	}
}
