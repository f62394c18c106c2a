package opm

import (
	"context"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/cli/kubeconfig"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// NewCatalogReader adds the flags for registries and the cluster to a command, and returns a reader of
// catalogs in directories, images and the cluster.
func NewCatalogReader(cmd *cobra.Command) CatalogReader {
	var (
		registry catalogs.Registry
		cluster  kubeconfig.Flags
		system   string
	)
	AddRegistryFlags(cmd, &registry)
	cluster.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&system, "system-namespace", "olmv1-system", "namespace of catalogd")

	return func(ctx context.Context, ref string) iter.Seq2[fbc.Meta, error] {
		name, onCluster := strings.CutPrefix(ref, clustercatalog.Prefix)
		if !onCluster {
			return catalogs.Metas(ctx, registry, ref)
		}
		return func(yield func(fbc.Meta, error) bool) {
			config, err := cluster.Config()
			if err != nil {
				yield(fbc.Meta{}, err)
				return
			}
			reader := clustercatalog.Reader{Config: config, SystemNamespace: system}
			reader.Metas(ctx, name)(yield)
		}
	}
}
