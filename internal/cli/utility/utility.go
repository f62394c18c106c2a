// Package utility has the programs cp, cpb and copy-content, which pods of OLM Classic use to copy
// content out of images. Their names and arguments are the ones that the pods use. The component image
// contains them in addition to mainstay. They are not for interactive use.
package utility

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/filecopy"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewCommandByName returns the utility with a name, or nil if there is none.
func NewCommandByName(name string) *cobra.Command {
	switch name {
	case "cp":
		return terminal.ConfigureRoot(newCopyCommand())
	case "cpb":
		return terminal.ConfigureRoot(newCopyBundleCommand())
	case "copy-content":
		return terminal.ConfigureRoot(newCopyContentCommand())
	}

	return nil
}

func newCopyCommand() *cobra.Command {
	var recursive, verbose bool
	cmd := &cobra.Command{
		Use:     "cp SOURCE TARGET",
		Short:   "Copy a file or a directory",
		Example: `  cp -Rv /bin/cpb /util/cpb`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := filecopy.Copy{From: args[0], To: args[1]}
			if verbose {
				c.Copied = func(from, to string) { fmt.Fprintf(cmd.OutOrStdout(), "%s -> %s\n", from, to) }
			}
			return c.Run(cmd.Context())
		},
	}

	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "copy directories recursively (always enabled)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print each copied file")

	return cmd
}

func newCopyBundleCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "cpb FOLDER",
		Short:   "Copy the bundle of the current image to a directory",
		Example: `  cpb /bundle`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return (&filecopy.Bundle{From: "/", To: args[0]}).Run(cmd.Context())
		},
	}
}

func newCopyContentCommand() *cobra.Command {
	var catalog, cache filecopy.Copy
	cmd := &cobra.Command{
		Use:     "copy-content",
		Short:   "Copy the catalog of the current image and its cache to directories",
		Example: `  copy-content --catalog.from=/configs --catalog.to=/extracted-catalog/catalog`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (cache.From == "") != (cache.To == "") {
				return &terminal.UsageError{Err: errors.New("--cache.from and --cache.to must be set together")}
			}
			for _, c := range []filecopy.Copy{catalog, cache} {
				if c.From == "" {
					continue
				}
				if err := c.Run(cmd.Context()); err != nil {
					return err
				}
			}
			return nil
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&catalog.From, "catalog.from", "", "directory of the catalog")
	flags.StringVar(&catalog.To, "catalog.to", "", "directory to copy to")
	flags.StringVar(&cache.From, "cache.from", "", "directory of the cache of the catalog (default: no cache)")
	flags.StringVar(&cache.To, "cache.to", "", "directory to copy to")
	for _, name := range []string{"catalog.from", "catalog.to"} {
		_ = cmd.MarkFlagRequired(name) // the flag was just added
	}

	return cmd
}
