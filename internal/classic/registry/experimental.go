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

// acknowledge is the metadata by which a client says that it knows that a call may change.
const acknowledge = "x-acknowledge-experimental"

// experimental answers the calls of api.ExperimentalRegistry.
type experimental struct {
	registrypb.UnimplementedExperimentalRegistryServer

	content *content.Content
}

func (s *experimental) ExperimentalListPackageCustomSchemas(request *registrypb.ListPackageCustomSchemasRequest, stream grpc.ServerStreamingServer[structpb.Struct]) error {
	sent, _ := metadata.FromIncomingContext(stream.Context()) // There is none, or it is read.
	if !slices.Contains(sent.Get(acknowledge), "true") {
		return nil
	}
	if request.GetSchema() == "" {
		return status.Error(codes.InvalidArgument, "schema is required")
	}

	for blob, err := range s.content.Customs(request.GetSchema(), request.GetPackageName()) {
		var name *content.NameError
		if errors.As(err, &name) {
			return status.Errorf(codes.InvalidArgument, "invalid custom schema query: %v", err)
		}
		if err == nil {
			err = sendStruct(stream, blob)
		}
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}

	return nil
}

func sendStruct(stream grpc.ServerStreamingServer[structpb.Struct], blob []byte) error {
	// The end of a client that has gone is found out before the work is done.
	if err := stream.Context().Err(); err != nil {
		return err
	}

	answer := &structpb.Struct{}
	if err := answer.UnmarshalJSON(blob); err != nil {
		return err
	}
	return stream.Send(answer)
}
