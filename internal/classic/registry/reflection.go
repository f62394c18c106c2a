package registry

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// registerReflection registers the reflection service, with which clients such as grpcurl learn
// the services of a server.
//
// gRPC's own reflection builds file descriptors from Go's view of them. For this it loads the
// descriptor of descriptors when a program starts that links it. This costs each run of opm
// half a megabyte, and most runs serve nothing. The files of this server are known, and contain
// their descriptors as the compiler wrote them.
func registerReflection(server *grpc.Server) {
	r := &reflector{serviceInfo: server.GetServiceInfo}
	reflectionv1.RegisterServerReflectionServer(server, r)
	reflectionv1alpha.RegisterServerReflectionServer(server, &alphaReflector{r})
}

// descriptorMessages has one message of each file that the server's services need. The method
// Descriptor is deprecated because it knows only the file; only the file is needed here.
var descriptorMessages = []interface{ Descriptor() ([]byte, []int) }{
	(*registrypb.Bundle)(nil), (*structpb.Struct)(nil), (*grpc_health_v1.HealthCheckRequest)(nil),
	(*reflectionv1.ServerReflectionRequest)(nil), (*reflectionv1alpha.ServerReflectionRequest)(nil), //nolint:staticcheck // It is deprecated, and served to older clients.
}

// reflector implements version 1 of the reflection protocol.
type reflector struct {
	reflectionv1.UnimplementedServerReflectionServer

	serviceInfo func() map[string]grpc.ServiceInfo
}

// ServerReflectionInfo answers the requests of a stream in order.
func (r *reflector) ServerReflectionInfo(stream reflectionv1.ServerReflection_ServerReflectionInfoServer) error {
	sent := map[string]bool{}
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		answer, err := r.answerRequest(request, sent)
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// answerRequest answers one request. It leaves out files that were sent already, which are the
// keys of sent.
func (r *reflector) answerRequest(request *reflectionv1.ServerReflectionRequest, sent map[string]bool) (*reflectionv1.ServerReflectionResponse, error) {
	answer := &reflectionv1.ServerReflectionResponse{ValidHost: request.GetHost(), OriginalRequest: request}
	var err error
	switch wanted := request.GetMessageRequest().(type) {
	case *reflectionv1.ServerReflectionRequest_ListServices:
		list := &reflectionv1.ListServiceResponse{}
		for _, name := range slices.Sorted(maps.Keys(r.serviceInfo())) {
			list.Service = append(list.Service, &reflectionv1.ServiceResponse{Name: name})
		}
		answer.MessageResponse = &reflectionv1.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}

	case *reflectionv1.ServerReflectionRequest_FileByFilename:
		var file protoreflect.FileDescriptor
		if file, err = protoregistry.GlobalFiles.FindFileByPath(wanted.FileByFilename); err == nil {
			err = setFileResponse(answer, file, sent)
		}
	case *reflectionv1.ServerReflectionRequest_FileContainingSymbol:
		var found protoreflect.Descriptor
		if found, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(wanted.FileContainingSymbol)); err == nil {
			err = setFileResponse(answer, found.ParentFile(), sent)
		}
	case *reflectionv1.ServerReflectionRequest_AllExtensionNumbersOfType:
		name := protoreflect.FullName(wanted.AllExtensionNumbersOfType)
		_, err = protoregistry.GlobalTypes.FindMessageByName(name)
		none := &reflectionv1.ExtensionNumberResponse{BaseTypeName: string(name)}
		answer.MessageResponse = &reflectionv1.ServerReflectionResponse_AllExtensionNumbersResponse{AllExtensionNumbersResponse: none}
	case *reflectionv1.ServerReflectionRequest_FileContainingExtension:
		err = protoregistry.NotFound // no file of the server extends another
	default:
		return nil, status.Error(codes.InvalidArgument, "the request asks for nothing that is known")
	}

	if err != nil {
		answer.MessageResponse = &reflectionv1.ServerReflectionResponse_ErrorResponse{ErrorResponse: &reflectionv1.ErrorResponse{
			ErrorCode: int32(codes.NotFound), ErrorMessage: err.Error(),
		}}
	}

	return answer, nil
}

// setFileResponse sets a file and the files that it imports as the answer. It adds them to
// sent.
func setFileResponse(answer *reflectionv1.ServerReflectionResponse, file protoreflect.FileDescriptor, sent map[string]bool) error {
	files := &reflectionv1.FileDescriptorResponse{}
	for queue := []protoreflect.FileDescriptor{file}; len(queue) > 0; queue = queue[1:] {
		if sent[queue[0].Path()] {
			continue
		}

		descriptor, err := readFileDescriptor(queue[0].Path())
		if err != nil {
			return err
		}

		sent[queue[0].Path()] = true
		files.FileDescriptorProto = append(files.FileDescriptorProto, descriptor)
		imports := queue[0].Imports()
		for i := range imports.Len() {
			queue = append(queue, imports.Get(i).FileDescriptor)
		}
	}

	answer.MessageResponse = &reflectionv1.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: files}
	return nil
}

// readFileDescriptor returns the descriptor of a file as the compiler wrote it.
func readFileDescriptor(path string) ([]byte, error) {
	for _, message := range descriptorMessages {
		if message.(proto.Message).ProtoReflect().Descriptor().ParentFile().Path() != path {
			continue
		}

		packed, _ := message.Descriptor()
		reader, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}

		return io.ReadAll(reader) // It is part of the program.
	}

	return nil, protoregistry.NotFound
}

// alphaReflector implements version 1alpha of the reflection protocol, which has the same
// messages.
type alphaReflector struct{ current *reflector }

// ServerReflectionInfo answers the requests of a stream in order.
func (r *alphaReflector) ServerReflectionInfo(stream reflectionv1alpha.ServerReflection_ServerReflectionInfoServer) error {
	sent := map[string]bool{}
	for {
		old, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		question := &reflectionv1.ServerReflectionRequest{}
		if err := convertMessage(old, question); err != nil {
			return err
		}

		answer, err := r.current.answerRequest(question, sent)
		if err != nil {
			return err
		}

		oldAnswer := &reflectionv1alpha.ServerReflectionResponse{} //nolint:staticcheck // It is deprecated, and asked for by older clients.
		if err := convertMessage(answer, oldAnswer); err != nil {
			return err
		}
		if err := stream.Send(oldAnswer); err != nil {
			return err
		}
	}
}

// convertMessage copies a message into one of another type with the same fields.
func convertMessage(from, to proto.Message) error {
	data, err := proto.Marshal(from)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, to)
}
