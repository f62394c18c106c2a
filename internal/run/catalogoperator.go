package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/installplan"
	"github.com/mainstay-dev/mainstay/internal/classic/source"
	"github.com/mainstay-dev/mainstay/internal/classic/source/inline"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// catalogOperatorOptions are the flags of catalog-operator.
type catalogOperatorOptions struct {
	configMapServerImage, opmImage, utilityImage string
	setUserID                                    bool
	resyncInterval, planRetryTimeout             time.Duration
	clusterOperator, releaseVersion              string
	globalNamespace                              string
	unpackMode                                   string
	unpackTimeout                                time.Duration
	serving                                      string
	inlineAddress, inlineHost                    string
	sizeLimit                                    sizeLimit
	compatibility                                classicFlags
	onePlanPerNamespace                          bool
}

// Values of --catalog-serving.
const (
	servingPods   = "pods"
	servingInline = "inline"
)

// catalogServingUsage is the usage of --catalog-serving.
const catalogServingUsage = "how CatalogSources with an image are served: pods runs a pod for each of them, inline pulls the images and serves them from this process"

func newCatalogOperatorServer() server {
	c := &catalogOperatorOptions{}
	return server{
		name:  "catalog-operator",
		short: "Serve CatalogSources and resolve Subscriptions",
		long: `catalog-operator runs a pod for each CatalogSource with an image or a ConfigMap, and replaces the pod if
it differs from the desired state or if its image has changed. It maintains a gRPC connection to each
catalog and reports the connection state in the status of the CatalogSource. Connections use the proxy
in GRPC_PROXY, except for hosts in NO_PROXY.

With --catalog-serving=inline, catalogs with an image have no pods. catalog-operator pulls the images with
the credentials in spec.secrets, and serves all of them itself.

For each namespace with Subscriptions, it resolves operators from the catalogs and creates InstallPlans
to install them.`,
		example:        "  mainstay run catalog-operator --system-namespace olm",
		metricsAddress: ":8443",
		addFlags:       c.addFlags,
		validate:       c.validate,
		setup:          c.setupCatalogOperator,
	}
}

func (c *catalogOperatorOptions) addFlags(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.configMapServerImage, "configmapServerImage", "", "image with the program configmap-server, for CatalogSources with a ConfigMap (default: none, such CatalogSources are not served)")
	flags.StringVar(&c.opmImage, "opmImage", "", "image with the program /bin/opm, for CatalogSources with spec.grpcPodConfig.extractContent (default: none, such CatalogSources are not served)")
	flags.StringVar(&c.utilityImage, "util-image", "", "image with the programs cp and /bin/copy-content, which extract the content of CatalogSources with spec.grpcPodConfig.extractContent (default: none)")
	flags.BoolVar(&c.setUserID, "set-workload-user-id", false, "run catalog pods with the restricted security context as user 1001, if nothing else sets a user")
	flags.DurationVar(&c.resyncInterval, "interval", source.DefaultResyncInterval, "resync interval of catalogs, with a jitter of 20 percent")
	flags.DurationVar(&c.planRetryTimeout, "install-plan-retry-timeout", installplan.DefaultRetryTimeout, "how long the failed steps of an InstallPlan are retried")
	flags.StringVar(&c.clusterOperator, "writeStatusName", "operator-lifecycle-manager-catalog", "name of the ClusterOperator for the status, if the cluster serves that kind; empty disables it")
	flags.StringVar(&c.releaseVersion, "release-version", os.Getenv("RELEASE_VERSION"), "platform version to report in the ClusterOperator (default: $RELEASE_VERSION, else the version of this program)")
	flags.StringVar(&c.globalNamespace, "namespace", os.Getenv("GLOBAL_CATALOG_NAMESPACE"), "namespace of the global catalogs, which are available in every namespace (default: $GLOBAL_CATALOG_NAMESPACE, else --system-namespace)")
	flags.DurationVar(&c.unpackTimeout, "bundle-unpack-timeout", unpack.DefaultTimeout, "timeout for unpacking a bundle, unless the OperatorGroup specifies one; 0 means no timeout")
	flags.StringVar(&c.serving, "catalog-serving", servingPods, catalogServingUsage)
	flags.StringVar(&c.inlineAddress, "inline-catalogs-bind-address", ":50051", "with --catalog-serving=inline, listen address for clients of catalogs in other processes; 0 disables it")
	flags.StringVar(&c.inlineHost, "inline-catalogs-host", "", "with --catalog-serving=inline, DNS name of the Service of this server, such as catalog-operator-catalogs.olm.svc.cluster.local, to which the Services of catalogs lead (default: none, catalogs have no Service)")
	c.sizeLimit = catalogstore.DefaultTotalBytes
	flags.Var(&c.sizeLimit, "catalogs-size-limit", "with --catalog-serving=inline, maximum size of all catalogs in the cache directory")
	flags.StringVar(&c.unpackMode, "bundle-unpack", string(unpack.ModeJob), "how bundles of catalogs in the global namespace and in --system-namespace are unpacked: job (a Job in the namespace of the catalog) or inline (in this process); bundles of all other catalogs are always unpacked inline")
	flags.BoolVar(&c.onePlanPerNamespace, "one-plan-per-namespace", false, "resolve, approve and install all Subscriptions of a namespace together, or not at all, as other versions of OLM do")
	setFlagDefault(cmd, "system-namespace", "olm")
	c.compatibility.addFlags(o, cmd)
	o.tuneManager = func(m *ctrl.Options) {
		catalogoperator.Tune(m)
		c.compatibility.tuneMetrics(m)
	}
}

func (c *catalogOperatorOptions) validate() error {
	if c.unpackTimeout < 0 {
		return fmt.Errorf("--bundle-unpack-timeout is %s: it must not be negative; 0 means no timeout", c.unpackTimeout)
	}
	if _, err := unpack.ParseMode(c.unpackMode); err != nil {
		return fmt.Errorf("--bundle-unpack: %w", err)
	}
	return errors.Join(
		validateInterval("interval", c.resyncInterval),
		validateInterval("install-plan-retry-timeout", c.planRetryTimeout),
		validateCatalogServing(c.serving),
		validateListenAddress("inline-catalogs-bind-address", c.inlineAddress),
		c.compatibility.validate(),
	)
}

// validateCatalogServing returns an error if the value of --catalog-serving is not supported.
func validateCatalogServing(serving string) error {
	if serving != servingPods && serving != servingInline {
		return fmt.Errorf("--catalog-serving: %q must be %s or %s", serving, servingPods, servingInline)
	}
	return nil
}

func (c *catalogOperatorOptions) setupCatalogOperator(_ context.Context, o *options, mgr ctrl.Manager) error {
	mode, err := unpack.ParseMode(c.unpackMode)
	if err != nil {
		return fmt.Errorf("--bundle-unpack: %w", err)
	}

	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}

	served, err := c.newInlineOptions(o, images)
	if err != nil {
		return err
	}

	bundles := images.WithLimits(unpack.ImageLimits)

	return catalogoperator.Setup(mgr, catalogoperator.Options{ //nolint:contextcheck // the calls of its gRPC server have contexts of their own
		Inline:     served,
		Pool:       o.catalogPool,
		Registries: bundles.ClientWith, PlatformRegistries: bundles.ClientAlsoWith,
		GlobalNamespace: cmp.Or(c.globalNamespace, o.systemNamespace), UnpackMode: mode, UnpackTimeout: c.unpackTimeout,
		OnePlanPerNamespace: c.onePlanPerNamespace,
		Images:              c.programImages(),
		SetUserID:           c.setUserID, ResyncInterval: c.resyncInterval, Proxy: dial.ProxyFromEnvironment(os.Getenv),
		InstallPlanRetryTimeout: c.planRetryTimeout,
		ClusterOperator:         c.clusterOperator, Namespace: o.systemNamespace, Release: c.releaseVersion, Program: o.program,
	})
}

// newInlineOptions returns how catalogs are served from within the process, or nil if pods serve them.
func (c *catalogOperatorOptions) newInlineOptions(o *options, images *pull.Puller) (*catalogoperator.InlineOptions, error) {
	if c.serving == servingPods {
		return nil, nil
	}

	store := o.catalogStore
	if store == nil {
		var err error
		if store, err = catalogstore.Open(o.cachePath("catalogs"), catalogstore.Limits{TotalBytes: int64(c.sizeLimit)}); err != nil {
			return nil, fmt.Errorf("setting up the store of catalogs: %w", err)
		}
	}

	address := c.inlineAddress
	if address == "0" {
		address = ""
	}

	return &catalogoperator.InlineOptions{
		Store: store.Partition("classic"), IndexDir: o.cachePath("classic-indexes"), BindAddress: address, Host: c.inlineHost,
		Registries: images.WithLimits(inline.ImageLimits).ClientWith,
	}, nil
}

// programImages returns the images and programs for catalog pods, with the paths in upstream images.
func (c *catalogOperatorOptions) programImages() objects.Images {
	return objects.Images{
		OPM:             objects.Program{Image: c.opmImage, Command: []string{"/bin/opm"}},
		ConfigMapServer: objects.Program{Image: c.configMapServerImage, Command: []string{"configmap-server"}},
		Copy: objects.CopyProgram{
			Image: c.utilityImage, Install: []string{"cp", "/bin/copy-content", "/utilities/copy-content"}, Command: []string{"/utilities/copy-content"},
		},
	}
}
