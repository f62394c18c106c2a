package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Exit code and standard error of failed commands.
func TestExecute(t *testing.T) {
	broken := errors.New("it is broken")
	cases := map[string]struct {
		err    error
		code   int
		errors string
	}{
		"success":   {nil, 0, ""},
		"failure":   {broken, 1, "Error: it is broken\n"},
		"advice":    {&report.Error{Object: "pot", Err: broken, Advice: "buy another"}, 1, "Error: pot: it is broken\nWhat to do: buy another.\n"},
		"usage":     {&UsageError{Err: broken}, 1, "Error: it is broken\nRun 'program --help' for usage.\n"},
		"exit code": {&ExitError{Code: 3, Err: broken}, 3, "Error: it is broken\n"},
		"no words":  {&ExitError{Code: 1}, 1, ""},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			root := ConfigureRoot(&cobra.Command{Use: "program", RunE: func(*cobra.Command, []string) error { return c.err }})
			root.SetArgs([]string{})
			root.SetOut(&out)
			root.SetErr(&errs)
			if code := Execute(t.Context(), root); code != c.code {
				t.Errorf("got exit code %d, want %d", code, c.code)
			}
			if diff := cmp.Diff(c.errors, errs.String()); diff != "" || out.Len() > 0 {
				t.Errorf("standard error (-want +got):\n%s\nstandard output: %q", diff, out.String())
			}
		})
	}
}

// Flags that exclude each other are named in one sentence, regardless of cobra's message.
func TestExecuteExclusiveFlags(t *testing.T) {
	for line, want := range map[string]string{
		"--one":               "",
		"--one --two":         "Error: --one and --two exclude each other; give one of them\nRun 'program --help' for usage.\n",
		"--two --one --three": "Error: --one, --three and --two exclude each other; give one of them\nRun 'program --help' for usage.\n",
	} {
		t.Run(line, func(t *testing.T) {
			var errs bytes.Buffer
			root := ConfigureRoot(&cobra.Command{Use: "program", RunE: func(*cobra.Command, []string) error { return nil }})
			for _, name := range []string{"one", "two", "three"} {
				root.Flags().Bool(name, false, "")
			}
			root.MarkFlagsMutuallyExclusive("one", "two", "three")
			root.SetArgs(strings.Fields(line))
			root.SetErr(&errs)
			code := Execute(t.Context(), root)
			if diff := cmp.Diff(want, errs.String()); diff != "" || (code == 0) != (want == "") {
				t.Errorf("got exit code %d, standard error (-want +got):\n%s", code, diff)
			}
		})
	}
}
