package opm_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// runAsOpm makes the test binary run as opm, for shell commands.
const runAsOpm = "RUN_TESTS_AS_OPM"

func TestMain(m *testing.M) {
	if os.Getenv(runAsOpm) != "" {
		os.Exit(terminal.Execute(context.Background(), opm.NewCommand(opm.Options{})))
	}
	os.Exit(env.Run(m))
}

// block is a block of commands in the page with the expected output.
type block struct{ commands, output string }

// All commands of the page for authors work as documented.
func TestPage(t *testing.T) {
	checkout.FindProgram(t, "sh")
	checkout.FindProgram(t, "jq")
	page, err := filepath.Abs(filepath.Join("..", "..", "..", "docs", "opm.md"))
	if err != nil {
		t.Fatal(err)
	}

	blocks := readPage(t, page)
	i := newRegistryFixture(t)
	dir := preparePageDirectory(t)
	for _, b := range blocks {
		shell := exec.Command("sh", "-e")
		shell.Dir = dir
		shell.Stdin = strings.NewReader(strings.ReplaceAll(b.commands, "registry.example.com/", i.address+"/"))
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s\n%s", err, b.commands, out)
		}

		got := strings.ReplaceAll(string(out), i.address+"/", "registry.example.com/")
		if diff := cmp.Diff(b.output, got); diff != "" {
			t.Fatalf("the commands\n%s\nwrite (-page +got):\n%s", b.commands, diff)
		}
	}
}

// readPage returns the command blocks of a page with their expected output.
func readPage(t *testing.T, name string) []block {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var blocks []block
	inside := ""
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case inside != "" && line == "```":
			inside = ""
		case line == "```sh":
			inside = line
			blocks = append(blocks, block{})
		case line == "```text":
			inside = line
		case inside == "```sh":
			blocks[len(blocks)-1].commands += line + "\n"
		case inside == "```text":
			blocks[len(blocks)-1].output += line + "\n"
		}
	}

	if err := scanner.Err(); err != nil || len(blocks) == 0 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}

	return blocks
}

// preparePageDirectory creates the directory that the page starts in, and adds opm to the path.
func preparePageDirectory(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	bin := t.TempDir()
	script := "#!/bin/sh\n" + runAsOpm + "=1 exec '" + program + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "opm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	csv, err := os.ReadFile("testdata/bundle/manifests/kettle.clusterserviceversion.yaml")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	write(t, dir, "README.md", "Boils water.\n")
	for _, version := range []string{"0.1.0", "0.2.0"} {
		write(t, dir, "kettle/"+version+"/manifests/csv.yaml", strings.ReplaceAll(string(csv), "0.1.0", version))
	}

	return dir
}
