package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/cli"
	"github.com/mainstay-dev/mainstay/web"
)

// The commands of the page about sites work as documented.
func TestSitePage(t *testing.T) {
	if _, err := web.Site().Open("index.html"); err != nil {
		t.Fatalf("reading the built pages of the site: %v: run 'make web'", err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "catalog-site.md"))
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := filepath.Abs(filepath.Join("testdata", "catalog"))
	if err != nil {
		t.Fatal(err)
	}

	t.Chdir(t.TempDir())
	if err := os.CopyFS("catalog", os.DirFS(catalog)); err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(page), "```sh\n")
	for block := range strings.SplitSeq(rest, "```sh\n") {
		commands, after, _ := strings.Cut(block, "```")
		_, output, hasOutput := strings.Cut(after, "```text\n")
		want, _, _ := strings.Cut(output, "```")
		got := runDocumented(t, strings.TrimSpace(commands))
		if diff := cmp.Diff(want, got); !hasOutput || diff != "" {
			t.Errorf("%s writes (-page +got):\n%s", commands, diff)
		}
	}

	index, err := os.ReadFile(filepath.Join("site", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{`="/`, `="http`, "<script>"} {
		if strings.Contains(string(index), foreign) {
			t.Errorf("the page contains %s, want only relative addresses and no inline scripts:\n%s", foreign, index)
		}
	}
	if !strings.Contains(string(index), "Content-Security-Policy") {
		t.Errorf("the page has no content security policy:\n%s", index)
	}
}

// runDocumented runs a command of the page: mainstay, or cat of a file.
func runDocumented(t *testing.T, line string) string {
	t.Helper()
	if name, ok := strings.CutPrefix(line, "cat "); ok {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

	cmd := cli.NewCommand(cli.Options{})
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"catalog", "site", "catalog", "-o", "site", "--title", "Kitchen operators"})
	if want := `mainstay catalog site catalog -o site --title "Kitchen operators"`; line != want {
		t.Fatalf("got the command %q, want %q", line, want)
	}
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out.String())
	}
	return out.String()
}
