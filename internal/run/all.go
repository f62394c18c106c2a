package run

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/catalog"
	"github.com/mainstay-dev/mainstay/internal/catalog/controller/certify"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

// allOptions are the flags of `mainstay run all`.
type allOptions struct {
	catalogs   catalogdOptions
	extensions operatorControllerOptions
	runClassic bool
	// classicFlag is the flag of runClassic. If it was set, all creates the kinds of OLM Classic.
	classicFlag *pflag.Flag
	// catalogServing says how catalog-operator serves catalogs.
	catalogServing string
	// packageServerAddress is the IP address of package-server, "" to choose one, or "0" to disable it.
	packageServerAddress string
}

func newAllServer() server {
	a := &allOptions{}
	return server{
		name:  "all",
		short: "Run OLM v1 and OLM Classic in one process",
		long: `all runs every server that manages extensions in one process, inside or outside of the cluster. Together
with 'devcluster up', it provides a complete OLM on a laptop:

  * catalogd and operator-controller (OLM v1). all installs their CRDs and the system namespace.
  * olm-operator, catalog-operator and package-server (OLM Classic), if the cluster serves their kinds. With
    --olm-classic, all installs their CRDs and the namespaces olm and operators. While all runs, it registers
    package-server as the APIService of PackageManifests, unless there is another one. The API server must
    reach this machine at --package-server-address.

Do not run all on a cluster in which the same servers run. If another OLM Classic runs in the cluster,
disable this one with --olm-classic=false.

These servers are not part of all:

  * marketplace, which manages the default catalogs of a platform
  * the servers for the cluster version and for nodes, because a laptop has neither`,
		example:        "  devcluster up --detach\n  KUBECONFIG=$(devcluster kubeconfig --path) mainstay run all --olm-classic",
		metricsAddress: "0",
		addFlags:       a.addFlags,
		validate:       a.validate,
		setup:          a.setupAll,
	}
}

func (a *allOptions) addFlags(_ *options, cmd *cobra.Command) {
	a.catalogs.addFlags(cmd.Flags())
	a.extensions.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&a.runClassic, "olm-classic", true, "run OLM Classic; without this flag, it runs if the cluster serves its kinds; with it, its CRDs are installed")
	a.classicFlag = cmd.Flags().Lookup("olm-classic")
	cmd.Flags().StringVar(&a.catalogServing, "catalog-serving", servingInline, catalogServingUsage)
	cmd.Flags().StringVar(&a.packageServerAddress, "package-server-address", "", "IP address at which package-server listens and the API server reaches it; 0 disables package-server (default: the address from which this machine reaches the API server)")

	// Only this process reads the catalogs, so they are served on the loopback interface.
	setFlagDefault(cmd, "catalogs-server-addr", "127.0.0.1:8443")
}

func (a *allOptions) validate() error {
	_, catalogsErr := localAddress(a.catalogs.listenAddress)
	_, packagesErr := parsePackageServerAddress(a.packageServerAddress)

	return errors.Join(catalogsErr, packagesErr, validateCatalogServing(a.catalogServing), a.extensions.validate())
}

func (a *allOptions) setupAll(ctx context.Context, o *options, mgr ctrl.Manager) error {
	installation := action.Installation{Namespace: o.systemNamespace, IgnoreServiceAccount: a.extensions.ignoreServiceAccount}
	var classicKinds []*unstructured.Unstructured
	if a.runClassic && a.classicFlag.Changed {
		var err error
		if classicKinds, err = action.ClassicKinds(); err != nil {
			return err
		}
	}
	if err := prepareCluster(ctx, mgr.GetConfig(), installation, classicKinds); err != nil {
		return err
	}
	if err := a.setupOLMv1(ctx, o, mgr); err != nil {
		return err
	}

	if !a.runClassic {
		return nil
	}

	missing, err := findMissingKinds(mgr.GetRESTMapper(), requiredClassicKinds)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		mgr.GetLogger().Info("OLM Classic is not running, because the cluster does not serve its kinds: "+
			"restart this server with --olm-classic to install them", "missingKinds", missing)
		return nil
	}

	return a.setupClassic(ctx, o, mgr)
}

// setupOLMv1 sets up catalogd and operator-controller. The certificate of catalogd is not stored in a Secret,
// because its clients run in the same process.
func (a *allOptions) setupOLMv1(ctx context.Context, o *options, mgr ctrl.Manager) error {
	address, err := localAddress(a.catalogs.listenAddress)
	if err != nil {
		return err
	}
	if a.catalogs.externalAddress == "" {
		a.catalogs.externalAddress = address
	}

	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}

	catalogs := a.catalogs.newOptions(o, images)
	if o.catalogStore, err = catalogstore.Open(catalogs.CacheDir, catalogs.Limits); err != nil {
		return fmt.Errorf("setting up the store of catalogs: %w", err)
	}

	catalogs.Store = o.catalogStore
	memory, err := certify.NewInMemoryCertificate(catalogs.Hosts(), time.Now())
	if err != nil {
		return fmt.Errorf("issuing the certificate of the catalog server: %w", err)
	}

	if a.catalogs.tlsCert == "" {
		catalogs.InMemoryCertificate = memory
		if err := publishAuthority(ctx, mgr.GetConfig(), o.systemNamespace, memory.CA()); err != nil {
			return err
		}
	}

	if err := catalog.Setup(mgr, catalogs); err != nil {
		return err
	}

	return a.extensions.setupExtensions(o, mgr, images, func(context.Context) (*x509.CertPool, error) {
		return parseCertPool(memory.CA())
	})
}

// requiredClassicKinds are the kinds that olm-operator and catalog-operator require.
var requiredClassicKinds = []schema.GroupVersionKind{
	operatorsv1alpha1.GroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind),
	operatorsv1alpha1.GroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind),
	operatorsv1alpha1.GroupVersion.WithKind(operatorsv1alpha1.InstallPlanKind),
	operatorsv1alpha1.GroupVersion.WithKind(operatorsv1alpha1.SubscriptionKind),
	operatorsv1.GroupVersion.WithKind(operatorsv1.OLMConfigKind),
	operatorsv1.GroupVersion.WithKind(operatorsv1.OperatorGroupKind),
	operatorsv2.GroupVersion.WithKind(operatorsv2.OperatorConditionKind),
}

// findMissingKinds returns the names of the kinds that the cluster does not serve.
func findMissingKinds(mapper meta.RESTMapper, kinds []schema.GroupVersionKind) ([]string, error) {
	var missing []string
	for _, kind := range kinds {
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		switch {
		case meta.IsNoMatchError(err):
			missing = append(missing, kind.Kind)
		case err != nil:
			return nil, fmt.Errorf("discovering the kind %s: %w", kind.Kind, err)
		}
	}

	return missing, nil
}

// setupClassic adds the servers of OLM Classic to a manager. Each of them has its own manager, because each
// caches different parts of the same kinds.
func (a *allOptions) setupClassic(ctx context.Context, o *options, mgr ctrl.Manager) error {
	o.catalogPool = dial.New(dial.Options{Proxy: dial.ProxyFromEnvironment(os.Getenv)})
	catalogs := newCatalogOperatorServer()
	addFlags := catalogs.addFlags
	catalogs.addFlags = func(o *options, cmd *cobra.Command) {
		addFlags(o, cmd)
		setFlagDefault(cmd, "catalog-serving", a.catalogServing)
		setFlagDefault(cmd, "bundle-unpack", string(unpack.ModeInline)) // There may be no node for Jobs.
		setFlagDefault(cmd, "inline-catalogs-bind-address", "0")        // No other process reads them.
	}

	for _, s := range []server{newOLMOperatorServer(), catalogs} {
		if err := addNestedManager(ctx, s, o, mgr); err != nil {
			return err
		}
	}

	return a.setupPackages(ctx, o, mgr)
}

// addNestedManager adds the manager of a server to the manager of the process.
func addNestedManager(ctx context.Context, s server, o *options, mgr ctrl.Manager) error {
	nested, err := s.newNestedManager(ctx, o)
	if err != nil {
		return err
	}
	// As a Runnable of its own type, the manager would start before this process is the leader.
	return mgr.Add(manager.RunnableFunc(nested.Start))
}

// newNestedManager returns the manager of the server with its default flags, for a process whose manager has
// the options parent. The process elects a leader and serves probes, metrics and profiles with its own manager.
// The namespace of the server is created if it does not exist.
func (s server) newNestedManager(ctx context.Context, parent *options) (ctrl.Manager, error) {
	o := s.newOptions(parent.program, &cobra.Command{})
	o.kubeconfig, o.cacheDir, o.images = parent.kubeconfig, parent.cacheDir, parent.images
	o.catalogStore, o.catalogPool = parent.catalogStore, parent.catalogPool
	o.healthAddress, o.metricsAddress, o.pprofAddress = "0", "0", "0"
	nested, err := o.newManager(s.name)
	if err != nil {
		return nil, err
	}

	if err := createNamespaces(ctx, nested.GetClient(), o.systemNamespace); err != nil {
		return nil, fmt.Errorf("setting up %s: %w", s.name, err)
	}
	if err := s.setup(ctx, o, nested); err != nil {
		return nil, fmt.Errorf("setting up %s: %w", s.name, err)
	}

	return nested, nil
}

// publishAuthority publishes the certificate authority of the catalog server of this process for the command
// line, in the ConfigMap of catalogd. It replaces the authority of an earlier process.
func publishAuthority(ctx context.Context, config *rest.Config, namespace string, ca []byte) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("publishing the authority of the catalog server: %w", err)
	}

	published := corev1ac.ConfigMap(certify.ConfigMapName, namespace).WithData(map[string]string{certify.KeyCA: string(ca)})
	if err := c.Apply(ctx, published, client.FieldOwner(action.InstallFieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("publishing the authority of the catalog server: %w", err)
	}

	return nil
}

// localAddress returns the address at which this process reaches its own listener.
func localAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("--catalogs-server-addr: %q must be HOST:PORT or :PORT, such as localhost:8443 or :8443", listen)
	}
	if port == "0" {
		return "", errors.New("--catalogs-server-addr: a port is required, because it is part of the URLs of the catalogs")
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost"
	}

	return net.JoinHostPort(host, port), nil
}
