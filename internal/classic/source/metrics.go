package source

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	catalogCount = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "catalog_source_count", Help: "How many CatalogSources there are.",
	})
	catalogReady = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "catalogsource_ready", Help: "1 for a CatalogSource that is connected (state READY), else 0.",
	}, []string{"namespace", "name"})
)

// registerMetrics registers the metrics. Setup calls it, so that a process exports only the metrics of the
// controllers that it runs.
var registerMetrics = sync.OnceFunc(func() { ctrlmetrics.Registry.MustRegister(catalogCount, catalogReady) })

// catalogMetrics maintains the metrics of existing catalogs.
type catalogMetrics struct {
	mu       sync.Mutex
	recorded map[types.NamespacedName]bool
}

// recordCatalog counts a catalog. A new catalog is not ready.
func (m *catalogMetrics) recordCatalog(catalog types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.recorded[catalog] {
		return
	}
	if m.recorded == nil {
		m.recorded = map[types.NamespacedName]bool{}
	}

	m.recorded[catalog] = true
	catalogCount.Set(float64(len(m.recorded)))
	catalogReady.WithLabelValues(catalog.Namespace, catalog.Name).Set(0)
}

func (m *catalogMetrics) setReadyMetric(catalog types.NamespacedName, isReady bool) {
	value := 0.0
	if isReady {
		value = 1
	}
	catalogReady.WithLabelValues(catalog.Namespace, catalog.Name).Set(value)
}

// removeCatalog removes the metrics of a catalog.
func (m *catalogMetrics) removeCatalog(catalog types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.recorded, catalog)
	catalogCount.Set(float64(len(m.recorded)))
	catalogReady.DeleteLabelValues(catalog.Namespace, catalog.Name)
}
