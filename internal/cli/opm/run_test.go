package opm_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// result is the result of a command line.
type result struct {
	line        []string
	out, errors string
	code        int
}

// String returns the transcript of the command line.
func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ opm %s\n%s", strings.Join(r.line, " "), r.out)
	if r.errors != "" {
		fmt.Fprintf(&b, "--- stderr\n%s", r.errors)
	}
	if r.code != 0 {
		fmt.Fprintf(&b, "--- exit code %d\n", r.code)
	}

	return b.String()
}

// command is a command line to run in this process.
type command struct {
	line  []string
	input string
	// options are the options of the program. The zero value has no server.
	options opm.Options
}

func (c command) run(t *testing.T) result {
	t.Helper()
	root := opm.NewCommand(c.options)
	var out, errors bytes.Buffer
	root.SetIn(strings.NewReader(c.input))
	root.SetOut(&out)
	root.SetErr(&errors)
	root.SetArgs(c.line)
	code := terminal.Execute(t.Context(), root)

	return result{line: c.line, out: out.String(), errors: errors.String(), code: code}
}

// run runs a command line whose words are separated by spaces.
func run(t *testing.T, line string) result {
	t.Helper()
	return command{line: strings.Fields(line)}.run(t)
}

// mustRun runs a command line that must succeed, and returns its output.
func mustRun(t *testing.T, line ...string) string {
	t.Helper()
	r := command{line: line}.run(t)
	if r.code != 0 {
		t.Fatal(r)
	}
	return r.out
}

// scrubs replace values that differ between runs.
var scrubs = []struct{ pattern, with string }{
	{`sha256:[0-9a-f]{64}`, "sha256:DIGEST"},
	{`127\.0\.0\.1:\d+`, "REGISTRY"},
}

// check compares a transcript with a golden file. The argument hidden contains pairs of a text and its
// replacement.
func check(t *testing.T, name string, r result, hidden ...string) {
	t.Helper()
	text := strings.NewReplacer(hidden...).Replace(r.String())
	for _, s := range scrubs {
		text = regexp.MustCompile(s.pattern).ReplaceAllString(text, s.with)
	}
	golden.Check(t, name+".txt", []byte(text))
}
