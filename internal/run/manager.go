package run

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
	operatorv1alpha1 "github.com/mainstay-dev/mainstay/api/operator/v1alpha1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
)

// newScheme returns a scheme with the kinds of all components.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	var err error
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, olmv1.AddToScheme, configv1.AddToScheme, mcfgv1.AddToScheme, operatorv1.AddToScheme, operatorv1alpha1.AddToScheme,
		operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv2.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		err = errors.Join(err, add(s))
	}

	return s, err
}

// newManager returns the manager for the components of a server.
func (o *options) newManager(name string) (ctrl.Manager, error) {
	config, err := o.loadRESTConfig()
	if err != nil {
		return nil, err
	}

	profiler, err := parseProfilerAddress(o.pprofAddress)
	if err != nil {
		return nil, err
	}

	s, err := newScheme()
	if err != nil {
		return nil, err
	}

	m := ctrl.Options{
		Scheme:                        s,
		HealthProbeBindAddress:        o.healthAddress,
		PprofBindAddress:              profiler,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.leaderLease(name),
		LeaderElectionNamespace:       o.systemNamespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts: []func(*tls.Config){disableHTTP2},
		},
		// Secrets and ConfigMaps are rarely read, and Secrets must not be kept in memory.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	}
	if o.tuneManager != nil {
		o.tuneManager(&m)
	}

	mgr, err := ctrl.NewManager(config, m)
	if err != nil {
		return nil, fmt.Errorf("setting up %s: %w", name, err)
	}

	return mgr, errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
}

// leaderLease returns the name of the leader lease of a server.
func (o *options) leaderLease(server string) string {
	return cmp.Or(o.leaseName, server+".olm.operatorframework.io")
}

// disableHTTP2 disables HTTP/2, in which a single connection can have hundreds of concurrent requests before the
// client is authenticated.
func disableHTTP2(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }

// parseProfilerAddress validates the address of the profiler. The profiler has no authentication, so the address
// must be a loopback address. "0" disables the profiler.
func parseProfilerAddress(address string) (string, error) {
	if address == "" || address == "0" {
		return "0", nil
	}

	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("--pprof-bind-address: %q must be a loopback address with a port, such as localhost:6060, or 0 to disable the profiler", address)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("--pprof-bind-address: %q is reachable from other machines: use localhost and 'kubectl port-forward'", host)
	}

	return net.JoinHostPort(host, port), nil
}

func (o *options) loadRESTConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster is configured: %w; specify one with --kubeconfig, or start one with 'devcluster up'", err)
	}

	config.QPS = -1 // the API server limits requests with priority and fairness
	config.UserAgent = "mainstay"
	return config, nil
}

// setupLogging configures all loggers to write JSON lines to standard error, and returns the logger.
func (o *options) setupLogging() logr.Logger {
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-o.verbosity)})
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	// The image library logs every retried connection.
	logrus.SetLevel(logrus.ErrorLevel)
	return log
}

// tuneGarbageCollector makes the garbage collector run when the heap has grown by 50 instead of 100 percent. The
// servers have a small heap, so the cost is low. The environment variable GOGC has precedence.
func tuneGarbageCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// runManager sets up a manager and runs it until the context is done.
func (o *options) runManager(ctx context.Context, name string, setup func(ctrl.Manager) error) error {
	log := o.setupLogging()
	tuneGarbageCollector()
	o.features.logIneffectiveGates(log)
	mgr, err := o.newManager(name)
	if err != nil {
		return explainMissingKind(name, err)
	}
	if err := setup(mgr); err != nil {
		return explainMissingKind(name, err)
	}
	return explainMissingKind(name, mgr.Start(ctx))
}

// explainMissingKind adds advice to the error of a server that requires a kind that the cluster does not serve.
func explainMissingKind(name string, err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return fmt.Errorf("the cluster does not serve a kind that %s requires: apply the CustomResourceDefinitions in its manifests and restart it: %w", name, err)
}
