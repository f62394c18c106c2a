package kube

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// AddVersionRangeFlag adds the flag --version for the versions of a package that a command may select.
func AddVersionRangeFlag(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "version", "", `version or version range, for example "1.4.0", "1.4.x" or ">=1.4, <2"; empty allows every version`)
	terminal.RestrictFlag(cmd, "version", `a version or a version range, such as "1.4.0", "1.4.x" or ">=1.4, <2"`, func() bool {
		_, err := resolve.ParseConstraint(*value)
		return err == nil
	})
}
