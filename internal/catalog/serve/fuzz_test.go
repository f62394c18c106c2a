package serve_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// FuzzRequest searches for requests whose responses violate the HTTP API.
func FuzzRequest(f *testing.F) {
	contents, err := catalogstore.Open(f.TempDir(), catalogstore.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	defer contents.Close()
	if _, err := contents.Unpack(f.Context(), "c", catalogstore.Source{}, fstest.MapFS{"c.json": {Data: []byte(lineA + lineB)}}); err != nil {
		f.Fatal(err)
	}

	handler := serve.NewHandler(contents, serve.Limits{}, logr.Discard())
	f.Add("GET", "c", "metas", "schema=olm.bundle&name=x", "gzip;q=0.5, *;q=0", `W/"x", *`, "Sat, 01 Jan 2000 00:00:00 GMT", "bytes=0-1,3-")
	f.Add("HEAD", "..", "metas", "name=%zz;", "gzip;q=", "", "x", "")
	f.Add("GET", "c", "metas", "fields=-properties[olm.gvk]", "zstd, identity;q=0", "", "", "bytes=-")
	f.Add("GET", "c", "graph", "package=a&format=mermaid", "", "", "", "")
	f.Add("GET", "c", "all", "", "", "", "", "bytes=9-1")
	f.Fuzz(func(t *testing.T, method, name, endpoint, query, encoding, tag, since, ranges string) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Method = method
		req.URL = &url.URL{Path: "/catalogs/" + name + "/api/v1/" + endpoint, RawQuery: query}
		req.Header.Set("Accept-Encoding", encoding)
		req.Header.Set("If-None-Match", tag)
		req.Header.Set("If-Modified-Since", since)
		req.Header.Set("Range", ranges)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, req)
		switch code := recorder.Code; code {
		case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusRequestedRangeNotSatisfiable:
		case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
			// A path that is not canonical is redirected to the canonical path.
		default:
			t.Errorf("%q of %q with %q: got unexpected status %d", method, name, query, code)
		}
	})
}
