package subscription

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

var (
	subscriptionGauge = prometheus.NewGauge(prometheus.GaugeOpts{Name: "subscription_count", Help: "Number of Subscriptions."})
	syncCounter       = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "subscription_sync_total", Help: "Number of reconciles of a Subscription.",
	}, []string{"name", "installed", "channel", "package", "approval"})
	resolutionDurations = prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: "olm_resolution_duration_seconds", Help: "Duration of the resolution of a namespace, in seconds.",
		Objectives: map[float64]float64{0.9: 0.01, 0.95: 0.05, 0.99: 0.001},
	}, []string{"outcome"})
)

// registerMetrics registers the metrics. Setup calls it, so that a process exports only the metrics of the
// controllers that it runs.
var registerMetrics = sync.OnceFunc(func() { ctrlmetrics.Registry.MustRegister(subscriptionGauge, syncCounter, resolutionDurations) })

// syncMetrics has the metric labels of each Subscription. The zero value is ready to use.
type syncMetrics struct {
	mu          sync.Mutex
	known       map[types.NamespacedName][]string
	seriesUsers map[string]int // of a series, by its labels
}

// recordSync counts a reconcile of a namespace. subs are all Subscriptions of the namespace.
func (c *syncMetrics) recordSync(namespace string, subs []*v1alpha1.Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known, c.seriesUsers = map[types.NamespacedName][]string{}, map[string]int{}
	}

	existing := map[types.NamespacedName]bool{}
	for _, sub := range subs {
		key := client.ObjectKeyFromObject(sub)
		existing[key] = true
		labels := []string{sub.Name, sub.Status.InstalledCSV, sub.Spec.Channel, sub.Spec.Package, string(sub.Spec.InstallPlanApproval)}
		c.replaceLabels(key, labels)
		syncCounter.WithLabelValues(labels...).Inc()
	}

	for key := range c.known {
		if key.Namespace == namespace && !existing[key] {
			c.replaceLabels(key, nil)
		}
	}

	subscriptionGauge.Set(float64(len(c.known)))
}

// replaceLabels sets the metric labels of a Subscription; nil removes them. Subscriptions with the same name in
// several namespaces may share a series, which is deleted with the last of them.
func (c *syncMetrics) replaceLabels(key types.NamespacedName, labels []string) {
	if old, ok := c.known[key]; ok {
		series := joinLabels(old)
		if series == joinLabels(labels) {
			return
		}
		if c.seriesUsers[series]--; c.seriesUsers[series] == 0 {
			delete(c.seriesUsers, series)
			syncCounter.DeleteLabelValues(old...)
		}
		delete(c.known, key)
	}

	if labels != nil {
		c.known[key] = labels
		c.seriesUsers[joinLabels(labels)]++
	}
}

func joinLabels(labels []string) string { return strings.Join(labels, "\x00") }
