package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cluster"
	"github.com/mainstay-dev/mainstay/internal/cluster/retrieval"
	"github.com/mainstay-dev/mainstay/internal/cluster/risk"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// defaultClusterVersionNamespace is the default namespace of cluster-version-operator.
const defaultClusterVersionNamespace = "openshift-cluster-version"

// Default address and credentials of the Prometheus of a cluster.
const (
	defaultPrometheus       = "https://thanos-querier.openshift-monitoring.svc.cluster.local:9091"
	serviceAccountTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // G101: it is a file name.
	serviceCAFile           = "/etc/tls/service-ca/service-ca.crt"
)

// clusterOptions are the flags of cluster-version-operator.
type clusterOptions struct {
	releaseImage  string
	payloadDir    string
	updateService string
	alwaysEnable  []string
	autoUpdate    bool
	profile       string
	exclude       string
	metricsCA     string
	certFile      string
	keyFile       string

	prometheus      string
	prometheusToken string
	prometheusCA    string
	useDNS          bool

	retrieval    string
	retrievalDir string
	node         string
}

// Values of --retrieval.
const (
	retrievalRegistry = "registry"
	retrievalJob      = "job"
)

func newClusterVersionServer() server {
	c := &clusterOptions{}
	return server{
		name:  "cluster-version-operator",
		short: "Reconcile the cluster to its release",
		long: `cluster-version-operator reconciles the cluster to the release in its ClusterVersion. It verifies and
retrieves the release image, checks the preconditions of the update, and applies the manifests of the
release in order.

It installs the CRDs of ClusterVersion and ClusterOperator if the cluster does not have them. The
ClusterVersion itself is created with 'mainstay cluster init'. Without a ClusterVersion, nothing is
applied.`,
		example:        "  mainstay run cluster-version-operator --release-image registry.example.com/platform@sha256:...",
		metricsAddress: "0.0.0.0:9099",
		addFlags:       c.addFlags,
		validate:       c.validate,
		setup:          c.setupClusterVersion,
	}
}

func (c *clusterOptions) addFlags(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.releaseImage, "release-image", "", "pull spec of the release that contains this program; for a program outside of a release, the initial release of the cluster")
	flags.StringVar(&c.payloadDir, "payload-dir", os.Getenv("PAYLOAD_OVERRIDE"), "directory with the manifests of that release (default: $PAYLOAD_OVERRIDE, else / inside a release image, else the release image is pulled)")
	flags.StringVar(&c.updateService, "update-service", "", "URL of the update service, which overrides the one in the ClusterVersion")
	flags.StringSliceVar(&c.alwaysEnable, "always-enable-capabilities", nil, "capabilities to enable regardless of the ClusterVersion; only Ingress is allowed")
	flags.BoolVar(&c.autoUpdate, "enable-auto-update", false, "request the highest recommended update automatically")
	flags.StringVar(&c.profile, "cluster-profile", os.Getenv("CLUSTER_PROFILE"), "cluster profile of the manifests to apply (default: $CLUSTER_PROFILE, else "+release.DefaultProfile+")")
	flags.StringVar(&c.exclude, "exclude-manifests", os.Getenv("EXCLUDE_MANIFESTS"), "identifier of manifests to exclude (default: $EXCLUDE_MANIFESTS)")
	flags.StringVar(&o.metricsAddress, "listen", "0.0.0.0:9099", "alias of --metrics-bind-address")
	flags.StringVar(&c.metricsCA, "metrics-ca-bundle-file", "", "certificate authorities for the client certificate of Prometheus for /metrics (default: clients with access to nonResourceURL /metrics are authorized)")
	flags.StringVar(&c.certFile, "serving-cert-file", "", "serving certificate of /metrics (default: a certificate is issued)")
	flags.StringVar(&c.keyFile, "serving-key-file", "", "private key of --serving-cert-file")
	flags.StringVar(&c.prometheus, "prometheus-url", defaultPrometheus, "URL of the Prometheus or Thanos server that evaluates update risks")
	flags.StringVar(&c.prometheusToken, "prometheus-token-file", serviceAccountTokenFile, "file with the token for --prometheus-url, if the file exists")
	flags.StringVar(&c.prometheusCA, "prometheus-ca-file", serviceCAFile, "certificate authorities for --prometheus-url, if the file exists (default: those of the system)")
	flags.BoolVar(&c.useDNS, "use-dns-for-services", false, "resolve Services with the cluster DNS instead of the API server")
	flags.StringVar(&c.retrieval, "retrieval", retrievalRegistry, "how releases are retrieved: registry (pulled by this program) or job (copied by a Job that runs the release image on this node, so that the container runtime pulls it)")
	flags.StringVar(&c.retrievalDir, "retrieval-dir", retrieval.DefaultDir, "with --retrieval=job, directory of the node to which Jobs copy releases; it must be mounted at the same path in this container")
	flags.StringVar(&c.node, "node", os.Getenv("NODE_NAME"), "with --retrieval=job, name of the node that this program runs on (default: $NODE_NAME)")
	setFlagDefault(cmd, "system-namespace", cmp.Or(os.Getenv("CVO_NAMESPACE"), defaultClusterVersionNamespace))
	o.tuneManager = c.tuneManager
}

// tuneManager sets the manager options of cluster-version-operator: lease durations that tolerate the
// replacement of an API server, and the authorization of metrics clients.
func (c *clusterOptions) tuneManager(m *ctrl.Options) {
	m.LeaseDuration, m.RenewDeadline, m.RetryPeriod = ptr.To(137*time.Second), ptr.To(107*time.Second), ptr.To(26*time.Second)
	m.GracefulShutdownTimeout = ptr.To(2 * time.Minute)
	if c.certFile != "" {
		useMetricsCertificate(&m.Metrics, c.certFile, c.keyFile)
	}

	if c.metricsCA != "" {
		authorizeByCertificate(&m.Metrics, c.metricsCA)
	}
}

func (c *clusterOptions) validate() error {
	for _, name := range c.alwaysEnable {
		if name != "" && name != "Ingress" {
			return fmt.Errorf("--always-enable-capabilities: %q is not allowed, only Ingress", name)
		}
	}
	return c.validateRetrieval()
}

func (c *clusterOptions) setupClusterVersion(ctx context.Context, o *options, mgr ctrl.Manager) error {
	c.alwaysEnable = slices.DeleteFunc(c.alwaysEnable, func(name string) bool { return name == "" })
	payload, err := openPayload(c.payloadDir)
	if err != nil {
		return err
	}
	if err := preparePlatform(ctx, mgr.GetConfig(), o.systemNamespace, signature.Namespace, risk.AcksNamespace); err != nil {
		return err
	}

	images, err := o.newPuller(mgr)
	if err != nil {
		return err
	}

	var jobs *retrieval.Workload
	if c.retrieval == retrievalJob {
		jobs = &retrieval.Workload{Namespace: o.systemNamespace, Node: c.node, Dir: c.retrievalDir}
	}

	return cluster.Setup(mgr, cluster.Options{
		Jobs:         jobs,
		ReleaseImage: c.releaseImage, Payload: payload, Images: images.Client, CacheDir: o.cachePath("releases"), Namespace: o.systemNamespace,
		UpdateService: c.updateService, AlwaysEnable: c.alwaysEnable, AutoUpdate: c.autoUpdate, Profile: c.profile, ExcludeIdentifier: c.exclude,
		Prometheus: c.newPrometheus(mgr.GetAPIReader()), Program: o.program, Metrics: crmetrics.Registry,
	})
}

func (c *clusterOptions) validateRetrieval() error {
	switch {
	case c.retrieval == retrievalRegistry:
		return nil
	case c.retrieval != retrievalJob:
		return fmt.Errorf("--retrieval: %q must be %s or %s", c.retrieval, retrievalRegistry, retrievalJob)
	case c.node == "":
		return errors.New("--retrieval=job requires the name of the node that this program runs on: set --node or NODE_NAME")
	case !filepath.IsAbs(c.retrievalDir):
		return fmt.Errorf("--retrieval-dir: %q is not an absolute path", c.retrievalDir)
	}

	return nil
}

// openPayload returns the payload of the release that contains this program: the files in dir, or of the image
// that the program runs in if dir is empty. It returns nil if the image is not a release image.
func openPayload(dir string) (fs.FS, error) {
	isSet := dir != ""
	if !isSet {
		dir = "/"
	}

	files := os.DirFS(dir)
	_, err := fs.Stat(files, release.FileMetadata)
	switch {
	case err == nil:
		return files, nil
	case !isSet && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}

	return nil, fmt.Errorf("--payload-dir: %q is not the payload of a release: %w", dir, err)
}

// preparePlatform creates the namespaces and CRDs that the operator requires, unless they exist, and waits until
// the API server serves the kinds.
func preparePlatform(ctx context.Context, config *rest.Config, namespaces ...string) error {
	s, err := newScheme()
	if err != nil {
		return err
	}

	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	if err := createNamespaces(ctx, c, namespaces...); err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	created, err := action.CreatePlatformKinds(ctx, c, true)
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	for _, kind := range created {
		if err := waitForKind(ctx, c, kind.GetName()); err != nil {
			return fmt.Errorf("preparing the cluster: %w", err)
		}
	}

	return nil
}

// createNamespaces creates the namespaces that do not exist.
func createNamespaces(ctx context.Context, c client.Client, names ...string) error {
	for _, name := range names {
		err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating namespace %q: %w", name, err)
		}
	}

	return nil
}

// newPrometheus returns the client of the Prometheus of the cluster, or nil if none is configured.
func (c *clusterOptions) newPrometheus(reader client.Reader) *updates.Prometheus {
	if c.prometheus == "" {
		return nil
	}

	p := &updates.Prometheus{URL: c.prometheus, TokenFile: ignoreMissingFile(c.prometheusToken), CAFile: ignoreMissingFile(c.prometheusCA)}
	if address, err := url.Parse(c.prometheus); err == nil && !c.useDNS {
		if key, ok := parseServiceHost(address.Hostname()); ok {
			p.Dial = func(ctx context.Context) (string, error) { return resolveClusterIP(ctx, reader, key, address) }
		}
	}
	return p
}

// ignoreMissingFile returns the file name, or "" if the file does not exist.
func ignoreMissingFile(file string) string {
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// parseServiceHost parses the host name of a Service, <name>.<namespace>.svc with or without the cluster
// domain. It reports whether the host is one.
func parseServiceHost(host string) (client.ObjectKey, bool) {
	parts := strings.Split(host, ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: parts[1], Name: parts[0]}, true
}

// resolveClusterIP returns the address of a Service, as host:port, from the API server. The cluster DNS is
// usually not available in the host network of the operator.
func resolveClusterIP(ctx context.Context, reader client.Reader, key client.ObjectKey, address *url.URL) (string, error) {
	var service corev1.Service
	if err := reader.Get(ctx, key, &service); err != nil {
		return "", fmt.Errorf("reading Service %s of Prometheus: %w", key, err)
	}
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return "", fmt.Errorf("the Service %s of Prometheus has no address: use --use-dns-for-services", key)
	}

	port := address.Port()
	if port == "" {
		port = "443"
		if address.Scheme == "http" {
			port = "80"
		}
	}

	return net.JoinHostPort(service.Spec.ClusterIP, port), nil
}
