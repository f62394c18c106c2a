package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metrics are what the handler measures.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
}

// sharedMetrics are registered once for the process, as controller-runtime's registry
// is.
var sharedMetrics = newMetrics(crmetrics.Registry)

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mainstay_catalog_http_requests_total",
			Help: "Requests for catalog content, by endpoint, method and status code.",
		}, []string{"endpoint", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mainstay_catalog_http_request_duration_seconds",
			Help: "Time to answer a request for catalog content, until its last byte was sent.",
			// A query takes about a millisecond, a whole catalog seconds.
			Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60},
		}, []string{"endpoint"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mainstay_catalog_http_response_bytes_total",
			Help: "Bytes of catalog content sent, after compression.",
		}, []string{"endpoint"}),
	}
	registry.MustRegister(m.requests, m.seconds, m.bytes)
	return m
}

// measured counts the answers of a handler and lets pass the methods of the contract.
func (h *handler) measured(endpoint string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		counted := &countingWriter{ResponseWriter: w, code: http.StatusOK}
		// Also when the handler breaks the connection.
		defer func() {
			h.metrics.requests.WithLabelValues(endpoint, methodLabel(r.Method), strconv.Itoa(counted.code)).Inc()
			h.metrics.seconds.WithLabelValues(endpoint).Observe(time.Since(start).Seconds())
			h.metrics.bytes.WithLabelValues(endpoint).Add(float64(counted.bytes))
		}()
		if methods(counted, r) {
			next(counted, r)
		}
	})
}

// methodLabel bounds the values of the label: a client can send any method.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return method
	default:
		return "other"
	}
}

// countingWriter remembers what was answered.
type countingWriter struct {
	http.ResponseWriter
	code  int
	bytes int64
}

func (c *countingWriter) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (c *countingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
