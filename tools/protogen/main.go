// Command protogen generates the Go code of a .proto file and writes it to the folder of that
// file. protoc-gen-go generates messages, and protoc-gen-go-grpc generates services. protogen
// compiles the .proto file itself, so that code generation needs only this module.
//
// The two generators must be in the same folder as protogen. The build of the module's tools puts
// them there.
//
//	protogen internal/classic/registry/registrypb/registry.proto
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen FILE.proto")
		os.Exit(2)
	}
	if err := generateCode(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generateCode generates the code of one file and writes it to the folder of that file.
func generateCode(ctx context.Context, path string) error {
	dir, name := filepath.Split(path)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return err
	}

	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      appendWithImports(nil, map[string]bool{}, files[0]),
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}

	for _, generator := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := runGenerator(ctx, filepath.Join(filepath.Dir(self), generator), request, dir); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}

	return nil
}

// appendWithImports appends a file to list, after the files that it imports. It skips files in
// seen and adds each file to it.
func appendWithImports(list []*descriptorpb.FileDescriptorProto, seen map[string]bool, file protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return list
	}

	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		list = appendWithImports(list, seen, file.Imports().Get(i).FileDescriptor)
	}
	return append(list, protodesc.ToFileDescriptorProto(file))
}

// runGenerator runs a generator with the request and writes the files that it returns to a
// folder.
func runGenerator(ctx context.Context, generator string, request *pluginpb.CodeGeneratorRequest, dir string) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}

	cmd := exec.CommandContext(ctx, generator)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}

	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}

	for _, file := range response.GetFile() {
		// Generated code is part of the repository, which all users may read.
		if err := os.WriteFile(filepath.Join(dir, file.GetName()), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}

	return nil
}
