package snapshot

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var snapshotsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "catalog_source_snapshots_total", Help: "How often a CatalogSource was read.",
}, []string{"namespace", "name"})

// registerMetrics registers the metrics. New calls it, so that a process exports them only if it takes
// snapshots.
var registerMetrics = sync.OnceFunc(func() { ctrlmetrics.Registry.MustRegister(snapshotsTotal) })
