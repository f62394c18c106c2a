package opm

import (
	"context"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/cli/kubeconfig"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// readAny adds the flags that say how catalogs are reached, and reads those that folders,
// images and the cluster hold.
func readAny(cmd *cobra.Command) metas {
	var (
		registry catalogs.Registry
		cluster  kubeconfig.Flags
		system   string
	)
	BindRegistry(cmd, &registry)
	cluster.Bind(cmd.Flags())
	cmd.Flags().StringVar(&system, "system-namespace", "olmv1-system", "namespace of catalogd on the cluster")

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
