package terminal_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Control characters are removed from standard output and standard error.
func TestPlain(t *testing.T) {
	root := &cobra.Command{Use: "root"}
	child := &cobra.Command{Use: "child", RunE: func(cmd *cobra.Command, _ []string) error {
		const text = "\x1b[2Jcol\tumn größe\r\n\u009b31m\x00\x7f"
		if n, err := fmt.Fprint(cmd.OutOrStdout(), text); n != len(text) || err != nil {
			t.Errorf("got %d bytes written, error %v", n, err)
		}
		return errors.New("\x1b]0;title\x07failed")
	}}

	root.AddCommand(child)
	terminal.StripControlCharacters(root)
	var out, problems bytes.Buffer
	terminal.ConfigureRoot(root).SetOut(&out)
	root.SetErr(&problems)
	root.SetArgs([]string{"child"})
	code := terminal.Execute(t.Context(), root)
	got := fmt.Sprintf("%d\n%s\n%s", code, out.String(), problems.String())
	if diff := cmp.Diff("1\n[2Jcol\tumn größe\n31m\nError: ]0;titlefailed\n", got); diff != "" {
		t.Errorf("shown text (-want +got):\n%s", diff)
	}
}
