package run

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cluster/retrieval"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// newCopyReleaseCommand returns the command that Jobs run to retrieve releases.
func newCopyReleaseCommand() *cobra.Command {
	var image, from, to string
	cmd := &cobra.Command{
		Use:   retrieval.Command,
		Short: "Copy the current release image to a directory of the node",
		Long: `copy-release copies the manifests and metadata of the release image that it runs in to a directory that
cluster-version-operator reads. The operator runs it in Jobs with --retrieval=job. It does not connect
to the cluster.`,
		Example:      "  mainstay run copy-release --release-image registry.example.com/platform@sha256:... --to /etc/cvo/updatepayloads",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files := os.DirFS(from)
			if _, err := fs.Stat(files, release.FileMetadata); err != nil {
				return fmt.Errorf("%s is not the root of a release image: %w", from, err)
			}
			return retrieval.Put(cmd.Context(), to, image, files)
		},
	}

	cmd.Flags().StringVar(&image, "release-image", "", "pull spec of the release image")
	cmd.Flags().StringVar(&from, "from", "/", "root directory of the release image")
	cmd.Flags().StringVar(&to, "to", "", "directory of releases")
	_ = cmd.MarkFlagRequired("release-image") // the flags were just added
	_ = cmd.MarkFlagRequired("to")

	return cmd
}
