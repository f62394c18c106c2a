package serve_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// benchCatalog returns a catalog of 300 packages, each with 13 bundles of 14 KB and a channel of 4 KB.
func benchCatalog() fstest.MapFS {
	catalog := fstest.MapFS{}
	for p := range 300 {
		var text strings.Builder
		fmt.Fprintf(&text, `{"defaultChannel":"stable","name":"p%d","schema":"olm.package"}`+"\n", p)
		fmt.Fprintf(&text, `{"entries":[%s{"name":"last"}],"name":"stable","package":"p%d","schema":"olm.channel"}`+"\n", strings.Repeat(`{"name":"a.v1.2.3","replaces":"a.v1.2.2","skipRange":">=1.0.0 <1.2.3"},`, 55), p)
		for v := range 13 {
			fmt.Fprintf(&text, `{"name":"p%d.v%d","package":"p%d","properties":[{"type":"olm.gvk","value":{"kind":"A"}},{"type":"olm.csv.metadata","value":{"description":"%s"}}],"schema":"olm.bundle"}`+"\n",
				p, v, p, strings.Repeat("text that nobody reads here ", 500))
		}

		catalog[fmt.Sprintf("p%d.json", p)] = &fstest.MapFile{Data: []byte(text.String())}
	}

	return catalog
}

// sink is an http.ResponseWriter that discards the body.
type sink struct {
	header http.Header
	bytes  int64
	code   int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(code int) {
	s.code = code
}

func (s *sink) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	return len(p), nil
}

// BenchmarkHandler measures the handler without the network.
func BenchmarkHandler(b *testing.B) {
	store, err := catalogstore.Open(b.TempDir(), catalogstore.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Unpack(b.Context(), "c", catalogstore.Source{}, benchCatalog()); err != nil {
		b.Fatal(err)
	}

	handler := serve.NewHandler(store, serve.Limits{}, logr.Discard())
	for _, test := range []struct{ name, path, encoding string }{
		{"all", "all", ""},
		{"bundles", "metas?schema=olm.bundle&package=p%d", ""},
		{"bundles-gzip", "metas?schema=olm.bundle&package=p%d", "gzip"},
		{"bundles-fields", "metas?schema=olm.bundle&package=p%d&fields=-properties[olm.csv.metadata]", ""},
		{"channels", "metas?schema=olm.channel&package=p%d", ""},
		{"names", "metas?schema=olm.bundle&fields=name", ""},
	} {
		b.Run(test.name, func(b *testing.B) {
			s := &sink{header: http.Header{}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				path := test.path
				if strings.Contains(path, "%d") {
					path = fmt.Sprintf(path, i%300)
				}

				req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/catalogs/c/api/v1/"+path, nil)
				req.Header.Set("Accept-Encoding", test.encoding)
				clear(s.header)
				s.code = http.StatusOK
				handler.ServeHTTP(s, req)
				if s.code != http.StatusOK {
					b.Fatalf("status is %d", s.code)
				}
			}
			b.SetBytes(s.bytes / int64(b.N))
		})
	}
}
