package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/catalog/store"
)

// contents is where the handler reads: a *store.Store.
type contents interface {
	// Content gives the content of a catalog, or store.ErrNotFound, or an error that may
	// go away.
	Content(name string) (*store.Content, error)
}

const (
	// contentType is that of every body that has blobs.
	contentType = "application/jsonl"
	// stall is how long a client may take to accept one chunk. A client that reads
	// slowly but steadily is served to the end: 64 KiB in 30 seconds is 2 KiB/s.
	stall = 30 * time.Second
	// chunkBytes is how much is read from disk at once.
	chunkBytes = 64 << 10
	// retryAfter is the pause, in seconds, that clients are asked for while damaged
	// content is unpacked again.
	retryAfter = "5"
)

// handler answers the contract.
type handler struct {
	contents contents
	log      logr.Logger
	metrics  *metrics
	gzip     *gzipPool
}

// NewHandler makes the handler of the contract.
func NewHandler(contents contents, log logr.Logger) http.Handler {
	h := &handler{contents: contents, log: log, metrics: sharedMetrics, gzip: newGzipPool()}
	mux := http.NewServeMux()
	mux.Handle("/catalogs/{catalog}/api/v1/all", h.measured("all", h.all))
	mux.Handle("/catalogs/{catalog}/api/v1/metas", h.measured("metas", h.metas))
	mux.Handle("/", h.measured("other", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "no such path: ask for /catalogs/<name>/api/v1/all or /catalogs/<name>/api/v1/metas")
	}))
	return mux
}

// all answers with every blob.
func (h *handler) all(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, (*store.Content).All)
}

// metas answers with the blobs that match the query.
func (h *handler) metas(w http.ResponseWriter, r *http.Request) {
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	h.answer(w, r, func(c *store.Content) store.Selection { return c.Select(query) })
}

// parseQuery reads the parameters of a query for metas. An empty one asks for nothing.
func parseQuery(raw string) (store.Query, error) {
	const known = "schema, package and name"
	values, err := url.ParseQuery(raw)
	if err != nil {
		return store.Query{}, errors.New("the query cannot be read: escape its parameters as in a URL")
	}
	var query store.Query
	for key, given := range values {
		field := map[string]*string{"schema": &query.Schema, "package": &query.Package, "name": &query.Name}[key]
		if field == nil {
			return store.Query{}, fmt.Errorf("unknown parameter %.100q: the parameters are %s", key, known)
		}
		if len(given) > 1 {
			return store.Query{}, fmt.Errorf("the parameter %s is given %d times: give each of %s at most once", key, len(given), known)
		}
		*field = given[0]
	}
	return query, nil
}

// answer answers a request with a selection of the catalog's content.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, choose func(*store.Content) store.Selection) {
	name := r.PathValue("catalog")
	content, err := h.contents.Content(name)
	if err != nil {
		h.refuse(w, name, err)
		return
	}
	defer content.Close()
	selection := choose(content)
	compress := selection.Bytes > gzipFrom && acceptsGzip(r.Header)

	header := w.Header()
	etag := entityTag(selection.Sum, compress)
	header.Set("Content-Type", contentType)
	header.Set("Last-Modified", selection.Modified.UTC().Format(http.TimeFormat))
	header.Set("ETag", etag)
	// Content may change at any time, and asking whether it did is cheap.
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept-Encoding")
	if notModified(r.Header, etag, selection.Modified) {
		header.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if compress {
		header.Set("Content-Encoding", "gzip")
	} else {
		header.Set("Content-Length", strconv.FormatInt(selection.Bytes, 10))
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	if err := h.send(w, selection.Reader(), compress); err != nil {
		h.log.V(1).Info("Sending a catalog was cut off", "catalog", name, "error", err.Error())
		// The status is sent: only a broken connection tells the client that the body is
		// not complete. This value is how net/http is told to break it.
		panic(http.ErrAbortHandler)
	}
}

// refuse answers a request for content that cannot be given.
func (h *handler) refuse(w http.ResponseWriter, name string, err error) {
	if errors.Is(err, store.ErrNotFound) {
		fail(w, http.StatusNotFound, fmt.Sprintf("catalog %.253q is not served here: see the conditions of the ClusterCatalog of that name", name))
		return
	}
	h.log.Error(err, "Stored content cannot be served", "catalog", name)
	w.Header().Set("Retry-After", retryAfter)
	fail(w, http.StatusServiceUnavailable, fmt.Sprintf("the stored content of catalog %q cannot be read and is unpacked again: try again in %s seconds", name, retryAfter))
}

// send copies the body, compressed if asked for. Each chunk has its own time limit.
func (h *handler) send(w http.ResponseWriter, body io.Reader, compress bool) (err error) {
	out := io.Writer(&pacedWriter{w: w, control: http.NewResponseController(w)})
	if compress {
		z := h.gzip.get(out)
		defer func() {
			if cerr := z.Close(); err == nil {
				err = cerr
			}
			h.gzip.put(z)
		}()
		out = z
	}
	// The struct hides what would make io.CopyBuffer use another way than the buffer.
	_, err = io.CopyBuffer(out, struct{ io.Reader }{body}, make([]byte, chunkBytes))
	return err
}

// pacedWriter gives each write a time limit of its own.
type pacedWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.w.Write(b)
}

// fail answers with an error as plain text.
func fail(w http.ResponseWriter, code int, text string) {
	http.Error(w, text, code)
}

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
