// Package metrics tells Prometheus how the version of a cluster is, and how the parts of the
// cluster report that they are.
//
// It reads what stands in ClusterVersion and ClusterOperators, and decides nothing.
package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
)

// Registerer takes collectors.
type Registerer interface {
	Register(prometheus.Collector) error
}

// Options are what metrics are made of beside the objects of the cluster.
type Options struct {
	// Worker tells how far the worker is.
	Worker func() worker.Status
	// Retrieved is when the update service answered last; the zero time when it never did.
	Retrieved func() time.Time
	// Created tells when a release was made; the zero time when that is not known.
	Created func(image string) metav1.Time
}

// scrapeTimeout bounds what is read for one scrape. All of it lies in caches.
const scrapeTimeout = 10 * time.Second

// Setup registers the metrics of a manager's cluster.
func Setup(mgr ctrl.Manager, to Registerer, o Options) error {
	c := &collector{Options: o, reader: mgr.GetClient(), direct: mgr.GetAPIReader(), transitions: newTransitions()}
	if err := to.Register(c); err != nil {
		return fmt.Errorf("setting up metrics of the cluster's version: %w", err)
	}

	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		informer, err := mgr.GetCache().GetInformer(ctx, &configv1.ClusterOperator{})
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(c.transitions.handler()); err != nil {
			return err
		}

		<-ctx.Done()
		return nil
	}))
	if err != nil {
		return fmt.Errorf("setting up metrics of the cluster's version: %w", err)
	}

	return nil
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// The metrics, by the names and labels that dashboards and alerts of the field know.
var (
	versionDesc = desc("cluster_version",
		"The releases of the cluster by type, in seconds since the epoch: when the current one was made, the cluster was made (initial, cluster), the last complete one was complete, "+
			"the wanted one was wanted, the present update began, and the present failure began.",
		"type", "version", "image", "from_version")
	availableDesc   = desc("cluster_version_available_updates", "How many updates are recommended.", "upstream", "channel")
	capabilityDesc  = desc("cluster_version_capability", "1 for capabilities that the cluster has, 0 for others that are known.", "name")
	payloadDesc     = desc("cluster_version_payload", "How many manifests of the release are applied, and how many are not.", "version", "type")
	errorsDesc      = desc("cluster_operator_payload_errors", "How many attempts at manifests of the release failed.", "version")
	riskDesc        = desc("cluster_version_risk_conditions", "The conditions of the risks of updates: 1 true, 0 false, -1 unknown.", "condition", "risk", "reason")
	conditionalDesc = desc("cluster_version_conditional_update_condition_seconds", "When a condition of a conditional update changed, in seconds since the epoch.",
		"version", "condition", "status", "reason")
	retrievedDesc  = desc("cluster_version_operator_update_retrieval_timestamp_seconds", "When the update service answered last, in seconds since the epoch.", "name")
	upDesc         = desc("cluster_operator_up", "1 for parts of the cluster that are available.", "name", "version", "reason")
	conditionDesc  = desc("cluster_operator_conditions", "The conditions of the parts of the cluster: 1 true, 0 false. Unknown ones are left out.", "name", "condition", "reason")
	transitionDesc = desc("cluster_operator_condition_transitions", "How often a condition of a part of the cluster was seen to change.", "name", "condition")
	installerDesc  = desc("cluster_installer", "What installed the cluster.", "type", "version", "invoker")
)

// collector reads the objects at each scrape.
type collector struct {
	Options

	reader, direct client.Reader
	transitions    *transitions
}

// Describe sends what there can be.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		versionDesc, availableDesc, capabilityDesc, payloadDesc, errorsDesc, riskDesc, conditionalDesc, retrievedDesc, upDesc, conditionDesc, transitionDesc, installerDesc,
	} {
		to <- d
	}
}

// Collect sends what there is.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s := sink{to}
	cv := &configv1.ClusterVersion{}
	switch err := c.reader.Get(ctx, client.ObjectKey{Name: configv1.ClusterVersionName}, cv); {
	case apierrors.IsNotFound(err):
		s.gauge(upDesc, 0, configv1.ClusterVersionName, "", "ClusterVersionNotFound")
	case err != nil:
		s.fail(versionDesc, err)
	default:
		c.collectVersion(s, cv)
	}

	var operators configv1.ClusterOperatorList
	// They are only read.
	if err := c.reader.List(ctx, &operators, client.UnsafeDisableDeepCopy); err != nil {
		s.fail(upDesc, err)
	}

	for i := range operators.Items {
		collectOperator(s, &operators.Items[i])
	}

	c.transitions.collect(s)
	c.collectInstaller(ctx, s)
}

// collectInstaller tells what the installer left behind.
func (c *collector) collectInstaller(ctx context.Context, s sink) {
	kind, version, invoker := "other", "", "user"
	for _, name := range []string{"openshift-install", "openshift-install-manifests"} {
		var left corev1.ConfigMap
		err := c.direct.Get(ctx, client.ObjectKey{Namespace: "openshift-config", Name: name}, &left)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			s.fail(installerDesc, err)
			return
		}

		version = left.Data["version"]
		if left.Data["invoker"] != "" {
			invoker = left.Data["invoker"]
		}
		if name == "openshift-install" {
			kind = name
		}

		break
	}

	s.gauge(installerDesc, 1, kind, version, invoker)
}

// sink takes metrics.
type sink struct{ to chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s sink) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

func (s sink) fail(d *prometheus.Desc, err error) { s.to <- prometheus.NewInvalidMetric(d, err) }

func seconds(t metav1.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
