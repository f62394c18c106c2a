package run

import (
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

	"github.com/spf13/pflag"
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

// clusterNamespace is where cluster-version-operator lives unless told otherwise.
const clusterNamespace = "openshift-cluster-version"

// Where a cluster's Prometheus usually is, and what it is asked with.
const (
	defaultPrometheus = "https://thanos-querier.openshift-monitoring.svc.cluster.local:9091"
	accountToken      = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // G101: it is the name of a file.
	serviceCA         = "/etc/tls/service-ca/service-ca.crt"
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

// How releases are retrieved.
const (
	byRegistry = "registry"
	byJob      = "job"
)

func (o *options) clusterVersion(flags *pflag.FlagSet) {
	c := &o.cluster
	flags.StringVar(&c.releaseImage, "release-image", "", "pull spec of the release that this program is part of; of a program that is part of none: the release of a cluster that has none yet")
	flags.StringVar(&c.payloadDir, "payload-dir", os.Getenv("PAYLOAD_OVERRIDE"), "folder with the manifests of that release; unset: PAYLOAD_OVERRIDE, or / in an image of a release, and else the release is pulled")
	flags.StringVar(&c.updateService, "update-service", "", "update service to ask, whatever the ClusterVersion says")
	flags.StringSliceVar(&c.alwaysEnable, "always-enable-capabilities", nil, "capabilities that the cluster has whatever the ClusterVersion says; Ingress is the only one that may be named")
	flags.BoolVar(&c.autoUpdate, "enable-auto-update", false, "have the cluster ask for the highest recommended update by itself")
	flags.StringVar(&c.profile, "cluster-profile", os.Getenv("CLUSTER_PROFILE"), "profile whose manifests are applied; unset: CLUSTER_PROFILE, or "+release.DefaultProfile)
	flags.StringVar(&c.exclude, "exclude-manifests", os.Getenv("EXCLUDE_MANIFESTS"), "identifier by which manifests may exclude themselves; unset: EXCLUDE_MANIFESTS")
	flags.StringVar(&o.metricsAddress, "listen", "0.0.0.0:9099", "the same as --metrics-bind-address")
	flags.StringVar(&c.metricsCA, "metrics-ca-bundle-file", "", "authorities of the client certificate that Prometheus shows to read metrics; unset: whoever may get nonResourceURL /metrics reads them")
	flags.StringVar(&c.certFile, "serving-cert-file", "", "certificate that metrics are served with; unset: one is issued")
	flags.StringVar(&c.keyFile, "serving-key-file", "", "key of --serving-cert-file")
	flags.StringVar(&c.prometheus, "prometheus-url", defaultPrometheus, "Prometheus or Thanos that tells whether the risks of updates apply")
	flags.StringVar(&c.prometheusToken, "prometheus-token-file", accountToken, "file with the token that it is asked with, if the file exists")
	flags.StringVar(&c.prometheusCA, "prometheus-ca-file", serviceCA, "authorities that it is trusted by, if the file exists; else those of the system")
	flags.BoolVar(&c.useDNS, "use-dns-for-services", false, "find Services by the cluster's DNS instead of the API server")
	flags.StringVar(&c.retrieval, "retrieval", byRegistry, "how releases are read: registry, by this program; or job, by a Job that runs the release image on this node, so that the container runtime pulls it")
	flags.StringVar(&c.retrievalDir, "retrieval-dir", retrieval.DefaultDir, "folder of the node where Jobs put releases, and under the same name of this program; with --retrieval=job")
	flags.StringVar(&c.node, "node", os.Getenv("NODE_NAME"), "name of the node that this runs on, with --retrieval=job; unset: $NODE_NAME")
	namespace := flags.Lookup("system-namespace")
	namespace.DefValue = clusterNamespace
	if own := os.Getenv("CVO_NAMESPACE"); own != "" {
		namespace.DefValue = own
	}

	o.systemNamespace = namespace.DefValue
	o.tune = o.tuneClusterVersion
}

// tuneClusterVersion sets what the operator's manager has of its own: the times of its
// lease, which outlast an API server that is being replaced, and who reads metrics.
func (o *options) tuneClusterVersion(m *ctrl.Options) {
	m.LeaseDuration, m.RenewDeadline, m.RetryPeriod = ptr.To(137*time.Second), ptr.To(107*time.Second), ptr.To(26*time.Second)
	m.GracefulShutdownTimeout = ptr.To(2 * time.Minute)
	if o.cluster.certFile != "" {
		m.Metrics.CertDir, m.Metrics.CertName = filepath.Split(o.cluster.certFile)
		m.Metrics.KeyName = o.cluster.keyFile
		if key, err := filepath.Rel(m.Metrics.CertDir, o.cluster.keyFile); err == nil {
			m.Metrics.KeyName = key
		}
	}

	if o.cluster.metricsCA != "" {
		byCertificate(&m.Metrics, o.cluster.metricsCA)
	}
}

func setupClusterVersion(ctx context.Context, o *options, mgr ctrl.Manager) error {
	c := o.cluster
	c.alwaysEnable = slices.DeleteFunc(slices.Clone(c.alwaysEnable), func(name string) bool { return name == "" })
	for _, name := range c.alwaysEnable {
		if name != "Ingress" {
			return fmt.Errorf("--always-enable-capabilities: %q may not be named, only Ingress", name)
		}
	}

	if err := c.checkRetrieval(); err != nil {
		return err
	}

	payload, err := payloadOf(c.payloadDir)
	if err != nil {
		return err
	}
	if err := preparePlatform(ctx, mgr.GetConfig(), o.systemNamespace, signature.Namespace, risk.AcksNamespace); err != nil {
		return err
	}

	images, err := o.puller(mgr)
	if err != nil {
		return err
	}

	var jobs *retrieval.Workload
	if c.retrieval == byJob {
		jobs = &retrieval.Workload{Namespace: o.systemNamespace, Node: c.node, Dir: c.retrievalDir}
	}

	return cluster.Setup(mgr, cluster.Options{
		Jobs:         jobs,
		ReleaseImage: c.releaseImage, Payload: payload, Images: images.Client, CacheDir: o.cache("releases"), Namespace: o.systemNamespace,
		UpdateService: c.updateService, AlwaysEnable: c.alwaysEnable, AutoUpdate: c.autoUpdate, Profile: c.profile, ExcludeIdentifier: c.exclude,
		Prometheus: c.querier(mgr.GetAPIReader()), Program: o.program, Metrics: crmetrics.Registry,
	})
}

func (c clusterOptions) checkRetrieval() error {
	switch {
	case c.retrieval == byRegistry:
		return nil
	case c.retrieval != byJob:
		return fmt.Errorf("--retrieval: %q is none of %s and %s", c.retrieval, byRegistry, byJob)
	case c.node == "":
		return errors.New("--retrieval=job needs the name of the node that this runs on: set --node or NODE_NAME")
	case !filepath.IsAbs(c.retrievalDir):
		return fmt.Errorf("--retrieval-dir: %q is no absolute path", c.retrievalDir)
	}

	return nil
}

// payloadOf returns the files of the release that this program is part of: those of the
// folder, or of the image that it runs in. It gives nil when it is part of none.
func payloadOf(dir string) (fs.FS, error) {
	given := dir != ""
	if !given {
		dir = "/"
	}

	files := os.DirFS(dir)
	_, err := fs.Stat(files, release.FileMetadata)
	switch {
	case err == nil:
		return files, nil
	case !given && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}

	return nil, fmt.Errorf("--payload-dir: %q is no payload of a release: %w", dir, err)
}

// preparePlatform makes the kinds and namespaces that the operator works with where the
// cluster has none, and waits until the kinds are served.
func preparePlatform(ctx context.Context, config *rest.Config, namespaces ...string) error {
	s, err := scheme()
	if err != nil {
		return err
	}

	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	for _, name := range namespaces {
		err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("preparing the cluster: making namespace %q: %w", name, err)
		}
	}

	created, err := action.CreatePlatformKinds(ctx, c, true)
	if err != nil {
		return fmt.Errorf("preparing the cluster: %w", err)
	}

	for _, kind := range created {
		if err := awaitKind(ctx, c, kind.GetName()); err != nil {
			return fmt.Errorf("preparing the cluster: %w", err)
		}
	}

	return nil
}

// querier asks the cluster's Prometheus. It gives nil when there is none to ask.
func (c clusterOptions) querier(reader client.Reader) *updates.Prometheus {
	if c.prometheus == "" {
		return nil
	}

	p := &updates.Prometheus{URL: c.prometheus, TokenFile: existing(c.prometheusToken), CAFile: existing(c.prometheusCA)}
	if address, err := url.Parse(c.prometheus); err == nil && !c.useDNS {
		if key, ok := serviceOf(address.Hostname()); ok {
			p.Dial = func(ctx context.Context) (string, error) { return clusterIP(ctx, reader, key, address) }
		}
	}
	return p
}

// existing returns the file when it is there.
func existing(file string) string {
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// serviceOf reads <name>.<namespace>.svc, with or without the cluster's domain.
func serviceOf(host string) (client.ObjectKey, bool) {
	parts := strings.Split(host, ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: parts[1], Name: parts[0]}, true
}

// clusterIP returns the address of a Service as the API server knows it: on the nodes where
// the operator runs, the cluster's DNS is mostly not to be had.
func clusterIP(ctx context.Context, reader client.Reader, key client.ObjectKey, address *url.URL) (string, error) {
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
