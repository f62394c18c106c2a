package run

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
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

	images imageOptions

	// catalogStore is the store of catalogs of the process, if several of its servers use it. It can be nil.
	catalogStore *catalogstore.Store
	// catalogPool has the connections to CatalogSources of the process, if several of its servers use them. It can be nil.
	catalogPool *dial.Pool

	// leaseName is the name of the leader lease. Empty means that it follows from the name of the server.
	leaseName string
	// tuneManager changes the options of the manager. It can be nil.
	tuneManager func(*ctrl.Options)
}

// imageOptions are the flags for pulling images.
type imageOptions struct {
	casDir          string
	registriesConf  string
	signaturePolicy string
	authFile        string
	pullSecret      string
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
	o.images.addFlags(flags)
	flags.StringVar(&o.images.pullSecret, "pull-secret", "", "Secret with registry credentials, as NAMESPACE/NAME")
	flags.StringVar(&o.images.pullSecret, "global-pull-secret", "", "alias of --pull-secret")
}

// addFlags adds the flags of all servers that pull images.
func (o *imageOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.casDir, "pull-cas-dir", "", "directory of certificate authorities (*.crt, *.pem) to trust for registries, in addition to those of the system")
	flags.StringVar(&o.registriesConf, "registries-conf", "", "registries.conf with mirrors and blocked registries (default: the file of the system)")
	flags.StringVar(&o.signaturePolicy, "signature-policy", "", "policy.json with the signature verification policy for images (default: the file of the system)")
	flags.StringVar(&o.authFile, "authfile", "", "Docker config.json with registry credentials (default: the files of podman and docker)")
}

// validate returns an error for invalid values of the common flags.
func (o *options) validate() error {
	_, profiler := parseProfilerAddress(o.pprofAddress)
	return errors.Join(
		validateListenAddress("health-probe-bind-address", o.healthAddress),
		validateListenAddress("metrics-bind-address", o.metricsAddress),
		profiler,
		validatePullSecret(o.images.pullSecret),
	)
}

// validatePullSecret returns an error if the value of --pull-secret is neither empty nor NAMESPACE/NAME.
func validatePullSecret(secret string) error {
	namespace, name, _ := strings.Cut(secret, "/")
	if secret != "" && (namespace == "" || name == "" || strings.Contains(name, "/")) {
		return fmt.Errorf("--pull-secret: %q must be the namespace and the name of a Secret, as NAMESPACE/NAME", secret)
	}
	return nil
}

// validateListenAddress returns an error if the value of a flag is not an address to listen on. "0" and an empty value disable
// listening.
func validateListenAddress(flag, address string) error {
	if address == "" || address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--%s: %q must be HOST:PORT or :PORT, such as localhost:8443 or :8443", flag, address)
	}
	return nil
}

// validateInterval returns an error if the value of a flag is negative.
func validateInterval(flag string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("--%s: %s is negative", flag, value)
	}
	return nil
}

func (o *options) cachePath(component string) string { return filepath.Join(o.cacheDir, component) }

func defaultCacheDir() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "mainstay")
	}
	return filepath.Join(os.TempDir(), "mainstay")
}
