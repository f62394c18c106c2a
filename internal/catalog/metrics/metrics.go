// Package metrics contains the metrics of catalogd. Register adds them to the registry of
// controller-runtime.
//
// The cardinality of labels is limited: their values are constants and the names of stored catalogs. Input
// of clients is never used as a label value.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metrics of storing catalogs.
var (
	// UnpackSeconds is the duration of pulling and storing a catalog, by outcome: stored, content (the
	// image is invalid) or unavailable.
	UnpackSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mainstay_catalog_unpack_duration_seconds",
		Help: "Time to pull a catalog image and store its content, by outcome.",
		// The buckets cover a small catalog in a nearby registry up to a large one over a slow network.
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300, 1800},
	}, []string{"outcome"})
	// StoredBytes and StoredBlobs are the size of the stored content of each catalog.
	StoredBytes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mainstay_catalog_stored_bytes",
		Help: "Size of a catalog's stored content, as JSON lines.",
	}, []string{"catalog"})
	StoredBlobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mainstay_catalog_stored_blobs",
		Help: "Number of blobs of a catalog's stored content.",
	}, []string{"catalog"})
)

// Metrics of requests.
var (
	// Requests counts responses by endpoint (all, metas, graph or other), method and code.
	Requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_requests_total",
		Help: "Requests for catalog content, by endpoint, method and status code.",
	}, []string{"endpoint", "method", "code"})
	// RequestSeconds is the duration of requests.
	RequestSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mainstay_catalog_http_request_duration_seconds",
		Help: "Time to answer a request for catalog content, until its last byte was sent.",
		// A query takes less than a millisecond, a whole catalog several seconds.
		Buckets: []float64{0.0002, 0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60},
	}, []string{"endpoint"})
	// InFlight is the number of requests in progress.
	InFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mainstay_catalog_http_requests_in_flight",
		Help: "Requests for catalog content that are being answered.",
	})
	// Connections is the number of open connections.
	Connections = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mainstay_catalog_http_connections",
		Help: "Open connections of clients of catalog content.",
	})
	// Refused counts connections and requests that were rejected because of a limit, of a client or of all
	// clients.
	Refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_refused_total",
		Help: "Connections and requests refused because a limit was reached, by limit.",
	}, []string{"limit"})
	// ResponseBytes counts the sent bytes by endpoint.
	ResponseBytes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_response_bytes_total",
		Help: "Bytes of catalog content sent, after compression.",
	}, []string{"endpoint"})
	// CatalogRequests and CatalogBytes count requests and bytes by catalog. Unlike the other metrics, they
	// only include requests for served catalogs.
	CatalogRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_requests_total",
		Help: "Requests for the content of a catalog, by catalog.",
	}, []string{"catalog"})
	CatalogBytes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_response_bytes_total",
		Help: "Bytes sent of the content of a catalog, after compression, by catalog.",
	}, []string{"catalog"})
	// NotModified counts responses with status 304 by endpoint.
	NotModified = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_http_not_modified_total",
		Help: "Requests of clients that had the content already, by endpoint.",
	}, []string{"endpoint"})
	// Cache counts cache lookups. The cache kept contains the compressed forms of whole catalogs on disk;
	// the cache made contains generated responses in memory.
	Cache = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mainstay_catalog_cache_lookups_total",
		Help: "Lookups of answers that were made before, by cache and result.",
	}, []string{"cache", "result"})
)

// Register registers the metrics. catalogd calls it when it starts, so that other servers do not export them.
// Further calls have no effect.
var Register = sync.OnceFunc(func() {
	crmetrics.Registry.MustRegister(
		UnpackSeconds, StoredBytes, StoredBlobs,
		Requests, RequestSeconds, InFlight, Connections, Refused, ResponseBytes, CatalogRequests, CatalogBytes, NotModified, Cache,
	)
})

// RecordStored sets the metrics of the stored content of a catalog.
func RecordStored(catalog string, bytes int64, blobs int) {
	StoredBytes.WithLabelValues(catalog).Set(float64(bytes))
	StoredBlobs.WithLabelValues(catalog).Set(float64(blobs))
}

// ForgetCatalog deletes the metrics of a catalog that is no longer stored.
func ForgetCatalog(catalog string) {
	for _, vector := range []*prometheus.MetricVec{StoredBytes.MetricVec, StoredBlobs.MetricVec, CatalogRequests.MetricVec, CatalogBytes.MetricVec} {
		vector.DeleteLabelValues(catalog)
	}
}

// RecordCacheLookup counts a cache lookup.
func RecordCacheLookup(cache string, hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	Cache.WithLabelValues(cache, result).Inc()
}
