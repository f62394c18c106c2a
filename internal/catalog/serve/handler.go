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

// contents is where the handler reads: a *catalogstore.Store, or what knows more than one.
type contents interface {
	// Content returns the content of a catalog, or catalogstore.ErrNotFound, or ErrComing, or an
	// error that may go away.
	Content(name string) (*catalogstore.Content, error)
}

// ErrComing says that there is content of a catalog, which this server does not have yet.
var ErrComing = errors.New("the content of the catalog is on its way")

const (
	// typeJSONLines is the content type of every body that has blobs.
	typeJSONLines = "application/jsonl"
	// damagedSeconds is the pause, in seconds, that clients are asked for while damaged
	// content is unpacked again.
	damagedSeconds = "5"
)

// handler answers the contract.
type handler struct {
	contents contents
	log      logr.Logger
	gate     *httpserver.Gate
	cache    *cache
	stall    time.Duration
}

// NewHandler makes the handler of the contract.
func NewHandler(contents contents, limits Limits, log logr.Logger) http.Handler {
	return newHandler(contents, limits, log, stall)
}

func newHandler(contents contents, limits Limits, log logr.Logger, stall time.Duration) http.Handler {
	h := &handler{contents: contents, log: log, gate: httpserver.NewGate(limits.Or(defaultLimits), observer), cache: newCache(cacheBytes), stall: stall}
	mux := http.NewServeMux()
	mux.Handle("/catalogs/{catalog}/api/v1/all", h.answering("all", h.all))
	mux.Handle("/catalogs/{catalog}/api/v1/metas", h.answering("metas", h.metas))
	mux.Handle("/catalogs/{catalog}/api/v1/graph", h.answering("graph", h.graph))
	mux.Handle("/", h.answering("other", func(w *response, _ *http.Request) {
		fail(w, http.StatusNotFound, "no such path: ask for /catalogs/<name>/api/v1/all, /catalogs/<name>/api/v1/metas or /catalogs/<name>/api/v1/graph")
	}))

	return mux
}

// answering lets pass what the contract and the limits allow, and measures it.
func (h *handler) answering(endpoint string, next func(*response, *http.Request)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := time.Now()
		w := &response{ResponseWriter: rw, control: http.NewResponseController(rw), stall: h.stall, cork: corkOf(r.Context()), code: http.StatusOK}
		// An answer without a body has a time limit, too.
		_ = w.patience() // If the connection is broken, writing says so.
		// Also when a handler panics.
		defer func() { measure(endpoint, r.Method, w, time.Since(start)) }()
		h.limited(w, r, next)
		w.end()
		if w.err != nil {
			h.log.V(1).Info("Sending a catalog was cut off", "catalog", w.catalog, "endpoint", endpoint, "error", w.err.Error())
			// The status is sent: only a broken connection tells the client that the body is
			// not complete. This value is how net/http is told to break it.
			panic(http.ErrAbortHandler)
		}
	})
}

// limited answers a request, unless too many others are being answered.
func (h *handler) limited(w *response, r *http.Request, next func(*response, *http.Request)) {
	leave, code := h.gate.Enter(r)
	if code != 0 {
		w.Header().Set("Retry-After", httpserver.RetryAfterSeconds)
		fail(w, code, httpserver.TooManyRequests)
		return
	}

	defer leave()
	if methods(w, r) {
		next(w, r)
	}
}

func measure(endpoint, method string, w *response, took time.Duration) {
	metrics.Requests.WithLabelValues(endpoint, methodLabel(method), strconv.Itoa(w.code)).Inc()
	metrics.RequestSeconds.WithLabelValues(endpoint).Observe(took.Seconds())
	metrics.ResponseBytes.WithLabelValues(endpoint).Add(float64(w.bytes))
	if w.code == http.StatusNotModified {
		metrics.NotModified.WithLabelValues(endpoint).Inc()
	}
	if w.catalog != "" {
		metrics.CatalogRequests.WithLabelValues(w.catalog).Inc()
		metrics.CatalogBytes.WithLabelValues(w.catalog).Add(float64(w.bytes))
	}
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

// open opens the content that a request asks for, or refuses the request.
func (h *handler) open(w *response, r *http.Request) (*catalogstore.Content, bool) {
	name := r.PathValue("catalog")
	content, err := h.contents.Content(name)
	if errors.Is(err, catalogstore.ErrNotFound) {
		fail(w, http.StatusNotFound, fmt.Sprintf("catalog %.253q is not served here: see the conditions of the ClusterCatalog of that name", name))
		return nil, false
	}

	if errors.Is(err, ErrComing) {
		w.Header().Set("Retry-After", httpserver.RetryAfterSeconds)
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("the content of catalog %.253q is on its way: try again in %s second", name, httpserver.RetryAfterSeconds))
		return nil, false
	}

	w.catalog = name
	if err != nil {
		h.refuse(w, err)
		return nil, false
	}

	return content, true
}

// refuse answers with an error, before anything else was sent.
func (h *handler) refuse(w *response, err error) {
	header := w.Header()
	for _, name := range []string{"Last-Modified", "ETag", "Content-Encoding"} {
		header.Del(name)
	}

	var graph *graphError
	if errors.As(err, &graph) {
		fail(w, graph.code, graph.text)
		return
	}

	h.log.Error(err, "Stored content cannot be served", "catalog", w.catalog)
	header.Set("Retry-After", damagedSeconds)
	fail(w, http.StatusServiceUnavailable, fmt.Sprintf("the stored content of catalog %q cannot be read and is unpacked again: try again in %s seconds", w.catalog, damagedSeconds))
}

// all answers with every blob.
func (h *handler) all(w *response, r *http.Request) {
	content, ok := h.open(w, r)
	if !ok {
		return
	}

	defer content.Close()
	b := bodyOf(content.All())
	b.kept = content.Compressed
	h.give(w, r, b)
}

// metas answers with the blobs that match the query, or the parts of them that are wanted.
func (h *handler) metas(w *response, r *http.Request) {
	query, wanted, err := metasQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}

	content, ok := h.open(w, r)
	if !ok {
		return
	}

	defer content.Close()
	b := bodyOf(content.Select(query))
	if wanted != nil {
		b = body{
			sum: derived("fields/1", b.sum, wanted.String()), contentType: b.contentType, modified: b.modified, size: -1,
			write: func(out io.Writer) error { return project(out, content, query, wanted) },
		}
	}

	h.give(w, r, b)
}

// bodyOf makes the body of blobs as they are stored.
func bodyOf(s catalogstore.Selection) body {
	return body{
		sum: s.Sum, contentType: typeJSONLines, modified: s.Modified, size: s.Bytes,
		read: func() io.ReadSeeker { return s.Reader() },
		write: func(out io.Writer) error {
			buffer := chunks.Get().(*[chunkBytes]byte)
			defer chunks.Put(buffer)
			// The structs hide what would make io.CopyBuffer use another way than the buffer.
			_, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{s.Reader()}, buffer[:])
			return err
		},
	}
}

// derived names what is made of a body in a way that is called by its first word, and by
// its second as it may change from version to version of this program.
func derived(way, sum string, how ...string) string {
	of := sha256.Sum256([]byte(way + "\n" + sum + "\n" + strings.Join(how, "\n")))
	return hex.EncodeToString(of[:16])
}

// project writes the parts of blobs that are wanted.
func project(out io.Writer, content *catalogstore.Content, query catalogstore.Query, wanted *fields.Fields) error {
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

// fail answers with an error as plain text.
func fail(w http.ResponseWriter, code int, text string) { http.Error(w, text, code) }

// allowed are the methods that the contract knows.
var allowed = []string{http.MethodGet, http.MethodHead}

// methods lets pass what the contract knows.
func methods(w http.ResponseWriter, r *http.Request) bool {
	if slices.Contains(allowed, r.Method) {
		return true
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	fail(w, http.StatusMethodNotAllowed, "content is read with GET or HEAD")
	return false
}
