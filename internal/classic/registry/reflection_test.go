package registry_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// reflectionClient is a client like grpcurl that knows only what reflection returns.
type reflectionClient struct {
	t          *testing.T
	connection *grpc.ClientConn
	reflection grpc_reflection_v1.ServerReflection_ServerReflectionInfoClient
	// files are those that the server has sent, by their path. It omits the files that it has
	// sent before.
	files map[string]*descriptorpb.FileDescriptorProto
}

func newReflectionClient(t *testing.T) *reflectionClient {
	t.Helper()
	connection := catalog(t)
	stream, err := grpc_reflection_v1.NewServerReflectionClient(connection).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &reflectionClient{t: t, connection: connection, reflection: stream, files: map[string]*descriptorpb.FileDescriptorProto{}}
}

func (s *reflectionClient) ask(request *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
	s.t.Helper()
	if err := s.reflection.Send(request); err != nil {
		s.t.Fatal(err)
	}

	answer, err := s.reflection.Recv()
	if err != nil {
		s.t.Fatal(err)
	}

	return answer
}

// method finds a call.
func (s *reflectionClient) method(service, name string) protoreflect.MethodDescriptor {
	s.t.Helper()
	answer := s.ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	})
	for _, encoded := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(encoded, file); err != nil {
			s.t.Fatal(err)
		}
		s.files[file.GetName()] = file
	}

	files, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: slices.Collect(maps.Values(s.files))})
	if err != nil {
		s.t.Fatal(err)
	}

	return find(s.t, files, service).Methods().ByName(protoreflect.Name(name))
}

func find(t *testing.T, files *protoregistry.Files, service string) protoreflect.ServiceDescriptor {
	t.Helper()
	found, err := files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatal(err)
	}
	return found.(protoreflect.ServiceDescriptor)
}

// call calls by name, with a request and responses in JSON.
func (s *reflectionClient) call(service, name, request string) (answers []string) {
	s.t.Helper()
	m := s.method(service, name)
	in := dynamicpb.NewMessage(m.Input())
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		s.t.Fatal(err)
	}

	stream, err := s.connection.NewStream(s.t.Context(), &grpc.StreamDesc{ServerStreams: m.IsStreamingServer()}, "/"+service+"/"+name)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(in), stream.CloseSend()); err != nil {
		s.t.Fatal(err)
	}

	for {
		out := dynamicpb.NewMessage(m.Output())
		if err := stream.RecvMsg(out); errors.Is(err, io.EOF) {
			return answers
		} else if err != nil {
			s.t.Fatal(err)
		}

		text, err := protojson.Marshal(out)
		if err != nil {
			s.t.Fatal(err)
		}

		answers = append(answers, string(text))
		if !m.IsStreamingServer() {
			return answers
		}
	}
}

func TestReflectionDescribesCallableMethods(t *testing.T) {
	s := newReflectionClient(t)
	if got := s.call("api.Registry", "ListPackages", `{}`); len(got) != 2 || normal(t, got[0]) != `{"name":"etcd"}` {
		t.Errorf("got packages %v", got)
	}
	if got := s.call("api.Registry", "GetPackage", `{"name": "etcd"}`); len(got) != 1 ||
		normal(t, got[0]) != `{"channels":[{"csvName":"etcdoperator.v0.9.2","name":"alpha"},{"csvName":"etcdoperator.v0.9.0","name":"stable"}],"defaultChannelName":"alpha","name":"etcd"}` {
		t.Errorf("got package %v", got)
	}
	if got := s.call("api.Registry", "ListBundles", `{}`); len(got) != 7 {
		t.Errorf("got %d bundles, want 7", len(got))
	}
	if got := s.call("grpc.health.v1.Health", "Check", `{}`); len(got) != 1 || normal(t, got[0]) != `{"status":"SERVING"}` {
		t.Errorf("got health %v", got)
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	s := newReflectionClient(t)
	answer := s.ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	})
	var got []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		got = append(got, service.GetName())
	}

	for _, want := range []string{"api.Registry", "api.ExperimentalRegistry", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} {
		if !slices.Contains(got, want) {
			t.Errorf("got no %s in %v", want, got)
		}
	}
}

// Older clients use the first version of the protocol.
func TestReflectionV1Alpha(t *testing.T) {
	stream, err := grpc_reflection_v1alpha.NewServerReflectionClient(catalog(t)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if err := stream.Send(&grpc_reflection_v1alpha.ServerReflectionRequest{ //nolint:staticcheck // It is what the test is about.
		MessageRequest: &grpc_reflection_v1alpha.ServerReflectionRequest_FileByFilename{FileByFilename: "registry.proto"}, //nolint:staticcheck // The same.
	}); err != nil {
		t.Fatal(err)
	}

	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 { //nolint:staticcheck // The same.
		t.Errorf("got the response %v", answer)
	}
}

// The files that the services need are described once each, and no others.
func TestReflectionDescribesEachFile(t *testing.T) {
	s := newReflectionClient(t)
	for _, service := range []string{"api.ExperimentalRegistry", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection", "grpc.health.v1.Health"} {
		answer := s.ask(&grpc_reflection_v1.ServerReflectionRequest{
			Host: "here", MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
		})
		for _, encoded := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(encoded, file); err != nil {
				t.Fatal(err)
			}
			if _, again := s.files[file.GetName()]; again {
				t.Errorf("%s was sent twice", file.GetName())
			}
			s.files[file.GetName()] = file
		}
		if answer.GetValidHost() != "here" || answer.GetOriginalRequest().GetFileContainingSymbol() != service {
			t.Errorf("got the response %v", answer)
		}
	}

	for path, file := range s.files {
		there, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(protodesc.ToFileDescriptorProto(there), file) {
			t.Errorf("%s: got another descriptor than that of the program", path)
		}
	}

	if len(s.files) != 5 {
		t.Errorf("got the files %v", slices.Sorted(maps.Keys(s.files)))
	}
}

// Reflection returns an error for unknown symbols, and serves further requests.
func TestReflectionErrors(t *testing.T) {
	s := newReflectionClient(t)
	extension := &grpc_reflection_v1.ExtensionRequest{ContainingType: "api.Bundle", ExtensionNumber: 1}
	for name, question := range map[string]*grpc_reflection_v1.ServerReflectionRequest{
		"file":      {MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileByFilename{FileByFilename: "x.proto"}},
		"symbol":    {MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "api.Nothing"}},
		"type":      {MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_AllExtensionNumbersOfType{AllExtensionNumbersOfType: "api.Nothing"}},
		"extension": {MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingExtension{FileContainingExtension: extension}},
	} {
		if answer := s.ask(question); answer.GetErrorResponse().GetErrorCode() != int32(codes.NotFound) {
			t.Errorf("%s: got the response %v", name, answer)
		}
	}

	answer := s.ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_AllExtensionNumbersOfType{AllExtensionNumbersOfType: "api.Bundle"},
	})
	if numbers := answer.GetAllExtensionNumbersResponse(); numbers.GetBaseTypeName() != "api.Bundle" || len(numbers.GetExtensionNumber()) > 0 {
		t.Errorf("got the extensions %v", answer)
	}
	if err := s.reflection.Send(&grpc_reflection_v1.ServerReflectionRequest{}); err != nil {
		t.Fatal(err)
	}
	if answer, err := s.reflection.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an empty request: got %v, error %v", answer, err)
	}
}
