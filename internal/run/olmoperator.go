package run

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/classic/olmoperator"
)

// olmOperatorOptions are the flags of olm-operator.
type olmOperatorOptions struct {
	resyncInterval                 time.Duration
	protectedNamespaces            string
	clusterOperator, packageServer string
	releaseVersion                 string
	compatibility                  classicFlags
}

func newOLMOperatorServer() server {
	c := &olmOperatorOptions{}
	return server{
		name:  "olm-operator",
		short: "Install operators from ClusterServiceVersions",
		long: `olm-operator installs the operator of each ClusterServiceVersion whose requirements are met and whose
namespace has an OperatorGroup, reconciles the installed objects, and replaces the operator by newer
versions. It resolves the target namespaces of OperatorGroups, creates the aggregated roles for provided
APIs, copies ClusterServiceVersions to the target namespaces, and reconciles OperatorConditions.`,
		example:        "  mainstay run olm-operator --system-namespace olm",
		metricsAddress: ":8443",
		addFlags:       c.addFlags,
		validate:       c.validate,
		setup:          c.setupOLMOperator,
	}
}

func (c *olmOperatorOptions) addFlags(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&c.resyncInterval, "interval", 0, "resync interval, with a jitter of 10 percent; 0 disables resyncs")
	flags.StringVar(&c.protectedNamespaces, "protectedCopiedCSVNamespaces", "", "namespaces, separated by commas, with copied CSVs even if the OLMConfig disables copied CSVs")
	flags.StringVar(&c.clusterOperator, "writeStatusName", "", "name of the ClusterOperator for the status (default: none)")
	flags.StringVar(&c.packageServer, "writePackageServerStatusName", "", "name of the ClusterOperator for the status of the package server, whose ClusterServiceVersion has this name in the label olm.clusteroperator.name (default: none)")
	flags.StringVar(&c.releaseVersion, "release-version", os.Getenv("RELEASE_VERSION"), "platform version to report in the ClusterOperators (default: $RELEASE_VERSION, else the version of this program)")
	flags.StringVar(&o.systemNamespace, "namespace", "olm", "alias of --system-namespace")
	flags.StringVar(&c.compatibility.watchedNamespaces, "watchedNamespaces", "", "refused unless it is empty: all namespaces are watched")
	c.compatibility.addFlags(o, cmd)
	setFlagDefault(cmd, "system-namespace", "olm")
	o.tuneManager = func(options *ctrl.Options) {
		c.compatibility.tuneMetrics(options)
		olmoperator.ConfigureOptions(options)
		options.Cache.SyncPeriod = &c.resyncInterval
	}
}

// splitList returns the items of a list that is separated by commas or spaces.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func (c *olmOperatorOptions) validate() error {
	if err := validateInterval("interval", c.resyncInterval); err != nil {
		return err
	}
	return c.compatibility.validate()
}

func (c *olmOperatorOptions) setupOLMOperator(_ context.Context, o *options, mgr ctrl.Manager) error {
	if err := olmoperator.Setup(mgr, olmoperator.Options{
		Namespace: o.systemNamespace, Release: c.releaseVersion, Program: o.program,
		ClusterOperator: c.clusterOperator, PackageServer: c.packageServer, ProtectedNamespaces: splitList(c.protectedNamespaces),
	}); err != nil {
		return err
	}

	return olmoperator.RegisterMetrics(mgr)
}
