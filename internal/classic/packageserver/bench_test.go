package packageserver_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"github.com/mainstay-dev/mainstay/bench/generate"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/fetch"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/serve"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// generated serves a generated catalog of 75 MB, with 300 packages and 4,000 bundles.
func generated(b *testing.B) registrypb.RegistryClient {
	b.Helper()
	dir := b.TempDir()
	if _, err := generate.Catalog(dir, generate.MB75); err != nil {
		b.Fatal(err)
	}

	address, _ := serveCatalog(b, dir)
	return catalogserver.Dial(b, address)
}

func fetched(b *testing.B, client registrypb.RegistryClient) []*index.Package {
	b.Helper()
	packages, err := fetch.ReadPackages(b.Context(), client, fetch.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return packages
}

// heap returns the size of the heap in bytes.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkRefresh reads a catalog, and reports the memory of its packages.
func BenchmarkRefresh(b *testing.B) {
	client := generated(b)
	before := heap()
	var packages []*index.Package
	for b.Loop() {
		packages = fetched(b, client)
	}

	b.ReportMetric((heap()-before)/(1<<20), "MiB-held")
	bytes := 0
	for _, p := range packages {
		bytes += p.Bytes()
	}

	b.ReportMetric(float64(bytes)/(1<<20), "MiB-packed")
	b.ReportMetric(float64(len(packages)), "packages")
}

// All packages of the catalog are listed, whole and as a table.
func BenchmarkList(b *testing.B) {
	i := index.New()
	i.Set(index.Catalog{Key: types.NamespacedName{Namespace: "n", Name: "c"}}, fetched(b, generated(b)))
	handler := &serve.Handler{
		Index: i, Log: logr.Discard(), Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(),
		Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "somebody"}}, true, nil
		}),
	}

	server := httptest.NewServer(handler)
	defer server.Close()
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for name, c := range map[string]struct{ accept, encoding string }{
		"whole": {"application/json", "identity"}, "table": {table, "identity"},
		"whole, gzip": {"application/json", "gzip"}, "table, gzip": {table, "gzip"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var n int64
			for b.Loop() {
				request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+"/apis/packages.operators.coreos.com/v1/packagemanifests", nil)
				if err != nil {
					b.Fatal(err)
				}

				request.Header.Set("Accept", c.accept)
				request.Header.Set("Accept-Encoding", c.encoding)
				answer, err := server.Client().Do(request)
				if err != nil {
					b.Fatal(err)
				}
				if n, err = io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
					b.Fatal(answer.Status, err)
				}

				_ = answer.Body.Close() // It was read.
			}
			b.ReportMetric(float64(n)/(1<<20), "MiB")
		})
	}
}
