// Package metrics exposes the state of the ClusterVersion and of the ClusterOperators as
// Prometheus metrics.
//
// It only reads objects and makes no decisions.
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

// Registerer registers collectors.
type Registerer interface {
	Register(prometheus.Collector) error
}

// Options are the sources of metrics other than objects of the cluster.
type Options struct {
	// Worker returns the status of the worker.
	Worker func() worker.Status
	// Retrieved returns the time of the last successful query of the update service; the zero
	// time if there was none.
	Retrieved func() time.Time
	// Created returns when a release was created; the zero time if that is not known.
	Created func(image string) metav1.Time
}

// scrapeTimeout is the timeout of the reads for one scrape.
const scrapeTimeout = 10 * time.Second

// Setup registers the metrics collector of a manager's cluster.
func Setup(mgr ctrl.Manager, to Registerer, o Options) error {
	c := &collector{Options: o, reader: mgr.GetClient(), direct: mgr.GetAPIReader(), transitions: newTransitionCounter()}
	if err := to.Register(c); err != nil {
		return fmt.Errorf("setting up metrics of the cluster's version: %w", err)
	}

	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		informer, err := mgr.GetCache().GetInformer(ctx, &configv1.ClusterOperator{})
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(c.transitions.newEventHandler()); err != nil {
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

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// The metrics. Dashboards and alerts depend on their names and labels.
var (
	versionDesc = newDesc("cluster_version",
		"The releases of the cluster by type, in seconds since the epoch: when the current one was created, the cluster was created (initial, cluster), the last completed one was completed, "+
			"the desired one was requested, the current update started, and the current failure started.",
		"type", "version", "image", "from_version")
	availableDesc   = newDesc("cluster_version_available_updates", "Number of recommended updates.", "upstream", "channel")
	capabilityDesc  = newDesc("cluster_version_capability", "1 for enabled capabilities, 0 for other known ones.", "name")
	payloadDesc     = newDesc("cluster_version_payload", "Number of manifests of the release that are applied and that are pending.", "version", "type")
	errorsDesc      = newDesc("cluster_operator_payload_errors", "Number of failed attempts to apply manifests of the release.", "version")
	riskDesc        = newDesc("cluster_version_risk_conditions", "The conditions of the risks of updates: 1 true, 0 false, -1 unknown.", "condition", "risk", "reason")
	conditionalDesc = newDesc("cluster_version_conditional_update_condition_seconds", "When a condition of a conditional update changed, in seconds since the epoch.",
		"version", "condition", "status", "reason")
	retrievedDesc  = newDesc("cluster_version_operator_update_retrieval_timestamp_seconds", "Time of the last successful query of the update service, in seconds since the epoch.", "name")
	upDesc         = newDesc("cluster_operator_up", "1 for available ClusterOperators, and for the ClusterVersion if it is available.", "name", "version", "reason")
	conditionDesc  = newDesc("cluster_operator_conditions", "Conditions of ClusterOperators and the ClusterVersion: 1 true, 0 false. Unknown ones are left out.", "name", "condition", "reason")
	transitionDesc = newDesc("cluster_operator_condition_transitions", "Number of observed changes of a condition of a ClusterOperator.", "name", "condition")
	installerDesc  = newDesc("cluster_installer", "What installed the cluster.", "type", "version", "invoker")
)

// collector reads the objects for each scrape.
type collector struct {
	Options

	reader, direct client.Reader
	transitions    *transitionCounter
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		versionDesc, availableDesc, capabilityDesc, payloadDesc, errorsDesc, riskDesc, conditionalDesc, retrievedDesc, upDesc, conditionDesc, transitionDesc, installerDesc,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s := metricSink{to}
	cv := &configv1.ClusterVersion{}
	switch err := c.reader.Get(ctx, client.ObjectKey{Name: configv1.ClusterVersionName}, cv); {
	case apierrors.IsNotFound(err):
		s.sendGauge(upDesc, 0, configv1.ClusterVersionName, "", "ClusterVersionNotFound")
	case err != nil:
		s.sendError(versionDesc, err)
	default:
		c.collectVersion(s, cv)
	}

	var operators configv1.ClusterOperatorList
	// The objects are not modified.
	if err := c.reader.List(ctx, &operators, client.UnsafeDisableDeepCopy); err != nil {
		s.sendError(upDesc, err)
	}

	for i := range operators.Items {
		collectOperator(s, &operators.Items[i])
	}

	c.transitions.collectTransitions(s)
	c.collectInstaller(ctx, s)
}

// collectInstaller sends the metric about the installer.
func (c *collector) collectInstaller(ctx context.Context, s metricSink) {
	kind, version, invoker := "other", "", "user"
	for _, name := range []string{"openshift-install", "openshift-install-manifests"} {
		var left corev1.ConfigMap
		err := c.direct.Get(ctx, client.ObjectKey{Namespace: "openshift-config", Name: name}, &left)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			s.sendError(installerDesc, err)
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

	s.sendGauge(installerDesc, 1, kind, version, invoker)
}

// metricSink sends metrics to a channel.
type metricSink struct{ to chan<- prometheus.Metric }

func (s metricSink) sendGauge(d *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s metricSink) sendCounter(d *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

func (s metricSink) sendError(d *prometheus.Desc, err error) {
	s.to <- prometheus.NewInvalidMetric(d, err)
}

func toUnixSeconds(t metav1.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
