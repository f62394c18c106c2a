package kube

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// WaitFlags are the flags of a command that can wait for its result.
type WaitFlags struct {
	// Wait is the flag --wait.
	Wait bool
	// Timeout is the flag --timeout. Zero means no timeout.
	Timeout time.Duration
}

// AddFlags adds the flags to a command. The argument what completes the help "wait until ...".
func (w *WaitFlags) AddFlags(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&w.Wait, "wait", false, "wait until "+what)
	terminal.AddDurationFlag(cmd, &w.Timeout, "timeout", 5*time.Minute, "how long to wait; 0 means no timeout")
}

// ToWait returns the requested wait, or nil if --wait is not set.
func (w *WaitFlags) ToWait() *action.Wait {
	if !w.Wait {
		return nil
	}
	return &action.Wait{Timeout: w.Timeout}
}
