package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

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

func scheme() (*runtime.Scheme, error) {
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

// manager makes the manager that the components of a server run in.
func (o *options) manager(name string) (ctrl.Manager, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}

	profiler, err := profilerAddress(o.pprofAddress)
	if err != nil {
		return nil, err
	}

	s, err := scheme()
	if err != nil {
		return nil, err
	}

	m := ctrl.Options{
		Scheme:                        s,
		HealthProbeBindAddress:        o.healthAddress,
		PprofBindAddress:              profiler,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              name + ".olm.operatorframework.io",
		LeaderElectionNamespace:       o.systemNamespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts: []func(*tls.Config){http1Only},
		},
		// What is read seldom, or is secret, is not held in memory.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	}
	if o.tune != nil {
		o.tune(&m)
	}

	mgr, err := ctrl.NewManager(config, m)
	if err != nil {
		return nil, fmt.Errorf("setting up %s: %w", name, err)
	}

	return mgr, errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
}

// http1Only turns HTTP/2 off. With it one connection can ask for hundreds of answers at once,
// before anybody has asked who the client is.
func http1Only(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }

// profilerAddress is where the profiler is, on this machine alone: it asks nobody who they
// are. "0" turns it off.
func profilerAddress(address string) (string, error) {
	if address == "" || address == "0" {
		return "0", nil
	}

	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("--pprof-bind-address: %w", err)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("--pprof-bind-address: %q can be reached from other machines: name localhost, and reach it by 'kubectl port-forward'", host)
	}

	return net.JoinHostPort(host, port), nil
}

func (o *options) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to run on: %w; name one with --kubeconfig, or start one with 'devcluster up'", err)
	}

	config.QPS = -1 // the API server's priority and fairness shares it out
	config.UserAgent = "mainstay"
	return config, nil
}

// setLog makes the log: one JSON object a line, on standard error.
func (o *options) setLog() logr.Logger {
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-o.verbosity)})
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	// The image library tells of each connection that it begins again.
	logrus.SetLevel(logrus.ErrorLevel)
	return log
}

// start runs the manager until the context ends.
func (o *options) start(ctx context.Context, name string, setup func(ctrl.Manager) error) error {
	log := o.setLog()
	collectOften()
	settle(log)
	o.features.warn(log)
	mgr, err := o.manager(name)
	if err != nil {
		return missingKind(name, err)
	}
	if err := setup(mgr); err != nil {
		return missingKind(name, err)
	}
	if err := mgr.Add(settling{log}); err != nil {
		return err
	}

	settle(log)
	return missingKind(name, mgr.Start(ctx))
}

// missingKind says what to do when a server ends for want of a kind that it works on.
func missingKind(name string, err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return fmt.Errorf("the cluster lacks a kind that %s works on: apply the CustomResourceDefinitions that come with its manifests, then start it again: %w", name, err)
}
