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

	// tune changes the options of the server's manager; nil leaves them.
	tune func(*ctrl.Options)

	// operator-controller.
	catalogdCAsDir        string
	requireServiceAccount bool
	ignoreServiceAccount  bool
}

// defaultNamespace is where the components live unless told otherwise.
const defaultNamespace = "olmv1-system"

func (o *options) common(flags *pflag.FlagSet, metricsAddress string) {
	o.features = featureGates{}
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; unset: KUBECONFIG, the cluster that this runs in, or ~/.kube/config")
	flags.StringVar(&o.systemNamespace, "system-namespace", defaultNamespace, "namespace of the components and what they keep")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "wait to be the only active one of several replicas")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns them off")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", metricsAddress, "address of /metrics, over HTTPS, for clients that may get nonResourceURL /metrics; 0 turns it off")
	flags.StringVar(&o.pprofAddress, "pprof-bind-address", "0", "address of the profiler, on this machine alone; 0 turns it off")
	flags.StringVar(&o.cacheDir, "cache-dir", defaultCacheDir(), "folder of what can be fetched again")
	flags.Var(o.features, "feature-gates", "features as other implementations name them")
	flags.IntVarP(&o.verbosity, "v", "v", 0, "detail of the log, 0 to 4")
	o.images(flags)
	flags.StringVar(&o.pullSecret, "pull-secret", "", "Secret with the logins of registries, as NAMESPACE/NAME")
	flags.StringVar(&o.pullSecret, "global-pull-secret", "", "the same as --pull-secret")
}

// images are the flags of every server that pulls them.
func (o *options) images(flags *pflag.FlagSet) {
	flags.StringVar(&o.casDir, "pull-cas-dir", "", "folder of certificate authorities (*.crt, *.pem) trusted for registries, beside the system's")
	flags.StringVar(&o.registriesConf, "registries-conf", "", "registries.conf with mirrors and blocked registries; unset: the system's")
	flags.StringVar(&o.signaturePolicy, "signature-policy", "", "policy.json that says which images are accepted; unset: the system's")
	flags.StringVar(&o.authFile, "authfile", "", "Docker config.json with the logins of registries; unset: the usual places")
}

func (o *options) catalogd(flags *pflag.FlagSet) {
	flags.StringVar(&o.catalogsAddress, "catalogs-server-addr", ":8443", "address that catalogs are served on, over HTTPS")
	flags.StringVar(&o.externalAddress, "external-address", "", "host, and port unless 443, by which clients reach the catalogs; unset: catalogd-service.<system namespace>.svc")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate of the catalog server; unset: one is issued and renewed by itself")
	flags.StringVar(&o.tlsKey, "tls-key", "", "key of --tls-cert")
	o.catalogsSize = catalogstore.DefaultTotalBytes
	flags.Var(&o.catalogsSize, "catalogs-size-limit", "size of all catalogs below --cache-dir, with what is being unpacked; keep it below the size of the volume")
}

// sizeLimit is a flag for a positive number of bytes, written as a quantity of Kubernetes.
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
		return errors.New("it must be more than zero, for example 3584Mi")
	}

	*l = sizeLimit(quantity.Value())
	return nil
}

// Type implements pflag.Value.
func (*sizeLimit) Type() string { return "quantity" }

func (o *options) operatorController(flags *pflag.FlagSet) {
	flags.StringVar(&o.catalogdCAsDir, "catalogd-cas-dir", "", "folder of certificate authorities trusted for catalogd; unset: the one that catalogd publishes")
	flags.BoolVar(&o.requireServiceAccount, "require-service-account", false, "refuse extensions without spec.serviceAccount")
	flags.BoolVar(&o.ignoreServiceAccount, "ignore-service-account", false, "install every extension with the rights of this server, whatever spec.serviceAccount names; excludes --require-service-account")
}

func (o *options) cache(component string) string { return filepath.Join(o.cacheDir, component) }

func defaultCacheDir() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "mainstay")
	}
	return filepath.Join(os.TempDir(), "mainstay")
}
