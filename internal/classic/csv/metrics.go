package csv

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// upgradeCounter counts the ClusterServiceVersions that were replaced by newer ones.
var upgradeCounter = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "csv_upgrade_count", Help: "Number of ClusterServiceVersions that began to be replaced.",
})

// registerMetrics registers the metrics. Setup calls it, so that a process exports only the metrics of the
// controllers that it runs.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(upgradeCounter) })

// collectTimeout limits how long the cache may take to answer.
const collectTimeout = 10 * time.Second

var (
	countDesc     = prometheus.NewDesc("csv_count", "Number of ClusterServiceVersions without copied CSVs.", nil, nil)
	succeededDesc = prometheus.NewDesc("csv_succeeded", "1 for a ClusterServiceVersion that succeeded, else 0.", []string{"namespace", "name", "version"}, nil)
	abnormalDesc  = prometheus.NewDesc("csv_abnormal", "1 for a ClusterServiceVersion that did not succeed.", []string{"namespace", "name", "version", "phase", "reason"}, nil)
)

// Metrics collects the phases of ClusterServiceVersions from the cache on each scrape. No metric
// has to be removed when a ClusterServiceVersion changes or is deleted.
type Metrics struct{ Reader client.Reader }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- countDesc
	descs <- succeededDesc
	descs <- abnormalDesc
}

// Collect implements prometheus.Collector. It returns no metrics if the cache does not answer.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list v1alpha1.ClusterServiceVersionList
	if err := m.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}

	count := 0.0
	for i := range list.Items {
		csv := &list.Items[i]
		if csvinfo.IsCopied(csv) {
			continue
		}

		count++
		version := string(csv.Spec.Version)
		if version == "" {
			version = "0.0.0"
		}

		succeeded := 0.0
		if csv.Status.Phase == v1alpha1.CSVPhaseSucceeded {
			succeeded = 1
		} else {
			out <- prometheus.MustNewConstMetric(abnormalDesc, prometheus.GaugeValue, 1, csv.Namespace, csv.Name, version, string(csv.Status.Phase), csv.Status.Reason)
		}

		out <- prometheus.MustNewConstMetric(succeededDesc, prometheus.GaugeValue, succeeded, csv.Namespace, csv.Name, version)
	}

	out <- prometheus.MustNewConstMetric(countDesc, prometheus.GaugeValue, count)
}
