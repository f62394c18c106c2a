package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/installplan"
	"github.com/mainstay-dev/mainstay/internal/classic/source"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

// catalogOperatorOptions are the flags of catalog-operator.
type catalogOperatorOptions struct {
	configMapServerImage, opmImage, utilityImage string
	setUserID                                    bool
	interval, planRetry                          time.Duration
	clusterOperator, releaseVersion              string
	globalNamespace                              string
	unpackTimeout                                time.Duration
}

func catalogOperatorServer() server {
	c := &catalogOperatorOptions{}
	return server{
		name:  "catalog-operator",
		short: "Have CatalogSources be served, and operators be chosen from them",
		long: `catalog-operator runs a pod for each CatalogSource that names an image or a ConfigMap,
replaces it when it is not as it is meant to be or its image has changed, keeps the gRPC
connection to each catalog, and says in its status how that is. Connections go through the
proxy that GRPC_PROXY names, but for what NO_PROXY names. For each namespace with
Subscriptions it chooses operators from the catalogs, and makes InstallPlans that bring them.`,
		example:        "  mainstay run catalog-operator --system-namespace olm",
		metricsAddress: ":8443",
		bind:           c.bind,
		setup:          c.setup,
	}
}

func (c *catalogOperatorOptions) bind(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.configMapServerImage, "configmapServerImage", "", "image with the program configmap-server, which serves catalogs of ConfigMaps; unset: there are none")
	flags.StringVar(&c.opmImage, "opmImage", "", "image with the program /bin/opm, which serves catalogs with spec.grpcPodConfig.extractContent; unset: there are none")
	flags.StringVar(&c.utilityImage, "util-image", "", "image with the programs cp and /bin/copy-content, by which their content is taken out of their images; unset: there are none")
	flags.BoolVar(&c.setUserID, "set-workload-user-id", false, "have confined pods of catalogs run as user 1001, where nothing else gives them a user")
	flags.DurationVar(&c.interval, "interval", source.DefaultResync, "how often a catalog is looked at although nothing has happened, give or take a fifth")
	flags.DurationVar(&c.planRetry, "install-plan-retry-timeout", installplan.DefaultRetryTimeout, "how long an InstallPlan is tried again whose steps fail")
	flags.StringVar(&c.clusterOperator, "writeStatusName", "operator-lifecycle-manager-catalog", "ClusterOperator that is reported by, where the cluster has that kind; empty: none")
	flags.StringVar(&c.releaseVersion, "release-version", os.Getenv("RELEASE_VERSION"), "version of the platform that it reports; unset: $RELEASE_VERSION, or that of this program")
	flags.StringVar(&c.globalNamespace, "namespace", os.Getenv("GLOBAL_CATALOG_NAMESPACE"), "namespace whose catalogs every namespace may use; unset: $GLOBAL_CATALOG_NAMESPACE, or that of --system-namespace")
	flags.DurationVar(&c.unpackTimeout, "bundle-unpack-timeout", unpack.DefaultTimeout, "how long it may take to get a bundle out of its image, where the OperatorGroup does not say; 0 is without end")
	changeDefault(cmd, "system-namespace", "olm")
	o.tune = catalogoperator.Tune
}

func (c *catalogOperatorOptions) setup(_ context.Context, o *options, mgr ctrl.Manager) error {
	if c.unpackTimeout < 0 {
		return fmt.Errorf("--bundle-unpack-timeout is %s: it must not be negative; 0 is without end", c.unpackTimeout)
	}

	puller, err := o.tenantPuller(mgr, unpack.ImageLimits)
	if err != nil {
		return err
	}
	return catalogoperator.Setup(mgr, catalogoperator.Options{
		Registries:      puller.ClientWith,
		GlobalNamespace: cmp.Or(c.globalNamespace, o.systemNamespace), UnpackTimeout: c.unpackTimeout,
		Images:    c.images(),
		SetUserID: c.setUserID, Resync: c.interval, Proxy: dial.ProxyFromEnvironment(os.Getenv),
		InstallPlanRetryTimeout: c.planRetry,
		ClusterOperator:         c.clusterOperator, Namespace: o.systemNamespace, Release: c.releaseVersion, Program: o.program,
	})
}

// images are the programs that the images of the field have.
func (c *catalogOperatorOptions) images() objects.Images {
	return objects.Images{
		OPM:             objects.Program{Image: c.opmImage, Command: []string{"/bin/opm"}},
		ConfigMapServer: objects.Program{Image: c.configMapServerImage, Command: []string{"configmap-server"}},
		Copy: objects.CopyProgram{
			Image: c.utilityImage, Install: []string{"cp", "/bin/copy-content", "/utilities/copy-content"}, Command: []string{"/utilities/copy-content"},
		},
	}
}
