package catalogclient_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogclient"
	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// recordingServer records its requests.
type recordingServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
	bytes    atomic.Int64
}

func newRecordingServer(t *testing.T, handler http.Handler) *recordingServer {
	t.Helper()
	r := &recordingServer{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, req.URL.RawQuery)
		r.mu.Unlock()
		handler.ServeHTTP(&countingWriter{w, &r.bytes}, req)
	}))

	t.Cleanup(r.Close)

	return r
}

type countingWriter struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// takeQueries returns the queries since the last call.
func (r *recordingServer) takeQueries() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.requests
	r.requests = nil
	return list
}

func (r *recordingServer) rootCAs(context.Context) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	return pool, nil
}

// newCatalogHandler returns the catalog server of this project, with a catalog of package a that
// has a large icon.
func newCatalogHandler(t *testing.T) http.Handler {
	t.Helper()
	store, err := catalogstore.Open(t.TempDir(), catalogstore.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(store.Close)
	icon := strings.Replace(lineA, `"name"`, `"icon":{"base64data":"`+strings.Repeat("AAAA", 5000)+`","mediatype":"image/png"},"name"`, 1)
	_, err = store.Unpack(t.Context(), "c", catalogstore.Source{}, fstest.MapFS{"a.json": {Data: []byte(icon + lineChannel + lineBundle)}})
	if err != nil {
		t.Fatal(err)
	}

	return serve.NewHandler(store, serve.Limits{}, logr.Discard())
}

func parseFields(t *testing.T, text string) *fields.Fields {
	t.Helper()
	f, err := fields.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const unwanted = "-icon,-properties[olm.bundle.object]"

func TestOnlyRequestedFieldsAreSent(t *testing.T) {
	s := newRecordingServer(t, newCatalogHandler(t))
	c := catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs, Fields: parseFields(t, unwanted)})
	for range 2 {
		content, err := c.Content(t.Context(), s.URL+"/catalogs/c", "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := summarizeContent(content); got != "package a;channel stable;bundle a.v1 with 1 properties;" || content.Package.Icon != nil {
			t.Errorf("got content %s with the icon %v, want one bundle and no icon", got, content.Package.Icon)
		}
	}

	escaped := url.QueryEscape(unwanted)
	if diff := cmp.Diff(slices.Repeat([]string{"fields=" + escaped + "&package=a", "fields=" + escaped + "&name=a&schema=olm.package"}, 2), s.takeQueries()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if bytes := s.bytes.Load(); bytes > 600 {
		t.Errorf("got %d sent bytes, want at most 600", bytes)
	}

	all := 0
	for meta, err := range c.All(t.Context(), s.URL+"/catalogs/c") {
		if err != nil {
			t.Fatal(err)
		}
		all += len(meta.Blob)
	}

	if all < 20_000 {
		t.Errorf("got %d bytes of all blobs, want at least 20000 with the omitted fields", all)
	}
}

// TestServersThatDoNotKnowFields has a server that rejects the parameter fields, as the API
// defines for unknown parameters, until it is updated.
func TestServersThatDoNotKnowFields(t *testing.T) {
	var updated atomic.Bool
	inner := newCatalogHandler(t)
	s := newRecordingServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("fields") && !updated.Load() {
			http.Error(w, "unknown parameter", http.StatusBadRequest)
			return
		}
		inner.ServeHTTP(w, r)
	}))

	c := catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs, Fields: parseFields(t, unwanted)})
	now := time.Now()
	catalogclient.SetNow(c, func() time.Time { return now })
	expectReduced := func(what string, want ...string) {
		t.Helper()
		content, err := c.Content(t.Context(), s.URL+"/catalogs/c", "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := summarizeContent(content); got != "package a;channel stable;bundle a.v1 with 1 properties;" || content.Package.Icon != nil {
			t.Errorf("%s: got content %s with icon %v, want one bundle and no icon", what, got, content.Package.Icon)
		}
		if diff := cmp.Diff(want, s.takeQueries()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
	}

	with := "fields=" + url.QueryEscape(unwanted) + "&"
	expectReduced("at first", with+"package=a", "package=a", "name=a&schema=olm.package")
	expectReduced("again", "package=a", "name=a&schema=olm.package")
	updated.Store(true)
	now = now.Add(11 * time.Minute)
	expectReduced("after a while", with+"package=a", with+"name=a&schema=olm.package")
}

func TestAnswersAreDecompressed(t *testing.T) {
	text := lineChannel + lineBundle
	write := func(w http.ResponseWriter, encoding, text string) {
		var z io.WriteCloser
		switch encoding {
		case "gzip":
			z = gzip.NewWriter(w)
		case "zstd":
			z, _ = zstd.NewWriter(w)
		}
		_, _ = io.WriteString(z, text)
		_ = z.Close()
	}

	bomb := strings.Repeat(" ", 1<<20)
	for name, test := range map[string]struct {
		encoding string
		answer   func(w http.ResponseWriter)
		want     string
	}{
		"gzip":     {"gzip", func(w http.ResponseWriter) { write(w, "gzip", text) }, ""},
		"zstd":     {"zstd", func(w http.ResponseWriter) { write(w, "zstd", text) }, ""},
		"identity": {"identity", func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }, ""},
		"not gzip": {"gzip", func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }, "decompressing the response: gzip: invalid header"},
		"not zstd": {"zstd", func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }, "magic number mismatch"},
		"unknown":  {"br", func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }, `the response is encoded in "br", which was not requested`},
		"a large window": {"zstd", func(w http.ResponseWriter) {
			z, _ := zstd.NewWriter(w, zstd.WithWindowSize(16<<20))
			_, _ = io.WriteString(z, strings.Repeat(" ", 10_000))
			_ = z.Flush() // The output is now a stream, whose window does not depend on the size of its content.
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		}, "window size exceeded"},
		"a bomb in gzip": {"gzip", func(w http.ResponseWriter) { write(w, "gzip", bomb) }, "it is larger than 100000 bytes"},
		"a bomb in zstd": {"zstd", func(w http.ResponseWriter) { write(w, "zstd", bomb) }, "it is larger than 100000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRecordingServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != "zstd, gzip" {
					t.Errorf("got Accept-Encoding %q, want zstd, gzip", got)
				}
				if r.URL.Query().Has("schema") {
					_, _ = io.WriteString(w, lineA)
					return
				}
				w.Header().Set("Content-Encoding", test.encoding)
				test.answer(w)
			}))
			content, err := newImpatientClient(catalogclient.Options{RootCAs: s.rootCAs, MaxBytes: 100_000}).Content(t.Context(), s.URL, "a")
			switch {
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error is %v, want %q", err, test.want)
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "" && summarizeContent(content) != wholeA:
				t.Errorf("got content %s, want %s", summarizeContent(content), wholeA)
			}
		})
	}
}

// TestServersWithoutTags has a server that only sends Last-Modified.
func TestServersWithoutTags(t *testing.T) {
	modified := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		sent time.Time
		same int32
	}{
		"long ago":           {modified.Add(time.Hour), 4},
		"a second ago":       {modified.Add(time.Second), 4},
		"in the same second": {modified, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var same atomic.Int32
			s := newRecordingServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Last-Modified", modified.Format(http.TimeFormat))
				w.Header().Set("Date", test.sent.Format(http.TimeFormat))
				if r.Header.Get("If-Modified-Since") == modified.Format(http.TimeFormat) {
					same.Add(1)
					w.WriteHeader(http.StatusNotModified)
					return
				}
				if r.URL.Query().Has("schema") {
					_, _ = io.WriteString(w, lineA)
				} else {
					_, _ = io.WriteString(w, lineChannel+lineBundle)
				}
			}))

			c := catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs})
			for range 3 {
				checkContent(t, c, s.URL, "a", wholeA)
			}

			if same.Load() != test.same {
				t.Errorf("got %d responses without a body, want %d", same.Load(), test.same)
			}
		})
	}
}

func TestTransientFailuresAreRetried(t *testing.T) {
	gone := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	code := func(code int, headers ...string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for _, header := range headers {
				name, value, _ := strings.Cut(header, ": ")
				w.Header().Set(name, value)
			}
			http.Error(w, "not now", code)
		}
	}

	cut := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, lineChannel)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		fail  func(w http.ResponseWriter)
		times int
		// pauses are the delays of the client; 0 is a delay that the client chooses.
		pauses []time.Duration
		works  bool
	}{
		"connection broken once":    {gone, 1, []time.Duration{0}, true},
		"connection broken thrice":  {gone, 3, []time.Duration{0, 0}, false},
		"body cut off":              {cut, 2, []time.Duration{0, 0}, true},
		"unavailable":               {code(503), 2, []time.Duration{0, 0}, true},
		"unavailable, with a time":  {code(503, "Retry-After: 2"), 1, []time.Duration{2 * time.Second}, true},
		"unavailable for long":      {code(503, "Retry-After: 99999999999"), 1, []time.Duration{5 * time.Second}, true},
		"unavailable for an hour":   {code(503, "Retry-After: 3600"), 1, []time.Duration{5 * time.Second}, true},
		"until a time":              {code(429, "Retry-After: "+now.Add(3*time.Second).Format(http.TimeFormat)), 1, []time.Duration{3 * time.Second}, true},
		"until a time that is over": {code(429, "Retry-After: "+now.Add(-time.Hour).Format(http.TimeFormat)), 1, []time.Duration{0}, true},
		"bad gateway":               {code(502), 1, []time.Duration{0}, true},
		"not found":                 {code(404), 1, nil, false},
		"server error":              {code(500), 1, nil, false},
		"wrong content":             {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "{") }, 1, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, all := range []bool{false, true} {
				var failed atomic.Int32
				s := newRecordingServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case int(failed.Add(1)) <= test.times:
						test.fail(w)
					case r.URL.Query().Has("schema"):
						_, _ = io.WriteString(w, lineA)
					default:
						_, _ = io.WriteString(w, lineChannel+lineBundle)
					}
				}))
				c := catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs})
				catalogclient.SetNow(c, func() time.Time { return now })
				var pauses []time.Duration
				catalogclient.SetPause(c, func(_ context.Context, d time.Duration) error {
					if d%time.Second != 0 {
						d = 0
					}
					pauses = append(pauses, d)
					return nil
				})
				var err error
				if all && name == "body cut off" {
					continue // Yielded bundles cannot be retracted.
				}
				if all {
					for _, err = range c.All(t.Context(), s.URL) {
					}
				} else {
					_, err = c.Content(t.Context(), s.URL, "a")
				}
				if (err == nil) != test.works {
					t.Errorf("all is %v: got error %v, want success %v", all, err, test.works)
				}
				if diff := cmp.Diff(test.pauses, pauses); diff != "" {
					t.Errorf("all is %v: pauses (-want +got):\n%s", all, diff)
				}
			}
		})
	}
}

// TestRetriesEndWithTheContext cancels the context while the client waits.
func TestRetriesEndWithTheContext(t *testing.T) {
	s := newRecordingServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	c := catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs})
	inner := catalogclient.Pause(c)
	catalogclient.SetPause(c, func(ctx context.Context, d time.Duration) error {
		cancel()
		return inner(ctx, d)
	})
	_, err := c.Content(ctx, s.URL, "a")
	var unavailable *catalogclient.UnavailableError
	if !errors.As(err, &unavailable) || unavailable.Status != http.StatusServiceUnavailable {
		t.Errorf("got error %v, want an UnavailableError with status 503", err)
	}
}

// newProxy returns an HTTP proxy that connects to any server.
func newProxy(t *testing.T, used *atomic.Int32) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}

		used.Add(1)
		target, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}

		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = target.Close()
			return
		}

		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(target, buffered)
			_ = target.Close()
		}()
		_, _ = io.Copy(conn, target)
		_ = conn.Close()
	}))

	t.Cleanup(server.Close)
	parsed, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	return parsed
}

// TestTheProxyOfTheEnvironmentIsUsed compares functions, as a process reads the environment only
// once.
func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	used := catalogclient.ProxyOf(catalogclient.New(catalogclient.Options{}))
	if reflect.ValueOf(used).Pointer() != reflect.ValueOf(http.ProxyFromEnvironment).Pointer() {
		t.Error("got another proxy function, want http.ProxyFromEnvironment")
	}
}

func TestProxies(t *testing.T) {
	var used atomic.Int32
	through := newProxy(t, &used)
	s := newRecordingServer(t, newCatalogHandler(t))
	var wrongRoots atomic.Bool
	opts := catalogclient.Options{
		RootCAs: func(ctx context.Context) (*x509.CertPool, error) {
			if wrongRoots.Load() {
				return x509.NewCertPool(), nil
			}
			return s.rootCAs(ctx)
		},
		Proxy: func(r *http.Request) (*url.URL, error) {
			if !strings.HasPrefix(r.URL.Path, "/catalogs/c/") {
				return nil, errors.New("no such catalog")
			}
			return through, nil
		},
	}

	c := newImpatientClient(opts)
	for range 2 {
		checkContent(t, c, s.URL+"/catalogs/c", "a", wholeA)
	}

	if used.Load() != 1 {
		t.Errorf("the proxy was used for %d connections, want one", used.Load())
	}

	// The trusted authorities can change, and the proxy adds none.
	wrongRoots.Store(true)
	if _, err := c.Content(t.Context(), s.URL+"/catalogs/c", "b"); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("with other authorities: got error %v, want one with \"certificate signed by unknown authority\"", err)
	}

	wrongRoots.Store(false)
	checkContent(t, c, s.URL+"/catalogs/c", "a", wholeA)
	if _, err := c.Content(t.Context(), s.URL+"/catalogs/x", "a"); err == nil || !strings.Contains(err.Error(), "choosing a proxy: no such catalog") {
		t.Errorf("without a proxy: got error %v, want one with \"choosing a proxy: no such catalog\"", err)
	}
}
