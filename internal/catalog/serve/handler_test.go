package serve_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

const (
	lineA = `{"name":"a","schema":"olm.package"}` + "\n"
	lineB = `{"name":"a.v1","package":"a","schema":"olm.bundle"}` + "\n"
)

// fixture is a server with the catalog "small", which has two blobs, and "large", which has many.
type fixture struct {
	*httptest.Server
	store *catalogstore.Store
	dir   string
	large string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	contents, err := catalogstore.Open(dir, catalogstore.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(contents.Close)
	var large strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&large, "{\"name\":\"n%d\",\"package\":\"p%d\",\"schema\":\"olm.bundle\"}\n", i, i%10)
	}

	s := &fixture{store: contents, dir: dir, large: large.String()}
	s.put(t, "small", lineA+lineB)
	s.put(t, "large", s.large)
	s.start(t, serve.NewHandler(contents, serve.Limits{}, logr.Discard()), serve.Limits{})

	return s
}

// start starts the server with the listener of Server.
func (s *fixture) start(t *testing.T, handler http.Handler, limits serve.Limits) {
	t.Helper()
	s.Server = serve.NewTestServer(handler, limits)
	s.StartTLS()
	t.Cleanup(s.Close)
}

func (s *fixture) put(t *testing.T, name, text string) {
	t.Helper()
	_, err := s.store.Unpack(t.Context(), name, catalogstore.Source{}, fstest.MapFS{"c.json": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
}

// file returns the path of the content file of a catalog.
func (s *fixture) file(t *testing.T, name string) string {
	t.Helper()
	info, err := s.store.Stored(name)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(s.dir, "content", info.Sum)
}

// sendRequest sends a request with headers given as "Name: value".
func (s *fixture) sendRequest(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}

	// By default, the client requests gzip and decompresses the response.
	req.Header.Set("Accept-Encoding", "identity")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}

	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func responseBody(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnswers(t *testing.T) {
	s := newFixture(t)
	for name, test := range map[string]struct {
		method, path string
		code         int
		body         string
	}{
		"all":                {"GET", "/catalogs/small/api/v1/all", 200, lineA + lineB},
		"metas, all":         {"GET", "/catalogs/small/api/v1/metas", 200, lineA + lineB},
		"metas by schema":    {"GET", "/catalogs/small/api/v1/metas?schema=olm.bundle", 200, lineB},
		"metas by package":   {"GET", "/catalogs/small/api/v1/metas?package=a", 200, lineB},
		"package by name":    {"GET", "/catalogs/small/api/v1/metas?schema=olm.package&name=a", 200, lineA},
		"empty parameters":   {"GET", "/catalogs/small/api/v1/metas?schema=&package=a&name=", 200, lineB},
		"no match":           {"GET", "/catalogs/small/api/v1/metas?package=x", 200, ""},
		"all of many":        {"GET", "/catalogs/large/api/v1/all", 200, s.large},
		"head of all":        {"HEAD", "/catalogs/small/api/v1/all", 200, ""},
		"head of metas":      {"HEAD", "/catalogs/small/api/v1/metas?package=a", 200, ""},
		"unknown parameter":  {"GET", "/catalogs/small/api/v1/metas?pkg=a", 400, "unknown parameter \"pkg\": the parameters are schema, package, name and fields\n"},
		"given twice":        {"GET", "/catalogs/small/api/v1/metas?name=a&name=b", 400, "the parameter name occurs 2 times: each of schema, package, name and fields is allowed at most once\n"},
		"broken query":       {"GET", "/catalogs/small/api/v1/metas?name=%zz", 400, "invalid query: escape its parameters as in a URL\n"},
		"unknown catalog":    {"GET", "/catalogs/none/api/v1/all", 404, "catalog \"none\" is not served here: see the conditions of the ClusterCatalog of that name\n"},
		"unknown, metas":     {"GET", "/catalogs/none/api/v1/metas", 404, "catalog \"none\" is not served here: see the conditions of the ClusterCatalog of that name\n"},
		"catalog with dots":  {"GET", "/catalogs/%2e%2e/api/v1/all", 404, "catalog \"..\" is not served here: see the conditions of the ClusterCatalog of that name\n"},
		"unknown path":       {"GET", "/catalogs/small/api/v2/all", 404, "no such path: ask for /catalogs/<name>/api/v1/all, /catalogs/<name>/api/v1/metas or /catalogs/<name>/api/v1/graph\n"},
		"path below":         {"GET", "/catalogs/small/api/v1/all/", 404, "no such path: ask for /catalogs/<name>/api/v1/all, /catalogs/<name>/api/v1/metas or /catalogs/<name>/api/v1/graph\n"},
		"post":               {"POST", "/catalogs/small/api/v1/all", 405, "method not allowed: use GET or HEAD\n"},
		"delete of metas":    {"DELETE", "/catalogs/small/api/v1/metas", 405, "method not allowed: use GET or HEAD\n"},
		"options of unknown": {"OPTIONS", "/catalogs/none/api/v1/all", 405, "method not allowed: use GET or HEAD\n"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := s.sendRequest(t, test.method, test.path)
			if resp.StatusCode != test.code {
				t.Errorf("status is %d, want %d", resp.StatusCode, test.code)
			}
			if diff := cmp.Diff(test.body, responseBody(t, resp)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			switch test.code {
			case 200:
				if got := resp.Header.Get("Content-Type"); got != "application/jsonl" {
					t.Errorf("got content type %q, want application/jsonl", got)
				}
				if resp.Header.Get("Last-Modified") == "" || resp.Header.Get("ETag") == "" || resp.ContentLength < 0 {
					t.Errorf("got headers %v and length %d, want an ETag, Last-Modified and a length", resp.Header, resp.ContentLength)
				}
			case 405:
				if got := resp.Header.Get("Allow"); got != "GET, HEAD" {
					t.Errorf("got Allow %q, want GET, HEAD", got)
				}
			}
		})
	}
}

func TestConditionalRequests(t *testing.T) {
	s := newFixture(t)
	for _, path := range []string{"/catalogs/small/api/v1/all", "/catalogs/small/api/v1/metas?package=a"} {
		first := s.sendRequest(t, "GET", path)
		etag, modified := first.Header.Get("ETag"), first.Header.Get("Last-Modified")
		for name, test := range map[string]struct {
			header string
			code   int
		}{
			"same tag":    {"If-None-Match: " + etag, 304},
			"weak tag":    {"If-None-Match: W/" + etag, 304},
			"one of many": {`If-None-Match: "x", ` + etag, 304},
			"any tag":     {"If-None-Match: *", 304},
			"other tag":   {`If-None-Match: "x"`, 200},
			"same time":   {"If-Modified-Since: " + modified, 304},
			"later":       {"If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", 304},
			"earlier":     {"If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT", 200},
			"nonsense":    {"If-Modified-Since: yesterday", 200},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				resp := s.sendRequest(t, method, path, test.header)
				if resp.StatusCode != test.code {
					t.Errorf("%s %s, %s: status is %d, want %d", method, path, name, resp.StatusCode, test.code)
				}
				if resp.Header.Get("ETag") != etag || resp.Header.Get("Last-Modified") != modified {
					t.Errorf("%s %s, %s: got headers %v, want ETag %s and Last-Modified %s", method, path, name, resp.Header, etag, modified)
				}
				if text := responseBody(t, resp); test.code == 304 && text != "" {
					t.Errorf("%s %s, %s: got 304 with the body %q, want none", method, path, name, text)
				}
			}
		}

		// The entity tag has precedence over the time.
		resp := s.sendRequest(t, "GET", path, `If-None-Match: "x"`, "If-Modified-Since: "+modified)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s with another tag and the same time: status is %d, want 200", path, resp.StatusCode)
		}
	}

	path := "/catalogs/small/api/v1/all"
	before := s.sendRequest(t, "HEAD", path)
	s.put(t, "small", lineA)
	for _, header := range []string{"If-None-Match: " + before.Header.Get("ETag"), "If-Modified-Since: " + before.Header.Get("Last-Modified")} {
		if resp := s.sendRequest(t, "GET", path, header); resp.StatusCode != http.StatusOK || responseBody(t, resp) != lineA {
			t.Errorf("after the content changed, with %s: status is %d, want 200 and the new content", header, resp.StatusCode)
		}
	}
}

func TestDamagedContentIsNotServed(t *testing.T) {
	s := newFixture(t)
	if err := os.Truncate(s.file(t, "small"), 10); err != nil {
		t.Fatal(err)
	}

	resp := s.sendRequest(t, "GET", "/catalogs/small/api/v1/all")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("status is %d with headers %v, want 503 with Retry-After", resp.StatusCode, resp.Header)
	}
	if text := responseBody(t, resp); !strings.Contains(text, "is being unpacked again: try again in 5 seconds") {
		t.Errorf("got body %q, want that the catalog is being unpacked again", text)
	}

	s.put(t, "small", lineA)
	if resp := s.sendRequest(t, "GET", "/catalogs/small/api/v1/all"); responseBody(t, resp) != lineA {
		t.Error("got different content after it was stored again, want it served")
	}
}

// pendingSource returns ErrContentPending for every catalog.
type pendingSource struct{}

func (pendingSource) Content(string) (*catalogstore.Content, error) {
	return nil, serve.ErrContentPending
}

func TestPendingContentIsRetried(t *testing.T) {
	s := &fixture{}
	s.start(t, serve.NewHandler(pendingSource{}, serve.Limits{}, logr.Discard()), serve.Limits{})
	resp := s.sendRequest(t, "GET", "/catalogs/new/api/v1/all")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("status is %d with headers %v, want 503 with Retry-After", resp.StatusCode, resp.Header)
	}
	if text := responseBody(t, resp); text != "the content of catalog \"new\" is not available yet: try again in 1 second\n" {
		t.Errorf("got body %q, want the content of catalog \"new\" is not available yet: try again in 1 second", text)
	}
}

// truncatedSource returns content whose file is truncated while it is read.
type truncatedSource struct {
	*catalogstore.Store
	file  string
	after int64
}

func (c truncatedSource) Content(name string) (*catalogstore.Content, error) {
	content, err := c.Store.Content(name)
	return content, errors.Join(err, os.Truncate(c.file, c.after))
}

// TestACutOffBodyIsSeenByTheClient truncates content while it is sent. The client gets an error status, or an
// error while it reads the body.
func TestACutOffBodyIsSeenByTheClient(t *testing.T) {
	s := newFixture(t)
	text := strings.Repeat(`{"name":"n","schema":"x","text":"`+strings.Repeat("x", 5000)+`"}`+"\n", 600)
	for name, test := range map[string]struct {
		encoding, path string
		after          int64
		// refused is set if the error is detected before the response has started.
		refused bool
	}{
		"identity":         {"identity", "/catalogs/cut/api/v1/all", 2 << 20, false},
		"gzip":             {"gzip", "/catalogs/cut/api/v1/all", 2 << 20, false},
		"zstd":             {"zstd", "/catalogs/cut/api/v1/all", 2 << 20, false},
		"fields":           {"identity", "/catalogs/cut/api/v1/metas?fields=text", 2 << 20, false},
		"early, gzip":      {"gzip", "/catalogs/cut/api/v1/all", 100, true},
		"early, fields":    {"identity", "/catalogs/cut/api/v1/metas?fields=text", 100, true},
		"none of identity": {"identity", "/catalogs/cut/api/v1/all", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.put(t, "cut", text)
			handler := serve.NewHandler(truncatedSource{s.store, s.file(t, "cut"), test.after}, serve.Limits{}, logr.Discard())
			server := serve.NewTestServer(handler, serve.Limits{})
			server.StartTLS()
			defer server.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}

			req.Header.Set("Accept-Encoding", test.encoding)
			resp, err := server.Client().Do(req)
			if err == nil {
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
			}

			switch {
			case test.refused && (err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Content-Encoding") != ""):
				t.Errorf("got response %+v (error %v), want 503", resp, err)
			case !test.refused && err == nil:
				t.Errorf("got no error while reading the truncated body of %+v, want one", resp)
			}
		})
	}
}
