package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

// contentSource provides the content of catalogs. *catalogstore.Store implements it.
type contentSource interface {
	// Content returns the content of a catalog. It returns catalogstore.ErrNotFound, ErrContentPending, or a
	// temporary error.
	Content(name string) (*catalogstore.Content, error)
}

// ErrContentPending is returned for a catalog whose content exists but is not available on this replica yet.
var ErrContentPending = errors.New("the content of the catalog is not available yet")

const (
	// contentTypeJSONLines is the content type of bodies with blobs.
	contentTypeJSONLines = "application/jsonl"
	// damagedRetryAfterSeconds is the value of Retry-After while damaged content is unpacked again, in
	// seconds.
	damagedRetryAfterSeconds = "5"
)

// handler implements the HTTP API of catalogs.
type handler struct {
	contents     contentSource
	log          logr.Logger
	gate         *httpserver.Gate
	cache        *responseCache
	chunkTimeout time.Duration
}

// NewHandler returns the handler of the HTTP API of catalogs.
func NewHandler(contents contentSource, limits Limits, log logr.Logger) http.Handler {
	return newHandler(contents, limits, log, chunkTimeout)
}

func newHandler(contents contentSource, limits Limits, log logr.Logger, stall time.Duration) http.Handler {
	h := &handler{contents: contents, log: log, gate: httpserver.NewGate(limits.WithDefaults(defaultLimits), observer), cache: newResponseCache(maxCacheBytes), chunkTimeout: stall}
	mux := http.NewServeMux()
	mux.Handle("/catalogs/{catalog}/api/v1/all", h.newEndpoint("all", h.serveAll))
	mux.Handle("/catalogs/{catalog}/api/v1/metas", h.newEndpoint("metas", h.serveMetas))
	mux.Handle("/catalogs/{catalog}/api/v1/graph", h.newEndpoint("graph", h.serveGraph))
	mux.Handle("/", h.newEndpoint("other", func(w *responseWriter, _ *http.Request) {
		writeError(w, http.StatusNotFound, "no such path: ask for /catalogs/<name>/api/v1/all, /catalogs/<name>/api/v1/metas or /catalogs/<name>/api/v1/graph")
	}))

	return mux
}

// newEndpoint wraps the handler of an endpoint with limits, method checks, write timeouts and metrics.
func (h *handler) newEndpoint(endpoint string, next func(*responseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := time.Now()
		w := &responseWriter{ResponseWriter: rw, control: http.NewResponseController(rw), chunkTimeout: h.chunkTimeout, cork: corkFromContext(r.Context()), statusCode: http.StatusOK}
		// A response without a body has a write timeout, too.
		_ = w.extendWriteDeadline() // If the connection is broken, writing fails.
		// Metrics are also recorded if a handler panics.
		defer func() { recordMetrics(endpoint, r.Method, w, time.Since(start)) }()
		h.serveWithinLimits(w, r, next)
		w.finishResponse()
		if w.err != nil {
			h.log.V(1).Info("Response with catalog content was not completed", "catalog", w.catalog, "endpoint", endpoint, "error", w.err.Error())
			// The status was already sent, so only an aborted connection tells the client that the body
			// is incomplete. net/http aborts the connection for this value.
			panic(http.ErrAbortHandler)
		}
	})
}

// serveWithinLimits serves a request, or rejects it if a request limit is reached.
func (h *handler) serveWithinLimits(w *responseWriter, r *http.Request, next func(*responseWriter, *http.Request)) {
	leave, code := h.gate.Enter(r)
	if code != 0 {
		w.Header().Set("Retry-After", httpserver.RetryAfterSeconds)
		writeError(w, code, httpserver.TooManyRequests)
		return
	}
	defer leave()
	if checkMethod(w, r) {
		next(w, r)
	}
}

func recordMetrics(endpoint, method string, w *responseWriter, took time.Duration) {
	metrics.Requests.WithLabelValues(endpoint, methodLabel(method), strconv.Itoa(w.statusCode)).Inc()
	metrics.RequestSeconds.WithLabelValues(endpoint).Observe(took.Seconds())
	metrics.ResponseBytes.WithLabelValues(endpoint).Add(float64(w.bytes))
	if w.statusCode == http.StatusNotModified {
		metrics.NotModified.WithLabelValues(endpoint).Inc()
	}
	if w.catalog != "" {
		metrics.CatalogRequests.WithLabelValues(w.catalog).Inc()
		metrics.CatalogBytes.WithLabelValues(w.catalog).Add(float64(w.bytes))
	}
}

// methodLabel limits the values of the metric label, because a client can send any method.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return method
	default:
		return "other"
	}
}

// openContent opens the content of the catalog in the request path. If there is none, it writes an error and
// returns false.
func (h *handler) openContent(w *responseWriter, r *http.Request) (*catalogstore.Content, bool) {
	name := r.PathValue("catalog")
	content, err := h.contents.Content(name)
	if errors.Is(err, catalogstore.ErrNotFound) {
		writeError(w, http.StatusNotFound, fmt.Sprintf("catalog %.253q is not served here: see the conditions of the ClusterCatalog of that name", name))
		return nil, false
	}

	if errors.Is(err, ErrContentPending) {
		w.Header().Set("Retry-After", httpserver.RetryAfterSeconds)
		writeError(w, http.StatusServiceUnavailable, fmt.Sprintf("the content of catalog %.253q is not available yet: try again in %s second", name, httpserver.RetryAfterSeconds))
		return nil, false
	}

	w.catalog = name
	if err != nil {
		h.serveError(w, err)
		return nil, false
	}

	return content, true
}

// serveError writes an error response. Nothing must have been sent before.
func (h *handler) serveError(w *responseWriter, err error) {
	header := w.Header()
	for _, name := range []string{"Last-Modified", "ETag", "Content-Encoding"} {
		header.Del(name)
	}

	var graph *graphError
	if errors.As(err, &graph) {
		writeError(w, graph.statusCode, graph.text)
		return
	}

	h.log.Error(err, "Stored content cannot be served", "catalog", w.catalog)
	header.Set("Retry-After", damagedRetryAfterSeconds)
	writeError(w, http.StatusServiceUnavailable, fmt.Sprintf("the stored content of catalog %q cannot be read and is being unpacked again: try again in %s seconds", w.catalog, damagedRetryAfterSeconds))
}

// serveAll serves all blobs.
func (h *handler) serveAll(w *responseWriter, r *http.Request) {
	content, ok := h.openContent(w, r)
	if !ok {
		return
	}
	defer content.Close()
	b := newSelectionBody(content.All())
	b.compressed = content.Compressed
	h.serveBody(w, r, b)
}

// serveMetas serves the blobs that match the query, or the requested fields of them.
func (h *handler) serveMetas(w *responseWriter, r *http.Request) {
	query, wanted, err := parseMetasQuery(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}

	content, ok := h.openContent(w, r)
	if !ok {
		return
	}
	defer content.Close()
	b := newSelectionBody(content.Select(query))
	if wanted != nil {
		b = responseBody{
			sum: deriveSum("fields/1", b.sum, wanted.String()), contentType: b.contentType, modified: b.modified, size: -1,
			writeTo: func(out io.Writer) error { return writeFields(out, content, query, wanted) },
		}
	}

	h.serveBody(w, r, b)
}

// newSelectionBody returns the body of a selection of stored blobs.
func newSelectionBody(s catalogstore.Selection) responseBody {
	return responseBody{
		sum: s.Sum, contentType: contentTypeJSONLines, modified: s.Modified, size: s.Bytes,
		newReader: func() io.ReadSeeker { return s.Reader() },
		writeTo: func(out io.Writer) error {
			buffer := chunkPool.Get().(*[chunkSize]byte)
			defer chunkPool.Put(buffer)
			// The structs hide ReaderFrom and WriterTo, so that io.CopyBuffer uses the buffer.
			_, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{s.Reader()}, buffer[:])
			return err
		},
	}
}

// deriveSum returns the checksum of a body that is generated from the body with checksum sum. The argument
// way is the name and version of the generator, and how are its parameters.
func deriveSum(way, sum string, how ...string) string {
	derived := sha256.Sum256([]byte(way + "\n" + sum + "\n" + strings.Join(how, "\n")))
	return hex.EncodeToString(derived[:16])
}

// writeFields writes the wanted fields of the blobs that match a query.
func writeFields(out io.Writer, content *catalogstore.Content, query catalogstore.Query, wanted *fields.Fields) error {
	var line []byte
	for meta, err := range content.Scan(query) {
		if err != nil {
			return err
		}
		line = append(wanted.Append(line[:0], meta.Blob), '\n')
		if _, err := out.Write(line); err != nil {
			return err
		}
	}

	return nil
}

// writeError writes an error response as plain text.
func writeError(w http.ResponseWriter, code int, text string) { http.Error(w, text, code) }

// allowedMethods are the supported HTTP methods.
var allowedMethods = []string{http.MethodGet, http.MethodHead}

// checkMethod reports whether the method of a request is supported. If not, it writes an error response.
func checkMethod(w http.ResponseWriter, r *http.Request) bool {
	if slices.Contains(allowedMethods, r.Method) {
		return true
	}
	w.Header().Set("Allow", strings.Join(allowedMethods, ", "))
	writeError(w, http.StatusMethodNotAllowed, "method not allowed: use GET or HEAD")
	return false
}
