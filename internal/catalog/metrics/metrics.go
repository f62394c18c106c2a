// Package metrics has all that catalogd measures, registered once for the process, as
// controller-runtime's registry is.
//
// A label has few values: those that the code knows, and the names of catalogs that are
// stored. What a client sends never becomes one.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Of storing catalogs.
var (
	// UnpackSeconds is how long it takes to pull and store a catalog, by outcome: stored,
	// content (another image is needed) or unavailable.
	UnpackSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mainstay_catalog_unpack_duration_seconds",
		Help: "Time to pull a catalog image and store its content, by outcome.",
		// From a catalog of one package nearby to a large one over a slow line.
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300, 1800},
	}, []string{"outcome"})
	// StoredBytes and StoredBlobs are the size of what is stored of each catalog.
	StoredBytes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mainstay_catalog_stored_bytes",
		Help: "Size of a catalog's stored content, as JSON lines.",
	}, []string{"catalog"})
	StoredBlobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mainstay_catalog_stored_blobs",
		Help: "Number of blobs of a catalog's stored content.",
	}, []string{"catalog"})
)

// Of answering requests.
var (
	// Requests counts answers, by endpoint (all, metas, graph or other), method and code.
	Requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_requests_total",
		Help: "Requests for catalog content, by endpoint, method and status code.",
	}, []string{"endpoint", "method", "code"})
	// RequestSeconds is how long an answer takes.
	RequestSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mainstay_catalog_http_request_duration_seconds",
		Help: "Time to answer a request for catalog content, until its last byte was sent.",
		// A query takes less than a millisecond, a whole catalog seconds.
		Buckets: []float64{0.0002, 0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60},
	}, []string{"endpoint"})
	// InFlight is how many requests are being answered.
	InFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mainstay_catalog_http_requests_in_flight",
		Help: "Requests for catalog content that are being answered.",
	})
	// Connections is how many connections are open.
	Connections = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mainstay_catalog_http_connections",
		Help: "Open connections of clients of catalog content.",
	})
	// Refused counts what was not answered because of a limit: connections or requests, of
	// one client or of all.
	Refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_refused_total",
		Help: "Connections and requests refused because a limit was reached, by limit.",
	}, []string{"limit"})
	// ResponseBytes counts what is sent, by endpoint.
	ResponseBytes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_response_bytes_total",
		Help: "Bytes of catalog content sent, after compression.",
	}, []string{"endpoint"})
	// CatalogRequests and CatalogBytes count by catalog. Unlike the others they have only
	// what was asked of catalogs that are served.
	CatalogRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_requests_total",
		Help: "Requests for the content of a catalog, by catalog.",
	}, []string{"catalog"})
	CatalogBytes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_response_bytes_total",
		Help: "Bytes sent of the content of a catalog, after compression, by catalog.",
	}, []string{"catalog"})
	// NotModified counts the answers that needed no body, by endpoint.
	NotModified = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_not_modified_total",
		Help: "Requests of clients that had the content already, by endpoint.",
	}, []string{"endpoint"})
	// Cache counts whether an answer that has to be made was there: kept is that of whole
	// catalogs in compressed form, on disk; made is that of other answers, in memory.
	Cache = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_cache_lookups_total",
		Help: "Lookups of answers that were made before, by cache and result.",
	}, []string{"cache", "result"})
)

func init() {
	crmetrics.Registry.MustRegister(
		UnpackSeconds, StoredBytes, StoredBlobs,
		Requests, RequestSeconds, InFlight, Connections, Refused, ResponseBytes, CatalogRequests, CatalogBytes, NotModified, Cache,
	)
}

// Stored notes the size of what is stored of a catalog.
func Stored(catalog string, bytes int64, blobs int) {
	StoredBytes.WithLabelValues(catalog).Set(float64(bytes))
	StoredBlobs.WithLabelValues(catalog).Set(float64(blobs))
}

// Forget ends the measurements of a catalog that is not stored any more.
func Forget(catalog string) {
	for _, vector := range []*prometheus.MetricVec{StoredBytes.MetricVec, StoredBlobs.MetricVec, CatalogRequests.MetricVec, CatalogBytes.MetricVec} {
		vector.DeleteLabelValues(catalog)
	}
}

// Found counts a lookup in a cache.
func Found(cache string, hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	Cache.WithLabelValues(cache, result).Inc()
}
