package run

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// profilingAddress is where --profiling serves the profiler. Upstream OLM serves it to everybody who reaches /metrics.
const profilingAddress = "localhost:6060"

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
	flags.BoolVar(&c.profiling, "profiling", false, "serve the profiler at "+profilingAddress+", unless --pprof-bind-address is set")
	flags.StringVar(&c.certFile, "tls-cert", "", "serving certificate of /metrics; requires --tls-key (default: a certificate is issued)")
	flags.StringVar(&c.keyFile, "tls-key", "", "private key of --tls-cert")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	flags.StringVar(&c.clientCA, "client-ca", "", "certificate authorities whose clients may read /metrics without a token, in addition to clients with access to nonResourceURL /metrics; requires --tls-cert")
	cmd.PreRun = func(*cobra.Command, []string) {
		if c.debug {
			o.verbosity = max(o.verbosity, 1)
		}
		if c.profiling && !flags.Changed("pprof-bind-address") {
			o.pprofAddress = profilingAddress
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

// validate returns an error for flags that cannot be obeyed.
func (c *classicFlags) validate() error {
	if c.clientCA != "" && c.certFile == "" {
		return errors.New("--client-ca requires --tls-cert and --tls-key")
	}
	if c.watchedNamespaces != "" {
		return fmt.Errorf("--watchedNamespaces=%s: all namespaces are watched: leave out the flag, and define with OperatorGroups where operators are installed", c.watchedNamespaces)
	}
	return nil
}
