package registry

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// canceledStream is the stream of a client that has disconnected.
type canceledStream struct {
	grpc.ServerStream
	ctx  context.Context
	sent int
}

func (g *canceledStream) Context() context.Context { return g.ctx }

func (g *canceledStream) Send(*structpb.Struct) error {
	g.sent++
	return nil
}

// A call ends when its client disconnects, and sends no more messages.
func TestCallEndsWithTheClient(t *testing.T) {
	catalog, err := content.Cache{Log: slog.New(slog.DiscardHandler)}.Open(t.Context(), content.Folder{Dir: "testdata/catalog"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := catalog.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(), metadata.Pairs(acknowledgeMetadataKey, "true")))
	cancel()
	stream := &canceledStream{ctx: ctx}
	err = (&experimentalService{content: catalog}).ExperimentalListPackageCustomSchemas(
		&registrypb.ListPackageCustomSchemasRequest{Schema: "example.lifecycle", PackageName: "etcd"}, stream)
	if got := status.Convert(err); got.Code() != codes.Internal || got.Message() != context.Canceled.Error() || stream.sent > 0 {
		t.Errorf("after %d messages: got error %v", stream.sent, err)
	}
}
