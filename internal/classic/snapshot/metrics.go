package snapshot

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var snapshotsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "catalog_source_snapshots_total", Help: "How often a CatalogSource was read.",
}, []string{"namespace", "name"})

func init() { ctrlmetrics.Registry.MustRegister(snapshotsTotal) }
