package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
)

// silentServer is a catalog that accepts requests and never answers.
type silentServer struct {
	registrypb.UnimplementedRegistryServer
	asked chan struct{}
}

// ListBundles implements registrypb.RegistryServer.
func (s *silentServer) ListBundles(_ *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
	s.asked <- struct{}{}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// TestSilentCatalogsOfOneNamespace reads the catalogs of another namespace while those of one namespace, more than can be
// read concurrently, do not answer.
func TestSilentCatalogsOfOneNamespace(t *testing.T) {
	const silent = 8
	silentOnes := &silentServer{asked: make(chan struct{}, silent)}
	catalogs := clients{}
	for i := range silent {
		catalogs[types.NamespacedName{Namespace: "hostile", Name: fmt.Sprintf("silent-%d", i)}] = serve(t, silentOnes)
	}
	other := types.NamespacedName{Namespace: "other", Name: "catalog"}
	catalogs[other] = serve(t, &server{
		bundles: []*registrypb.Bundle{bundle("a", "x", "a.v1")}, packages: map[string]*registrypb.Package{"a": {Name: "a", DefaultChannelName: "x"}},
	})
	store := snapshot.New(catalogs, nil)

	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for key := range catalogs {
		if key != other {
			readers.Go(func() {
				if _, err := store.Get(ctx, key); !errors.Is(err, context.Canceled) && ctx.Err() == nil {
					t.Errorf("%s: got %v while it is read, want nothing", key, err)
				}
			})
		}
	}
	for range 3 {
		<-silentOnes.asked
	}

	got, err := store.Get(t.Context(), other)
	if err != nil || got.Len() != 1 {
		t.Errorf("got the snapshot %+v and %v, want one entry", got, err)
	}
	if len(silentOnes.asked) > 0 {
		t.Error("got a fourth read of the namespace, want at most three")
	}
	cancel()
	readers.Wait()
}
