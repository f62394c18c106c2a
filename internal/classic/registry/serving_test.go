package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
)

// largeAnswers allows a client to receive responses of any size.
var largeAnswers = grpc.MaxCallRecvMsgSize(1 << 30)

// start runs a server until the test ends and returns its address.
func start(t testing.TB, s *registry.Server) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	address, ended := run(ctx, t, s)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})

	return address
}

// run runs a server. It returns its address once it serves, and a channel with the result of
// Run.
func run(ctx context.Context, t testing.TB, s *registry.Server) (address string, ended <-chan error) {
	t.Helper()
	ready, end := make(chan string, 1), make(chan error, 1)
	s.Address = "127.0.0.1:0"
	s.OnReady = func(address net.Addr) { ready <- address.String() }
	go func() { end <- s.Run(ctx) }()
	select {
	case address := <-ready:
		return address, end
	case err := <-end:
		t.Fatalf("the server did not start: %v", err)
		return "", nil
	}
}

// heldCall is a call that continues until the client ends it: one of reflection, which returns
// a response to each request.
type heldCall struct {
	stream grpc_reflection_v1.ServerReflection_ServerReflectionInfoClient
}

func newHeldCall(t testing.TB, connection *grpc.ClientConn) *heldCall {
	t.Helper()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(connection).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	h := &heldCall{stream: stream}
	h.ask(t)
	return h
}

func (h *heldCall) ask(t testing.TB) {
	t.Helper()
	if err := h.stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}

	if _, err := h.stream.Recv(); err != nil {
		t.Fatal(err)
	}
}

// finish sends another request and ends the call.
func (h *heldCall) finish(t testing.TB) {
	t.Helper()
	h.ask(t)
	if err := h.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("got error %v at the end of the call", err)
	}
}

func dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// write makes a folder of files.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// normal returns JSON in a normalized form.
func normal(t testing.TB, text string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}

	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}

	return string(out)
}
