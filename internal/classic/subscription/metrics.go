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
	count = prometheus.NewGauge(prometheus.GaugeOpts{Name: "subscription_count", Help: "How many Subscriptions there are."})
	syncs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "subscription_sync_total", Help: "How often a Subscription was looked at.",
	}, []string{"name", "installed", "channel", "package", "approval"})
	durations = prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: "olm_resolution_duration_seconds", Help: "How long it took to choose the operators of a namespace, in seconds.",
		Objectives: map[float64]float64{0.9: 0.01, 0.95: 0.05, 0.99: 0.001},
	}, []string{"outcome"})
)

func init() { ctrlmetrics.Registry.MustRegister(count, syncs, durations) }

// counts remembers by which labels Subscriptions are counted. The zero value is ready.
type counts struct {
	mu    sync.Mutex
	known map[types.NamespacedName][]string
	users map[string]int // of a series, by its labels
}

// seen counts a pass over the Subscriptions of a namespace, which are all that there are.
func (c *counts) seen(namespace string, subs []*v1alpha1.Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known, c.users = map[types.NamespacedName][]string{}, map[string]int{}
	}

	there := map[types.NamespacedName]bool{}
	for _, sub := range subs {
		key := client.ObjectKeyFromObject(sub)
		there[key] = true
		labels := []string{sub.Name, sub.Status.InstalledCSV, sub.Spec.Channel, sub.Spec.Package, string(sub.Spec.InstallPlanApproval)}
		c.replace(key, labels)
		syncs.WithLabelValues(labels...).Inc()
	}

	for key := range c.known {
		if key.Namespace == namespace && !there[key] {
			c.replace(key, nil)
		}
	}

	count.Set(float64(len(c.known)))
}

// replace has a Subscription be counted by other labels. Namesakes in other namespaces may share a series, which
// goes with the last of them.
func (c *counts) replace(key types.NamespacedName, labels []string) {
	if old, ok := c.known[key]; ok {
		series := joined(old)
		if series == joined(labels) {
			return
		}
		if c.users[series]--; c.users[series] == 0 {
			delete(c.users, series)
			syncs.DeleteLabelValues(old...)
		}
		delete(c.known, key)
	}

	if labels != nil {
		c.known[key] = labels
		c.users[joined(labels)]++
	}
}

func joined(labels []string) string { return strings.Join(labels, "\x00") }
