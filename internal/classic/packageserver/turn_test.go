package packageserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// timedCatalog is a catalog with one package, which takes some time to read.
type timedCatalog struct {
	registrypb.UnimplementedRegistryServer

	// responses is the number of bundles, each of which follows after a delay.
	responses int
	delay     time.Duration
	readers   *readerCount
}

// readerCount counts the catalogs that are being read.
type readerCount struct {
	mu           sync.Mutex
	current, max int
}

func (c *readerCount) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current += n
	c.max = max(c.max, c.current)
}

// peak returns how many catalogs were read at the same time.
func (c *readerCount) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.max
}

func (c *timedCatalog) ListPackages(_ *registrypb.ListPackageRequest, stream grpc.ServerStreamingServer[registrypb.PackageName]) error {
	c.readers.add(1)
	return stream.Send(&registrypb.PackageName{Name: "plum"})
}

func (c *timedCatalog) ListBundles(_ *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
	for range c.responses {
		select {
		case <-time.After(c.delay):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		if err := stream.Send(&registrypb.Bundle{PackageName: "plum", ChannelName: "stable"}); err != nil {
			return err
		}
	}
	return nil
}

func (*timedCatalog) GetPackage(context.Context, *registrypb.GetPackageRequest) (*registrypb.Package, error) {
	return &registrypb.Package{Name: "plum", Channels: []*registrypb.Channel{{Name: "stable", CsvName: "plum.v1"}}}, nil
}

func (c *timedCatalog) GetBundle(context.Context, *registrypb.GetBundleRequest) (*registrypb.Bundle, error) {
	c.readers.add(-1)
	return &registrypb.Bundle{CsvName: "plum.v1", CsvJson: `{"metadata":{"name":"plum.v1"}}`}, nil
}

// newTestReconciler returns a reconciler that is connected to catalogs within the process, and the names of the catalogs.
func newTestReconciler(t *testing.T, catalogs ...registrypb.RegistryServer) (*catalogReconciler, []types.NamespacedName) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := operatorsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	pool := dial.New(dial.Options{})
	t.Cleanup(pool.Close)
	sources := fake.NewClientBuilder().WithScheme(scheme)
	var keys []types.NamespacedName
	for n, catalog := range catalogs {
		source := &operatorsv1alpha1.CatalogSource{
			ObjectMeta: metav1.ObjectMeta{Namespace: "catalogs", Name: fmt.Sprintf("catalog-%d", n)},
			Spec:       operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: "local:1"},
			Status:     operatorsv1alpha1.CatalogSourceStatus{RegistryServiceStatus: &operatorsv1alpha1.RegistryServiceStatus{Protocol: "grpc"}},
		}
		sources.WithObjects(source)
		keys = append(keys, client.ObjectKeyFromObject(source))
		serveLocally(t, pool, keys[n], source.Spec.Address, catalog)
	}

	return &catalogReconciler{
		reader: sources.Build(), pool: pool, isPoolShared: true, turns: newReadingTurns(), index: index.New(), clock: clock.RealClock{},
		resyncInterval: DefaultInterval, readings: map[types.NamespacedName]catalogReading{}, attempted: map[types.NamespacedName]bool{},
	}, keys
}

// serveLocally serves a catalog within the process until the end of the test, and connects a pool to it.
func serveLocally(t *testing.T, pool *dial.Pool, key types.NamespacedName, address string, catalog registrypb.RegistryServer) {
	t.Helper()
	listener := bufconn.Listen(64 << 10)
	catalogserver.ServeOn(t, listener, catalog)
	if err := pool.SetLocal(key, address, listener.DialContext); err != nil {
		t.Fatal(err)
	}
}

// TestReadingTurns checks that catalogs are read one after the other, and that no catalog waits long for one that is silent
// or slow. The time is that of a bubble of synctest.
func TestReadingTurns(t *testing.T) {
	for name, c := range map[string]struct {
		first *timedCatalog
		// wantReaders is how many of the three catalogs are read at the same time.
		wantReaders int
		// wantDelay is how long the other catalogs wait.
		wantDelay time.Duration
	}{
		"a catalog that takes 20 s":    {&timedCatalog{responses: 40, delay: 500 * time.Millisecond}, 1, 20 * time.Second},
		"a catalog that takes an hour": {&timedCatalog{responses: 7200, delay: 500 * time.Millisecond}, 2, maxReadingTurn - 500*time.Millisecond + maxCatalogSilence},
		"a silent catalog":             {&timedCatalog{responses: 1, delay: time.Hour}, 2, maxCatalogSilence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				readers := &readerCount{}
				c.first.readers = readers
				r, keys := newTestReconciler(t, c.first, &timedCatalog{readers: readers}, &timedCatalog{readers: readers})
				synctest.Wait() // All are connected.

				began := time.Now()
				var first, others sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				first.Go(func() { _, _ = r.reconcileCatalog(ctx, keys[0]) }) // It may end with the context.
				synctest.Wait()                                              // The first catalog is being read.
				for _, key := range keys[1:] {
					others.Go(func() {
						if _, err := r.reconcileCatalog(ctx, key); err != nil {
							t.Errorf("reconciling %s: %v", key, err)
						}
					})
				}

				others.Wait()
				if got := time.Since(began); got != c.wantDelay {
					t.Errorf("the other catalogs waited %s, want %s", got, c.wantDelay)
				}
				if got := readers.peak(); got != c.wantReaders {
					t.Errorf("%d catalogs were read at the same time, want %d", got, c.wantReaders)
				}
				snapshot, _ := r.index.Snapshot()
				for _, key := range keys[1:] {
					if !slices.ContainsFunc(slices.Collect(snapshot.All(index.View{})), func(i index.Item) bool { return i.Catalog.Key == key }) {
						t.Errorf("the packages of %s are missing", key)
					}
				}

				cancel()
				first.Wait()
			})
		})
	}
}

// TestReadingTurnEnds checks that the next catalog is read at once when the reading of a catalog fails or the server stops.
func TestReadingTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newReadingTurns()
		turn, err := turns.beginTurn(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		stopped, stop := context.WithCancel(t.Context())
		stop()
		if _, err := turns.beginTurn(stopped); !errors.Is(err, context.Canceled) {
			t.Errorf("got the error %v after the server has stopped, want %v", err, context.Canceled)
		}

		turn.endTurn()
		turn.extendTurn() // A late response has no effect on the next turn.
		if turn, err = turns.beginTurn(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(maxCatalogSilence / 2)
		turn.extendTurn()
		time.Sleep(maxCatalogSilence * 3 / 4)
		select {
		case turns.taken <- struct{}{}:
			t.Error("the turn of a catalog that responds has ended")
		default:
		}
		turn.endTurn()
	})
}
