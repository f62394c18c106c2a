package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

func newLogsCommand(dir *dataDirFlag) *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Print the log of a component",
		Long:  `Print the log that a component wrote in the current run or, if no cluster runs, in the latest run.`,
		Example: `  devcluster logs kube-apiserver
  devcluster logs --follow nodes`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			dir, err := dir.resolveDataDir()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return listComponentLogs(dir), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			dir, err := dir.resolveDataDir()
			if err != nil {
				return err
			}
			return printComponentLog(command.Context(), command.OutOrStdout(), dir, args[0], follow)
		},
	}

	command.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines of the log until Ctrl-C")
	return command
}

// listComponentLogs returns the sorted names of the components that have a log.
func listComponentLogs(dir state.Dir) []string {
	paths, err := filepath.Glob(dir.Log("*"))
	if err != nil {
		return nil
	}

	names := make([]string, 0, len(paths))
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".log"))
	}

	slices.Sort(names)
	return names
}

// printComponentLog copies the log of a component to out. If follow is set, it continues until ctx ends.
func printComponentLog(ctx context.Context, out io.Writer, dir state.Dir, component string, follow bool) error {
	names := listComponentLogs(dir)
	if !slices.Contains(names, component) {
		if len(names) == 0 {
			return fmt.Errorf("no cluster ever ran on %s", dir)
		}
		return fmt.Errorf("no component %q has a log; those that have: %s", component, strings.Join(names, ", "))
	}

	file, err := os.Open(dir.Log(component))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the log of %s was just deleted", component)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		if _, err := io.Copy(out, file); err != nil {
			return err
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond): // This is fast enough for a person who follows the log.
		}
	}
}
