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

func newMarketplaceServer() server {
	m := &marketplaceOptions{}
	return server{
		name:  "marketplace",
		short: "Reconcile the default catalogs of a platform",
		long: `marketplace reconciles the default CatalogSources of a platform. It creates the CatalogSources from the
manifests in a directory, reverts changes to them, and removes those that the OperatorHub "cluster"
disables.`,
		example:        "  mainstay run marketplace --defaults-dir /etc/marketplace/defaults",
		metricsAddress: ":8443",
		addFlags:       m.addFlags,
		setup:          m.setupMarketplace,
	}
}

func (m *marketplaceOptions) addFlags(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.defaultsDir, "defaults-dir", "", "directory with the manifests of the default catalogs, one CatalogSource per file, read at startup (default: no catalogs)")
	flags.StringVar(&m.releaseVersion, "release-version", os.Getenv("RELEASE_VERSION"), "version to report in ClusterOperator marketplace (default: $RELEASE_VERSION, else the version of this program)")
	setFlagDefault(cmd, "system-namespace", marketplace.DefaultNamespace)
	o.tuneManager = func(options *ctrl.Options) { marketplace.Tune(options, o.systemNamespace) }
}

func (m *marketplaceOptions) setupMarketplace(_ context.Context, o *options, mgr ctrl.Manager) error {
	configured := marketplace.Options{Namespace: o.systemNamespace, Release: m.releaseVersion, Program: o.program}
	if m.defaultsDir != "" {
		root, err := os.OpenRoot(m.defaultsDir)
		if err != nil {
			return fmt.Errorf("--defaults-dir: %w", err)
		}
		defer func() { _ = root.Close() }() // The files were only read.
		configured.Defaults = root.FS()
	}

	return marketplace.Setup(mgr, configured)
}
