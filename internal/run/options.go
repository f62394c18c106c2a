package run

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// options are the flags of a server.
type options struct {
	program         string
	kubeconfig      string
	systemNamespace string
	leaderElect     bool
	healthAddress   string
	metricsAddress  string
	pprofAddress    string
	cacheDir        string
	features        featureGates
	verbosity       int

	// Images.
	casDir          string
	registriesConf  string
	signaturePolicy string
	authFile        string
	pullSecret      string

	// catalogd.
	catalogsAddress string
	externalAddress string
	tlsCert, tlsKey string
	catalogsSize    sizeLimit

	// cluster-version-operator.
	cluster clusterOptions

	// machine-config-controller and machine-config-daemon.
	node nodeOptions

	// tuneManager changes the options of the manager. It can be nil.
	tuneManager func(*ctrl.Options)

	// operator-controller.
	catalogdCAsDir        string
	requireServiceAccount bool
	ignoreServiceAccount  bool
}

// defaultNamespace is the default namespace of the components.
const defaultNamespace = "olmv1-system"

func (o *options) addCommonFlags(flags *pflag.FlagSet, metricsAddress string) {
	o.features = featureGates{}
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (default: $KUBECONFIG, else the service account of the pod, else ~/.kube/config)")
	flags.StringVar(&o.systemNamespace, "system-namespace", defaultNamespace, "namespace of the components and their objects")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "enable leader election, so that only one replica is active")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 disables them")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", metricsAddress, "address of /metrics over HTTPS, for clients with access to nonResourceURL /metrics; 0 disables it")
	flags.StringVar(&o.pprofAddress, "pprof-bind-address", "0", "loopback address of the profiler; 0 disables it")
	flags.StringVar(&o.cacheDir, "cache-dir", defaultCacheDir(), "directory of the cache")
	flags.Var(o.features, "feature-gates", "feature gates, with the names of upstream OLM")
	flags.IntVarP(&o.verbosity, "v", "v", 0, "log verbosity, 0 to 4")
	o.addImageFlags(flags)
	flags.StringVar(&o.pullSecret, "pull-secret", "", "Secret with registry credentials, as NAMESPACE/NAME")
	flags.StringVar(&o.pullSecret, "global-pull-secret", "", "alias of --pull-secret")
}

// addImageFlags adds the flags of servers that pull images.
func (o *options) addImageFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.casDir, "pull-cas-dir", "", "directory of certificate authorities (*.crt, *.pem) to trust for registries, in addition to those of the system")
	flags.StringVar(&o.registriesConf, "registries-conf", "", "registries.conf with mirrors and blocked registries (default: the file of the system)")
	flags.StringVar(&o.signaturePolicy, "signature-policy", "", "policy.json with the signature verification policy for images (default: the file of the system)")
	flags.StringVar(&o.authFile, "authfile", "", "Docker config.json with registry credentials (default: the files of podman and docker)")
}

func (o *options) addCatalogdFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.catalogsAddress, "catalogs-server-addr", ":8443", "address to serve catalogs on over HTTPS")
	flags.StringVar(&o.externalAddress, "external-address", "", "host, with a port unless it is 443, at which clients reach the catalogs (default: catalogd-service.<system namespace>.svc)")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate of the catalog server (default: a certificate is issued and renewed automatically)")
	flags.StringVar(&o.tlsKey, "tls-key", "", "private key of --tls-cert")
	o.catalogsSize = catalogstore.DefaultTotalBytes
	flags.Var(&o.catalogsSize, "catalogs-size-limit", "maximum size of all catalogs in --cache-dir, including catalogs that are being unpacked; it must be less than the size of the volume")
}

// sizeLimit is a flag for a positive number of bytes, as a Kubernetes quantity.
type sizeLimit int64

// String implements pflag.Value.
func (l *sizeLimit) String() string {
	return resource.NewQuantity(int64(*l), resource.BinarySI).String()
}

// Set implements pflag.Value.
func (l *sizeLimit) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return err
	}
	if quantity.Value() <= 0 {
		return errors.New("must be greater than zero, for example 3584Mi")
	}

	*l = sizeLimit(quantity.Value())
	return nil
}

// Type implements pflag.Value.
func (*sizeLimit) Type() string { return "quantity" }

func (o *options) addOperatorControllerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.catalogdCAsDir, "catalogd-cas-dir", "", "directory of certificate authorities to trust for catalogd (default: the authority that catalogd publishes)")
	flags.BoolVar(&o.requireServiceAccount, "require-service-account", false, "refuse extensions without spec.serviceAccount")
	flags.BoolVar(&o.ignoreServiceAccount, "ignore-service-account", false, "install every extension with the permissions of this server and ignore spec.serviceAccount; must not be set together with --require-service-account")
}

func (o *options) cachePath(component string) string { return filepath.Join(o.cacheDir, component) }

func defaultCacheDir() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "mainstay")
	}
	return filepath.Join(os.TempDir(), "mainstay")
}
