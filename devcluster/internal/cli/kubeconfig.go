package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

func newKubeconfigCommand(dir *dataDirFlag) *cobra.Command {
	var pathOnly bool
	command := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig, or its path",
		Example: `  export KUBECONFIG=$(devcluster kubeconfig --path)
  devcluster kubeconfig > ~/other.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := dir.resolveDataDir()
			if err != nil {
				return err
			}

			content, err := os.ReadFile(dir.Kubeconfig())
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("no cluster ever ran on %s; start one with `devcluster up`", dir)
			}
			if err != nil {
				return err
			}
			if pathOnly {
				content = []byte(dir.Kubeconfig() + "\n")
			}

			_, err = command.OutOrStdout().Write(content)
			return err
		},
	}

	command.Flags().BoolVar(&pathOnly, "path", false, "print the path of the file instead of its content")
	return command
}
