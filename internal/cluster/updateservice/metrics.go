package updateservice

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are the metrics of a service.
type metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration prometheus.Histogram

	scans       *prometheus.CounterVec
	scanSeconds prometheus.Gauge
	lastSuccess prometheus.Gauge
	failing     *prometheus.GaugeVec
	releases    prometheus.Gauge
	edges       prometheus.Gauge
	refused     prometheus.Gauge
	warnings    prometheus.Gauge

	refusedRequests *prometheus.CounterVec
}

// Sources of a graph, as label values.
const (
	sourceReleases = "releases"
	sourceData     = "graph-data"
)

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "graph_incoming_requests_total", Help: "Requests for graphs, by path."}, []string{"uri_path"}),
		errors:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "graph_response_errors_total", Help: "Requests that were answered with an error."}, []string{"code", "kind"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "graph_serve_duration_seconds", Help: "Time to answer a request.",
			Buckets: []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5},
		}),
		scans:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mainstay_update_service_scans_total", Help: "Scans of the releases and the graph-data, by result: success or failure."}, []string{"result"}),
		scanSeconds: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstay_update_service_scan_seconds", Help: "Duration of the last scan."}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstay_update_service_last_success_timestamp_seconds", Help: "When the graph that is served was last found to be up to date."}),
		failing:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "mainstay_update_service_source_failing", Help: "1 when the last scan of a source failed and the previous graph is still served."}, []string{"source"}),
		releases:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstay_update_service_releases", Help: "Releases in the graph."}),
		edges:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstay_update_service_edges", Help: "Updates in the graph, with and without known issues."}),
		refused:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstay_update_service_refused_images", Help: "Images of the repository that are not releases, are not signed, or cannot be read."}),
		warnings:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstay_update_service_warnings", Help: "Faults of releases that cost a release or an update."}),

		refusedRequests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mainstay_update_service_refused_requests_total", Help: "Connections and requests refused because a limit was reached, by limit."}, []string{"limit"}),
	}

	m.registry.MustRegister(m.refusedRequests, m.requests, m.errors, m.duration, m.scans, m.scanSeconds, m.lastSuccess, m.failing, m.releases, m.edges, m.refused, m.warnings,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, source := range []string{sourceReleases, sourceData} {
		m.failing.WithLabelValues(source).Set(0)
	}
	return m
}

func (m *metrics) setSourceFailing(source string, err error) {
	value := 0.0
	if err != nil {
		value = 1
	}
	m.failing.WithLabelValues(source).Set(value)
}
