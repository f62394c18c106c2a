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

func init() { ctrlmetrics.Registry.MustRegister(catalogCount, catalogReady) }

// metrics tell of the catalogs that were looked at and are still there.
type metrics struct {
	mu    sync.Mutex
	known map[types.NamespacedName]bool
}

// seen counts a catalog. One that is new is not ready.
func (m *metrics) seen(catalog types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[catalog] {
		return
	}
	if m.known == nil {
		m.known = map[types.NamespacedName]bool{}
	}

	m.known[catalog] = true
	catalogCount.Set(float64(len(m.known)))
	catalogReady.WithLabelValues(catalog.Namespace, catalog.Name).Set(0)
}

func (m *metrics) ready(catalog types.NamespacedName, isReady bool) {
	value := 0.0
	if isReady {
		value = 1
	}
	catalogReady.WithLabelValues(catalog.Namespace, catalog.Name).Set(value)
}

// gone forgets a catalog.
func (m *metrics) gone(catalog types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, catalog)
	catalogCount.Set(float64(len(m.known)))
	catalogReady.DeleteLabelValues(catalog.Namespace, catalog.Name)
}
