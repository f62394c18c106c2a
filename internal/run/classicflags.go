package run

import (
	"errors"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// classicFlags are the flags of olm-operator and catalog-operator with the names of upstream OLM. They configure
// what every server has.
type classicFlags struct {
	debug, profiling            bool
	watchedNamespaces           string
	certFile, keyFile, clientCA string
}

// addFlags adds the flags that both servers have.
func (c *classicFlags) addFlags(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&c.debug, "debug", false, "alias of --v=1")
	flags.BoolVar(&c.profiling, "profiling", false, "no effect; accepted for compatibility: see --pprof-bind-address")
	flags.StringVar(&c.certFile, "tls-cert", "", "serving certificate of /metrics; requires --tls-key (default: a certificate is issued)")
	flags.StringVar(&c.keyFile, "tls-key", "", "private key of --tls-cert")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	flags.StringVar(&c.clientCA, "client-ca", "", "certificate authorities whose clients may read /metrics without a token, in addition to clients with access to nonResourceURL /metrics; requires --tls-cert")
	cmd.PreRun = func(*cobra.Command, []string) {
		if c.debug {
			o.verbosity = max(o.verbosity, 1)
		}
	}
}

// tuneMetrics sets the serving certificate of /metrics and its clients.
func (c *classicFlags) tuneMetrics(m *ctrl.Options) {
	if c.certFile != "" {
		useMetricsCertificate(&m.Metrics, c.certFile, c.keyFile)
	}
	if c.clientCA != "" {
		admitCertificates(&m.Metrics, c.clientCA)
	}
}

// validate returns an error if --client-ca is set without a certificate.
func (c *classicFlags) validate() error {
	if c.clientCA != "" && c.certFile == "" {
		return errors.New("--client-ca requires --tls-cert and --tls-key")
	}
	return nil
}

// logIneffectiveFlags logs the flags that are set and have no effect.
func (c *classicFlags) logIneffectiveFlags(mgr ctrl.Manager) {
	if c.profiling {
		mgr.GetLogger().Info("--profiling has no effect: set --pprof-bind-address for a profiler")
	}
	if c.watchedNamespaces != "" {
		mgr.GetLogger().Info("--watchedNamespaces has no effect: all namespaces are watched; OperatorGroups define where operators are installed", "namespaces", c.watchedNamespaces)
	}
}
