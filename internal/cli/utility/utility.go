// Package utility has the programs by which OLM's pods take what they need out of images, under
// the names and with the arguments that the pods call them: cp, cpb and copy-content. The image of
// the components has them beside mainstay; they are nothing that a person calls.
package utility

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/filecopy"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// ByName returns the program of a name, nil when it is no utility.
func ByName(name string) *cobra.Command {
	switch name {
	case "cp":
		return terminal.Finish(copyCommand())
	case "cpb":
		return terminal.Finish(bundleCommand())
	case "copy-content":
		return terminal.Finish(contentCommand())
	}

	return nil
}

func copyCommand() *cobra.Command {
	var recursive, verbose bool
	cmd := &cobra.Command{
		Use:     "cp SOURCE TARGET",
		Short:   "Copy a file, or a folder with all that is in it",
		Example: `  cp -Rv /bin/cpb /util/cpb`,
		Args:    terminal.Usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := filecopy.Copy{From: args[0], To: args[1]}
			if verbose {
				c.Copied = func(from, to string) { fmt.Fprintf(cmd.OutOrStdout(), "%s -> %s\n", from, to) }
			}
			return c.Run(cmd.Context())
		},
	}

	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "copy folders too, which is always done")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print each file that is copied")

	return cmd
}

func bundleCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "cpb FOLDER",
		Short:   "Copy the bundle of the image that this runs in to a folder",
		Example: `  cpb /bundle`,
		Args:    terminal.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return (&filecopy.Bundle{From: "/", To: args[0]}).Run(cmd.Context())
		},
	}
}

func contentCommand() *cobra.Command {
	var catalog, cache filecopy.Copy
	cmd := &cobra.Command{
		Use:     "copy-content",
		Short:   "Copy the catalog of the image that this runs in, and its cache, to folders",
		Example: `  copy-content --catalog.from=/configs --catalog.to=/extracted-catalog/catalog`,
		Args:    terminal.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (cache.From == "") != (cache.To == "") {
				return &terminal.UsageError{Err: errors.New("--cache.from and --cache.to go together")}
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
	flags.StringVar(&catalog.From, "catalog.from", "", "folder of the catalog")
	flags.StringVar(&catalog.To, "catalog.to", "", "folder that it is copied to")
	flags.StringVar(&cache.From, "cache.from", "", "folder of the catalog's cache; unset: it has none")
	flags.StringVar(&cache.To, "cache.to", "", "folder that it is copied to")
	for _, name := range []string{"catalog.from", "catalog.to"} {
		_ = cmd.MarkFlagRequired(name) // the flag was just added
	}

	return cmd
}
