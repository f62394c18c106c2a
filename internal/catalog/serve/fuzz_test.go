package serve_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalog/store"
)

// FuzzRequest looks for requests that are answered with something else than the contract
// has.
func FuzzRequest(f *testing.F) {
	contents, err := store.Open(f.TempDir(), store.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	defer contents.Close()
	if _, err := contents.Unpack(f.Context(), "c", store.Source{}, fstest.MapFS{"c.json": {Data: []byte(lineA + lineB)}}); err != nil {
		f.Fatal(err)
	}
	handler := serve.NewHandler(contents, logr.Discard())
	f.Add("GET", "c", "schema=olm.bundle&name=x", "gzip;q=0.5, *;q=0", `W/"x", *`, "Sat, 01 Jan 2000 00:00:00 GMT")
	f.Add("HEAD", "..", "name=%zz;", "gzip;q=", "", "x")
	f.Fuzz(func(t *testing.T, method, name, query, encoding, tag, since string) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Method = method
		req.URL = &url.URL{Path: "/catalogs/" + name + "/api/v1/metas", RawQuery: query}
		req.Header.Set("Accept-Encoding", encoding)
		req.Header.Set("If-None-Match", tag)
		req.Header.Set("If-Modified-Since", since)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, req)
		switch code := recorder.Code; code {
		case http.StatusOK, http.StatusNotModified, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
			// A path that is not clean is sent to the clean one.
		default:
			t.Errorf("%q of %q with %q: status is %d", method, name, query, code)
		}
	})
}
