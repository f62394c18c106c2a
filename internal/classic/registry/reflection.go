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

// registerReflection lets strangers, such as grpcurl, learn the services of a server.
//
// gRPC's own reflection makes the description of a file anew from Go's view of it, for
// which it loads the description of descriptions at the start of each program that links
// it: half a megabyte for each run of opm, most of which serve nothing. The files of this
// server are known, and have their descriptions in them as the compiler wrote them.
func registerReflection(server *grpc.Server) {
	r := &reflector{services: server.GetServiceInfo}
	reflectionv1.RegisterServerReflectionServer(server, r)
	reflectionv1alpha.RegisterServerReflectionServer(server, &oldReflector{r})
}

// described has a message of each file that the services of the server need. The method
// is deprecated because it knows of the file only, which is what is wanted here.
var described = []interface{ Descriptor() ([]byte, []int) }{
	(*registrypb.Bundle)(nil), (*structpb.Struct)(nil), (*grpc_health_v1.HealthCheckRequest)(nil),
	(*reflectionv1.ServerReflectionRequest)(nil), (*reflectionv1alpha.ServerReflectionRequest)(nil), //nolint:staticcheck // It is deprecated, and served to older clients.
}

// reflector answers by the protocol's version 1.
type reflector struct {
	reflectionv1.UnimplementedServerReflectionServer

	services func() map[string]grpc.ServiceInfo
}

// ServerReflectionInfo answers one question after the other.
func (r *reflector) ServerReflectionInfo(stream reflectionv1.ServerReflection_ServerReflectionInfoServer) error {
	sent := map[string]bool{}
	for {
		question, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		answer, err := r.answer(question, sent)
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// answer leaves out files that the client has been sent.
func (r *reflector) answer(question *reflectionv1.ServerReflectionRequest, sent map[string]bool) (*reflectionv1.ServerReflectionResponse, error) {
	answer := &reflectionv1.ServerReflectionResponse{ValidHost: question.GetHost(), OriginalRequest: question}
	var err error
	switch wanted := question.GetMessageRequest().(type) {
	case *reflectionv1.ServerReflectionRequest_ListServices:
		list := &reflectionv1.ListServiceResponse{}
		for _, name := range slices.Sorted(maps.Keys(r.services())) {
			list.Service = append(list.Service, &reflectionv1.ServiceResponse{Name: name})
		}
		answer.MessageResponse = &reflectionv1.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}

	case *reflectionv1.ServerReflectionRequest_FileByFilename:
		var file protoreflect.FileDescriptor
		if file, err = protoregistry.GlobalFiles.FindFileByPath(wanted.FileByFilename); err == nil {
			err = putFiles(answer, file, sent)
		}
	case *reflectionv1.ServerReflectionRequest_FileContainingSymbol:
		var found protoreflect.Descriptor
		if found, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(wanted.FileContainingSymbol)); err == nil {
			err = putFiles(answer, found.ParentFile(), sent)
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

// putFiles answers with a file and those that it imports.
func putFiles(answer *reflectionv1.ServerReflectionResponse, file protoreflect.FileDescriptor, sent map[string]bool) error {
	files := &reflectionv1.FileDescriptorResponse{}
	for queue := []protoreflect.FileDescriptor{file}; len(queue) > 0; queue = queue[1:] {
		if sent[queue[0].Path()] {
			continue
		}

		description, err := description(queue[0].Path())
		if err != nil {
			return err
		}

		sent[queue[0].Path()] = true
		files.FileDescriptorProto = append(files.FileDescriptorProto, description)
		imports := queue[0].Imports()
		for i := range imports.Len() {
			queue = append(queue, imports.Get(i).FileDescriptor)
		}
	}

	answer.MessageResponse = &reflectionv1.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: files}
	return nil
}

// description returns a file as the compiler described it.
func description(path string) ([]byte, error) {
	for _, message := range described {
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

// oldReflector answers by the protocol's first version, whose messages are the same.
type oldReflector struct{ current *reflector }

// ServerReflectionInfo answers one question after the other.
func (r *oldReflector) ServerReflectionInfo(stream reflectionv1alpha.ServerReflection_ServerReflectionInfoServer) error {
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
		if err := convert(old, question); err != nil {
			return err
		}

		answer, err := r.current.answer(question, sent)
		if err != nil {
			return err
		}

		oldAnswer := &reflectionv1alpha.ServerReflectionResponse{} //nolint:staticcheck // It is deprecated, and asked for by older clients.
		if err := convert(answer, oldAnswer); err != nil {
			return err
		}
		if err := stream.Send(oldAnswer); err != nil {
			return err
		}
	}
}

// convert reads a message as another one of the same form.
func convert(from, to proto.Message) error {
	data, err := proto.Marshal(from)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, to)
}
