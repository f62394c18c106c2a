package run

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/classic/marketplace"
)

// marketplaceOptions are the flags of marketplace.
type marketplaceOptions struct {
	defaultsDir    string
	releaseVersion string
}

func marketplaceServer() server {
	m := &marketplaceOptions{}
	return server{
		name:  "marketplace",
		short: "Keep the default catalogs of a platform",
		long: `marketplace keeps the CatalogSources that come with a platform: it makes those of the
manifests in a folder, changes back what is changed in them, and removes those that the
OperatorHub "cluster" turns off.`,
		example:        "  mainstay run marketplace --defaults-dir /etc/marketplace/defaults",
		metricsAddress: ":8443",
		bind:           m.bind,
		setup:          m.setup,
	}
}

func (m *marketplaceOptions) bind(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.defaultsDir, "defaults-dir", "", "folder with manifests of the default catalogs, one CatalogSource a file; it is read at the start; unset: there are none")
	flags.StringVar(&m.releaseVersion, "release-version", os.Getenv("RELEASE_VERSION"), "version that ClusterOperator marketplace reports; unset: $RELEASE_VERSION, or that of this program")
	changeDefault(cmd, "system-namespace", marketplace.DefaultNamespace)
	o.tune = func(options *ctrl.Options) { marketplace.Tune(options, o.systemNamespace) }
}

// changeDefault returns a flag of every server another default.
func changeDefault(cmd *cobra.Command, name, value string) {
	flag := cmd.Flags().Lookup(name)
	flag.DefValue = value
	_ = flag.Value.Set(value) // a text that can be read
}

func (m *marketplaceOptions) setup(_ context.Context, o *options, mgr ctrl.Manager) error {
	configured := marketplace.Options{Namespace: o.systemNamespace, Release: m.releaseVersion, Program: o.program}
	if m.defaultsDir != "" {
		root, err := os.OpenRoot(m.defaultsDir)
		if err != nil {
			return fmt.Errorf("--defaults-dir: %w", err)
		}
		defer func() { _ = root.Close() }() // It was only read.
		configured.Defaults = root.FS()
	}

	return marketplace.Setup(mgr, configured)
}
