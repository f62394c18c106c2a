package terminal

import (
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// StripControlCharacters removes control characters from the output of a command and its subcommands. It is for
// commands that print texts from untrusted sources, such as the messages of update services.
func StripControlCharacters(cmd *cobra.Command) {
	cmd.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		cmd.SetOut(plainWriter{cmd.OutOrStdout()})
		cmd.SetErr(plainWriter{cmd.ErrOrStderr()})
	}
}

type plainWriter struct{ w io.Writer }

// Write writes the text without control characters, except for line breaks and tabs.
func (p plainWriter) Write(data []byte) (int, error) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, string(data))
	if _, err := io.WriteString(p.w, text); err != nil {
		return 0, err
	}
	return len(data), nil
}
