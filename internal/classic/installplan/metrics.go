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
		Name: "install_plan_count", Help: "How many InstallPlans there are.",
	})
	warningsTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "installplan_warnings_total", Help: "How many steps of InstallPlans the API server has warned about.",
	})
)

func init() { ctrlmetrics.Registry.MustRegister(planCount, warningsTotal) }

// counter counts the plans that were looked at and are still there.
type counter struct {
	mu    sync.Mutex
	known sets.Set[types.NamespacedName]
}

func (c *counter) seen(plan types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = sets.Set[types.NamespacedName]{}
	}
	c.known.Insert(plan)
	planCount.Set(float64(len(c.known)))
}

func (c *counter) gone(plan types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Delete(plan)
	planCount.Set(float64(len(c.known)))
}
