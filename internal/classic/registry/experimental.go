package registry

import (
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// acknowledgeMetadataKey is the metadata with which a client accepts that a call may change.
const acknowledgeMetadataKey = "x-acknowledge-experimental"

// experimentalService answers the calls of api.ExperimentalRegistry.
type experimentalService struct {
	registrypb.UnimplementedExperimentalRegistryServer

	content *content.Content
}

func (s *experimentalService) ExperimentalListPackageCustomSchemas(request *registrypb.ListPackageCustomSchemasRequest, stream grpc.ServerStreamingServer[structpb.Struct]) error {
	sent, _ := metadata.FromIncomingContext(stream.Context()) // Missing metadata is empty.
	if !slices.Contains(sent.Get(acknowledgeMetadataKey), "true") {
		return nil
	}
	if request.GetSchema() == "" {
		return status.Error(codes.InvalidArgument, "schema is required")
	}

	for blob, err := range s.content.CustomBlobs(request.GetSchema(), request.GetPackageName()) {
		var name *content.NameError
		if errors.As(err, &name) {
			return status.Errorf(codes.InvalidArgument, "invalid custom schema query: %v", err)
		}
		if err == nil {
			err = sendCustomBlob(stream, blob)
		}
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}

	return nil
}

// sendCustomBlob sends a blob as a Struct.
func sendCustomBlob(stream grpc.ServerStreamingServer[structpb.Struct], blob []byte) error {
	// If the client has disconnected, the conversion would be wasted.
	if err := stream.Context().Err(); err != nil {
		return err
	}

	answer := &structpb.Struct{}
	if err := answer.UnmarshalJSON(blob); err != nil {
		return err
	}
	return stream.Send(answer)
}
