package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// docs is the directory with a page for each command.
var docs = filepath.Join("..", "..", "docs", "cli")

// commands returns all commands without subcommands of both programs.
func commands() []*cobra.Command {
	var found []*cobra.Command
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			return // commands of cobra are described by their help
		}
		if !cmd.HasSubCommands() {
			found = append(found, cmd)
		}
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}

	visit(cli.NewCommand(cli.Options{}))
	visit(opmWithAlpha())

	return found
}

// opmWithAlpha returns the command line of opm with alpha commands and flags.
func opmWithAlpha() *cobra.Command {
	const variable = "HELP_ALPHA"
	before, was := os.LookupEnv(variable)
	_ = os.Setenv(variable, "true") // this name is always valid
	defer func() {
		if was {
			_ = os.Setenv(variable, before)
		} else {
			_ = os.Unsetenv(variable)
		}
	}()

	return opm.NewCommand(opm.Options{})
}

func pageOf(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".md"
}

// Each command has a page that is generated from the help of the command. -update rewrites the pages.
func TestPages(t *testing.T) {
	pages := map[string]bool{"README.md": true}
	for _, cmd := range commands() {
		pages[pageOf(cmd)] = true
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.Short == "" || cmd.Example == "" {
				t.Errorf("the command needs a short text and an example")
			}
			golden.CheckFile(t, filepath.Join(docs, pageOf(cmd)), page(cmd))
		})
	}

	golden.CheckFile(t, filepath.Join(docs, "README.md"), index())
	entries, err := os.ReadDir(docs)
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		if !pages[entry.Name()] && !strings.HasPrefix(entry.Name(), "mainstay-run") {
			t.Errorf("%s does not belong to a command", entry.Name())
		}
	}
}

// page returns the documentation of a command.
func page(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}

	fmt.Fprintf(&b, "# %s\n\n%s\n\n```\n%s\n```\n\n## Examples\n\n```sh\n%s\n```\n", cmd.CommandPath(), text, cmd.UseLine(), unindent(cmd.Example))
	if flags := cmd.LocalFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(&b, "\n## Flags\n\n```\n%s```\n", flags)
	}

	if flags := cmd.InheritedFlags().FlagUsages(); flags != "" {
		heading := "Flags for the cluster"
		if cmd.Root().Name() == "opm" {
			heading = "Flags of all commands"
		}
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", heading, flags)
	}

	return b.Bytes()
}

// index returns the list of pages.
func index() []byte {
	var b bytes.Buffer
	b.WriteString("# Commands\n\nOne page per command. The pages are generated from the help of the commands by\n`go test ./internal/cli -run TestPages -update`.\n\n| command | |\n|---|---|\n")
	for _, cmd := range commands() {
		fmt.Fprintf(&b, "| [`%s`](%s) | %s |\n", cmd.CommandPath(), pageOf(cmd), cmd.Short)
	}
	b.WriteString("\n`mainstay completion bash|zsh|fish|powershell` and `opm completion …` print the completion script of a\nshell. Names of extensions, catalogs, namespaces and pools, versions, channels and risks are completed\nfrom the cluster.\n")
	return b.Bytes()
}

func unindent(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
	}
	return strings.Join(lines, "\n")
}

// Every command line in the documentation is valid: the command exists, and it accepts the flags and arguments.
func TestExamplesParse(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("got no pages, error %v", err)
	}

	for _, name := range append(pages, leastPrivilege, userAccess, releaseImages, clusterUpdates) {
		for _, line := range exampleLines(t, name) {
			t.Run(filepath.Base(name)+"/"+line, func(t *testing.T) {
				if err := parses(line); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// exampleLines returns the command lines in the shell blocks of a page.
func exampleLines(t *testing.T, name string) []string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines []string
	shell := false
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "```"):
			shell = line == "```sh"
		case shell && (strings.HasPrefix(line, "mainstay ") || strings.HasPrefix(line, "opm ")) && !strings.HasPrefix(line, "mainstay run"):
			line, _, _ = strings.Cut(line, " > ") // where the shell sends the output
			lines = append(lines, line)
		}
	}

	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}

	return lines
}

// parses returns an error if a command line is not valid. It does not run the command.
func parses(line string) error {
	words := split(line)
	root := cli.NewCommand(cli.Options{})
	if words[0] == "opm" {
		root = opm.NewCommand(opm.Options{})
	}

	cmd, rest, err := root.Find(words[1:])
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() {
		return fmt.Errorf("%q is not a command that does something", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}

	return cmd.ValidateArgs(cmd.Flags().Args())
}

// split splits a line at spaces outside of quotes.
func split(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}

	return words
}

// leastPrivilege is a page with an example and its output.
var leastPrivilege = filepath.Join("..", "..", "docs", "least-privilege.md")

// userAccess is a page with commands.
var userAccess = filepath.Join("..", "..", "docs", "user-access.md")

// clusterUpdates is a page with commands.
var clusterUpdates = filepath.Join("..", "..", "docs", "cluster-updates.md")

// The page contains the output of its command that does not require a cluster.
func TestLeastPrivilegePage(t *testing.T) {
	page, err := os.ReadFile(leastPrivilege)
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	shown, _, _ := strings.Cut(rest, "```\n")
	var line string
	for _, example := range exampleLines(t, leastPrivilege) {
		if strings.Contains(example, " --bundle ") {
			line = example
		}
	}

	t.Chdir(filepath.Join("..", ".."))
	var out bytes.Buffer
	root := cli.NewCommand(cli.Options{})
	root.SetOut(&out)
	root.SetArgs(split(line)[1:])
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if diff := cmp.Diff(out.String(), shown); diff != "" {
		t.Errorf("%s (-written +on the page):\n%s", line, diff)
	}
}

func TestParsesCanFail(t *testing.T) {
	for _, line := range []string{
		"mainstay extension", "mainstay extension lst", "mainstay extension status", "mainstay catalog add x",
		"mainstay catalog list --everything", "opm render",
	} {
		if err := parses(line); err == nil {
			t.Errorf("got no error for %q, want one", line)
		}
	}
}
