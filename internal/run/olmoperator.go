package run

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
)

// olmOperatorOptions are the flags of olm-operator.
type olmOperatorOptions struct {
	interval                       time.Duration
	protected                      string
	clusterOperator, packageServer string
	releaseVersion                 string
}

func olmOperatorServer() server {
	c := &olmOperatorOptions{}
	return server{
		name:  "olm-operator",
		short: "Install the operators that ClusterServiceVersions describe",
		long: `olm-operator installs the operator of each ClusterServiceVersion whose requirements are
met and whose namespace has an OperatorGroup, keeps it installed, and lets a newer one take
its place. It finds the namespaces of OperatorGroups, makes the roles for what operators
provide, copies ClusterServiceVersions into the namespaces that are watched, and keeps
OperatorConditions.`,
		example:        "  mainstay run olm-operator --system-namespace olm",
		metricsAddress: ":8443",
		bind:           c.bind,
		setup:          c.setup,
	}
}

func (c *olmOperatorOptions) bind(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&c.interval, "interval", 0, "how often everything is looked at although nothing has happened, give or take a tenth; 0: never")
	flags.StringVar(&c.protected, "protectedCopiedCSVNamespaces", "", "namespaces, separated by commas, that have copies of ClusterServiceVersions even if the OLMConfig disables them")
	flags.StringVar(&c.clusterOperator, "writeStatusName", "", "ClusterOperator that is reported by; unset: none")
	flags.StringVar(&c.packageServer, "writePackageServerStatusName", "", "ClusterOperator of the package server, by the ClusterServiceVersion that has its name in the label olm.clusteroperator.name; unset: none")
	flags.StringVar(&c.releaseVersion, "release-version", os.Getenv("RELEASE_VERSION"), "version of the platform that it reports; unset: $RELEASE_VERSION, or that of this program")
	changeDefault(cmd, "system-namespace", "olm")
	o.tune = func(options *ctrl.Options) {
		olmoperator.Tune(options)
		options.Cache.SyncPeriod = &c.interval
	}
}

// list returns the words between commas.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func (c *olmOperatorOptions) setup(_ context.Context, o *options, mgr ctrl.Manager) error {
	if c.interval < 0 {
		return fmt.Errorf("--interval: %s is negative", c.interval)
	}

	if err := olmoperator.Setup(mgr, olmoperator.Options{
		Namespace: o.systemNamespace, Release: c.releaseVersion, Program: o.program,
		ClusterOperator: c.clusterOperator, PackageServer: c.packageServer, ProtectedNamespaces: list(c.protected),
	}); err != nil {
		return err
	}

	return olmoperator.Measure(mgr)
}
