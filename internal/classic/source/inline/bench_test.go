package inline_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/bench/generate"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/source/inline"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// anonymousMemory returns the anonymous memory of this process in MiB, after a garbage collection.
func anonymousMemory(tb testing.TB) float64 {
	tb.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip(err)
	}
	found := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		tb.Skip("the kernel does not report anonymous memory")
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kib / 1024
}

// BenchmarkTwentyCatalogs serves twenty catalogs, each with 100 packages and 1,000 bundles, and reports the memory that
// they need. The images of all are different.
func BenchmarkTwentyCatalogs(b *testing.B) {
	registry := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)), ociregistry.WithBlobHandler(ociregistry.NewDiskBlobHandler(b.TempDir()))))
	b.Cleanup(registry.Close)
	puller := image.NewClient(image.Options{Insecure: true})
	host := strings.TrimPrefix(registry.URL, "http://")
	for i := range 20 {
		pushGenerated(b, puller, fmt.Sprintf("%s/catalogs/c%d:v1", host, i), i)
	}

	for b.Loop() {
		before := anonymousMemory(b)
		serveTwenty(b, puller, host)
		b.ReportMetric(anonymousMemory(b)-before, "MiB/20-catalogs")
	}
}

// pushGenerated pushes a generated catalog with a file that makes it different from others.
func pushGenerated(b *testing.B, puller *image.Client, reference string, number int) {
	b.Helper()
	dir := b.TempDir()
	if _, err := generate.Catalog(dir, generate.Size{Packages: 100, Bundles: 1000}); err != nil {
		b.Fatal(err)
	}
	extra := fmt.Sprintf("{schema: example.com, name: n%d}", number)
	if err := os.WriteFile(filepath.Join(dir, "extra.yaml"), []byte(extra), 0o600); err != nil {
		b.Fatal(err)
	}
	built, err := image.Build(image.CatalogSpec(os.DirFS(dir)))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := puller.Push(b.Context(), reference, nil, built); err != nil {
		b.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		b.Fatal(err)
	}
}

// serveTwenty serves twenty catalogs until the benchmark ends.
func serveTwenty(b *testing.B, puller *image.Client, host string) {
	b.Helper()
	store, err := catalogstore.Open(b.TempDir(), catalogstore.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	server := inline.New(inline.Options{
		Store: store.Partition("classic"), IndexDir: b.TempDir(),
		Registries: func(context.Context, ...client.ObjectKey) (*image.Client, error) { return puller, nil },
		ListUIDs:   func(context.Context) ([]types.UID, error) { return nil, nil },
	})
	ended := make(chan struct{}, 100)
	server.OnEnd(func(types.NamespacedName) { ended <- struct{}{} })
	ctx, cancel := context.WithCancel(b.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Start(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			b.Error(err)
		}
	})

	for ready := 0; ready < 20; {
		ready = 0
		for i := range 20 {
			name := fmt.Sprintf("c%d", i)
			state := server.Ensure(ctx, inline.Catalog{
				NamespacedName: types.NamespacedName{Namespace: "olm", Name: name}, UID: types.UID(name), Service: name, Image: host + "/catalogs/" + name + ":v1",
			})
			if state.Err != nil {
				b.Fatal(state.Err)
			}
			if !state.Since.IsZero() {
				ready++
			}
		}
		if ready < 20 {
			<-ended
		}
	}
}
