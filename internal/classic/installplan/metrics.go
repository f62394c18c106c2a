package installplan

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	planCount = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "install_plan_count", Help: "Number of InstallPlans.",
	})
	warningsTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "installplan_warnings_total", Help: "Number of InstallPlan steps that the API server warned about.",
	})
)

// registerMetrics registers the metrics. Setup calls it, so that a process exports only the metrics of the
// controllers that it runs.
var registerMetrics = sync.OnceFunc(func() { ctrlmetrics.Registry.MustRegister(planCount, warningsTotal) })

// planCounter counts the existing plans that were reconciled.
type planCounter struct {
	mu    sync.Mutex
	known sets.Set[types.NamespacedName]
}

func (c *planCounter) add(plan types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = sets.Set[types.NamespacedName]{}
	}
	c.known.Insert(plan)
	planCount.Set(float64(len(c.known)))
}

func (c *planCounter) remove(plan types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Delete(plan)
	planCount.Set(float64(len(c.known)))
}
