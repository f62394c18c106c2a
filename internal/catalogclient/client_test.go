package catalogclient_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogclient"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const (
	lineA       = `{"defaultChannel":"stable","name":"a","schema":"olm.package"}` + "\n"
	lineChannel = `{"entries":[{"name":"a.v1"}],"name":"stable","package":"a","schema":"olm.channel"}` + "\n"
	lineBundle  = `{"image":"i","name":"a.v1","package":"a","properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}},{"type":"olm.bundle.object","value":{"data":"eA=="}}],"schema":"olm.bundle"}` + "\n"
)

// fakeServer is a catalog server whose content can be changed.
type fakeServer struct {
	*httptest.Server
	// version is used in entity tags and times.
	version atomic.Int32
	// rest and own are the responses about package a.
	rest, own atomic.Pointer[string]
	// full and same count the responses with and without a body.
	full, same atomic.Int32
	// between is called after the first response about a package.
	between atomic.Pointer[func()]
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	s := &fakeServer{}
	s.setContent(lineA, lineChannel+lineBundle)
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *fakeServer) setContent(own, rest string) {
	s.own.Store(&own)
	s.rest.Store(&rest)
	s.version.Add(1)
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := ""
	switch r.URL.RequestURI() {
	case "/catalogs/c/api/v1/metas?package=a":
		text = *s.rest.Load()
		if f := s.between.Swap(nil); f != nil {
			defer (*f)()
		}
	case "/catalogs/c/api/v1/metas?name=a&schema=olm.package":
		text = *s.own.Load()
	case "/catalogs/c/api/v1/all":
		text = *s.own.Load() + *s.rest.Load()
	case "/catalogs/c/api/v1/metas?package=b", "/catalogs/c/api/v1/metas?name=b&schema=olm.package":
	default:
		http.Error(w, "no such catalog: look again\nmore", http.StatusNotFound)
		return
	}

	tag := fmt.Sprintf(`"%x"`, text)
	w.Header().Set("ETag", tag)
	w.Header().Set("Last-Modified", strconv.Itoa(int(s.version.Load())))
	if r.Header.Get("If-None-Match") == tag {
		s.same.Add(1)
		w.WriteHeader(http.StatusNotModified)
		return
	}

	s.full.Add(1)
	_, _ = io.WriteString(w, text)
}

// rootCAs returns the certificate of the server.
func (s *fakeServer) rootCAs(context.Context) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool, nil
}

func (s *fakeServer) newClient() *catalogclient.Client {
	return catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs})
}

func (s *fakeServer) baseURL() string { return s.URL + "/catalogs/c" }

// summarizeContent returns a short form of a content.
func summarizeContent(c *fbc.Content) string {
	var b strings.Builder
	if c.Package != nil {
		b.WriteString("package " + c.Package.Name + ";")
	}

	for _, channel := range c.Channels {
		b.WriteString("channel " + channel.Name + ";")
	}

	for _, bundle := range c.Bundles {
		fmt.Fprintf(&b, "bundle %s with %d properties;", bundle.Name, len(bundle.Properties))
	}

	return b.String()
}

func checkContent(t *testing.T, c *catalogclient.Client, base, pkg, want string) {
	t.Helper()
	content, err := c.Content(t.Context(), base, pkg)
	if err != nil {
		t.Fatal(err)
	}
	if got := summarizeContent(content); got != want {
		t.Errorf("content is %q, want %q", got, want)
	}
}

const wholeA = "package a;channel stable;bundle a.v1 with 2 properties;"

func TestContentReturnsAPackage(t *testing.T) {
	s := newFakeServer(t)
	c := s.newClient()
	checkContent(t, c, s.baseURL(), "a", wholeA)
	checkContent(t, c, s.baseURL()+"/", "a", wholeA)
	checkContent(t, c, s.baseURL(), "b", "")
}

func TestContentIsTransferredAgainOnlyAfterAChange(t *testing.T) {
	s := newFakeServer(t)
	c := s.newClient()
	checkContent(t, c, s.baseURL(), "a", wholeA)
	for range 3 {
		checkContent(t, c, s.baseURL(), "a", wholeA)
	}

	if full, same := s.full.Load(), s.same.Load(); full != 2 || same != 6 {
		t.Errorf("got %d responses with a body and %d without, want 2 and 6", full, same)
	}

	s.setContent(lineA, lineChannel)
	checkContent(t, c, s.baseURL(), "a", "package a;channel stable;")
	if full := s.full.Load(); full != 3 {
		t.Errorf("got %d responses with a body, want 3, because only one of the two changed", full)
	}
}

func TestContentIsOfOneCatalog(t *testing.T) {
	s := newFakeServer(t)
	replace := func() { s.setContent(strings.ReplaceAll(lineA, "stable", "fast"), lineChannel) }
	s.between.Store(&replace)
	checkContent(t, s.newClient(), s.baseURL(), "a", "package a;channel stable;")
}

func TestTheCacheIsBounded(t *testing.T) {
	s := newFakeServer(t)
	c := catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs, CacheBytes: 1100})
	checkContent(t, c, s.baseURL(), "a", wholeA) // The entry is too large for the cache.
	checkContent(t, c, s.baseURL(), "a", wholeA)
	if full := s.full.Load(); full != 4 {
		t.Errorf("got %d responses with a body, want 4", full)
	}

	checkContent(t, c, s.baseURL(), "b", "")
	checkContent(t, c, s.baseURL()+"/", "b", "") // It evicts the previous entry.
	before := s.full.Load()
	checkContent(t, c, s.baseURL()+"/", "b", "")
	if got := s.full.Load() - before; got != 0 {
		t.Errorf("got %d responses with a body for a cached entry, want none", got)
	}

	checkContent(t, c, s.baseURL(), "b", "")
	if got := s.full.Load() - before; got != 2 {
		t.Errorf("got %d responses with a body for an evicted entry, want 2", got)
	}
}

func TestAllReturnsEveryBlob(t *testing.T) {
	s := newFakeServer(t)
	var got strings.Builder
	for meta, err := range s.newClient().All(t.Context(), s.baseURL()) {
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(string(meta.Blob) + "\n")
	}

	if diff := cmp.Diff(lineA+lineChannel+lineBundle, got.String()); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
}

// TestErrors checks which errors are transient.
func TestErrors(t *testing.T) {
	s := newFakeServer(t)
	broken := func(own, rest string) *fakeServer {
		b := newFakeServer(t)
		b.setContent(own, rest)
		return b
	}
	cut := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, lineChannel)
	}))
	defer cut.Close()
	redirect := httptest.NewTLSServer(http.RedirectHandler("https://elsewhere.example/", http.StatusFound))
	defer redirect.Close()
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	roots := func(servers ...*httptest.Server) func(context.Context) (*x509.CertPool, error) {
		return func(context.Context) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			for _, server := range servers {
				pool.AddCert(server.Certificate())
			}
			return pool, nil
		}
	}

	badOwn, badRest := broken(lineA+lineA, ""), broken(lineA, lineChannel+"{")
	for name, test := range map[string]struct {
		opts    catalogclient.Options
		base    string
		content bool
		status  int
		want    string
	}{
		"unknown catalog": {catalogclient.Options{RootCAs: s.rootCAs}, s.URL + "/catalogs/x", false, 404, "/catalogs/x/api/v1/metas?package=a: the response is 404 Not Found: no such catalog: look again"},
		"redirect":        {catalogclient.Options{RootCAs: roots(redirect)}, redirect.URL, false, 302, "the response is 302 Found"},
		"not trusted":     {catalogclient.Options{RootCAs: roots()}, s.baseURL(), false, 0, "certificate signed by unknown authority"},
		"no authorities":  {catalogclient.Options{RootCAs: func(context.Context) (*x509.CertPool, error) { return nil, errors.New("no ConfigMap") }}, s.baseURL(), false, 0, "reading the trusted certificate authorities: no ConfigMap"},
		"does not listen": {catalogclient.Options{}, gone.URL, false, 0, "connection refused"},
		"not a URL":       {catalogclient.Options{}, "https://a b", false, 0, "invalid character"},
		"no base URL":     {catalogclient.Options{}, "", false, 0, "unsupported protocol scheme"},
		"cut off":         {catalogclient.Options{RootCAs: roots(cut)}, cut.URL, false, 0, "unexpected EOF"},
		"broken JSON":     {catalogclient.Options{RootCAs: badRest.rootCAs}, badRest.baseURL(), true, 0, "document 2 (line 2, byte 83): ends in the middle of a JSON object"},
		"two packages":    {catalogclient.Options{RootCAs: badOwn.rootCAs}, badOwn.baseURL(), true, 0, "occurs twice in the catalog"},
		"too large":       {catalogclient.Options{RootCAs: s.rootCAs, MaxBytes: 100}, s.baseURL(), true, 0, "it is larger than 100 bytes"},
		"blob too large":  {catalogclient.Options{RootCAs: s.rootCAs, Limits: fbc.Limits{BlobBytes: 100}}, s.baseURL(), true, 0, "is larger than 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newImpatientClient(test.opts).Content(t.Context(), test.base, "a")
			var unavailable *catalogclient.UnavailableError
			var content *catalogclient.ContentError
			if errors.As(err, &content) != test.content || errors.As(err, &unavailable) == test.content {
				t.Fatalf("got error %v (%T), want a content error: %v", err, err, test.content)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error\n%v\nwant it to contain\n%s", err, test.want)
			}
			if unavailable != nil && unavailable.Status != test.status {
				t.Errorf("status is %d, want %d", unavailable.Status, test.status)
			}
		})
	}
}

// newImpatientClient returns a client that does not sleep between tries.
func newImpatientClient(opts catalogclient.Options) *catalogclient.Client {
	c := catalogclient.New(opts)
	catalogclient.SetPause(c, func(context.Context, time.Duration) error { return nil })
	return c
}

func TestRequestsEnd(t *testing.T) {
	never := make(chan struct{})
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-never:
		case <-r.Context().Done():
		}
	}))

	defer silent.Close()
	defer close(never)
	trust := func(context.Context) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		pool.AddCert(silent.Certificate())
		return pool, nil
	}
	var unavailable *catalogclient.UnavailableError
	_, err := catalogclient.New(catalogclient.Options{RootCAs: trust, Timeout: 50 * time.Millisecond}).Content(t.Context(), silent.URL, "a")
	if !errors.As(err, &unavailable) {
		t.Errorf("after the timeout: got error %v (%T), want an UnavailableError", err, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = catalogclient.New(catalogclient.Options{RootCAs: trust}).Content(ctx, silent.URL, "a")
	if !errors.As(err, &unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("when canceled: got error %v (%T), want an UnavailableError with context.Canceled", err, err)
	}

	for _, err = range catalogclient.New(catalogclient.Options{RootCAs: trust}).All(ctx, silent.URL) {
		if !errors.As(err, &unavailable) {
			t.Errorf("all, when canceled: got error %v (%T), want an UnavailableError", err, err)
		}
	}
}
