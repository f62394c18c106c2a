package dial_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

var name = types.NamespacedName{Namespace: "olm", Name: "catalog"}

// patience is how long a state may take on a busy machine.
const patience = 2 * time.Minute

// serve runs a catalog at an address. It returns the address and a function that stops it.
func serve(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	return catalogserver.Serve(t, address, content.Folder{Dir: filepath.Join("..", "registry", "testdata", "catalog")})
}

// pool returns a pool and a channel that receives its changes.
func pool(t *testing.T, options dial.Options) (*dial.Pool, <-chan struct{}) {
	t.Helper()
	changed := make(chan struct{}, 1)
	options.OnChange = func(types.NamespacedName) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}

	p := dial.New(options)
	t.Cleanup(p.Close)

	return p, changed
}

// await waits until the connection is in a state.
func await(t *testing.T, p *dial.Pool, changed <-chan struct{}, want connectivity.State) dial.State {
	t.Helper()
	end := time.After(patience)
	for {
		state, ok := p.State(name)
		if !ok {
			t.Fatal("the catalog is not in the pool")
		}
		if state.Connectivity == want {
			return state
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("the connection is %s (%v), and does not become %s", state.Connectivity, state.Err, want)
		}
	}
}

func set(t *testing.T, p *dial.Pool, address string) {
	t.Helper()
	if err := p.Set(name, address); err != nil {
		t.Fatal(err)
	}
}

// packages lists the packages of the catalog.
func packages(t *testing.T, p *dial.Pool) ([]string, error) {
	t.Helper()
	client, ok := p.Client(name)
	if !ok {
		t.Fatal("the catalog has no client")
	}

	stream, err := client.ListPackages(t.Context(), &registrypb.ListPackageRequest{})
	if err != nil {
		return nil, err
	}

	var names []string
	for {
		p, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return names, err
		}
		names = append(names, p.GetName())
	}
}

// TestReconnect: a catalog that was stopped is dialled until it runs again, without a
// request.
func TestReconnect(t *testing.T) {
	address, stop := serve(t, "127.0.0.1:0")
	p, changed := pool(t, dial.Options{})
	set(t, p, address)
	state := await(t, p, changed, connectivity.Ready)
	if state.Address != address || state.Err != nil || state.Since.IsZero() || state.Tried.IsZero() {
		t.Errorf("got the state %+v", state)
	}

	got, err := packages(t, p)
	if err != nil || strings.Join(got, " ") != "etcd prometheus" {
		t.Errorf("got the packages %v, error %v", got, err)
	}

	stop()
	state = await(t, p, changed, connectivity.TransientFailure)
	if state.Err == nil || !strings.Contains(state.Err.Error(), "refused") {
		t.Errorf("the state has no error: %v", state.Err)
	}
	if _, err := packages(t, p); status.Code(err) != codes.Unavailable {
		t.Errorf("a call to a stopped catalog: got error %v", err)
	}

	serve(t, address)
	p.Retry(name)
	await(t, p, changed, connectivity.Ready)
}

func TestAnotherAddress(t *testing.T) {
	first, stop := serve(t, "127.0.0.1:0")
	second, _ := serve(t, "127.0.0.1:0")
	p, changed := pool(t, dial.Options{})
	set(t, p, first)
	since := await(t, p, changed, connectivity.Ready).Since
	set(t, p, first)
	if state, _ := p.State(name); state.Since != since {
		t.Error("the same address was dialled again")
	}

	set(t, p, second)
	stop()
	if state := await(t, p, changed, connectivity.Ready); state.Address != second {
		t.Errorf("connected to %s, want %s", state.Address, second)
	}
	if _, err := packages(t, p); err != nil {
		t.Error(err)
	}
}

func TestInvalidAddresses(t *testing.T) {
	p, _ := pool(t, dial.Options{})
	for _, address := range []string{"", "catalog", ":50051", "catalog:", "catalog:0", "catalog:65536", "catalog:grpc", "https://catalog:50051", "a:b:c"} {
		set(t, p, "127.0.0.1:1")
		if err := p.Set(name, address); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%q: got error %v", address, err)
		}
		if _, ok := p.State(name); ok {
			t.Errorf("%q: the old address is still dialled", address)
		}
	}
}

func TestRemoved(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0")
	p, changed := pool(t, dial.Options{})
	set(t, p, address)
	await(t, p, changed, connectivity.Ready)
	if got := p.Catalogs(); len(got) != 1 || got[0] != name {
		t.Errorf("got the catalogs %v", got)
	}

	client, _ := p.Client(name)
	p.Remove(name)
	p.Remove(name)
	if _, ok := p.Client(name); ok {
		t.Error("a removed catalog has a client")
	}
	if _, ok := p.State(name); ok {
		t.Error("a removed catalog has a state")
	}
	if _, err := client.GetPackage(t.Context(), &registrypb.GetPackageRequest{Name: "etcd"}); err == nil {
		t.Error("the client of a removed catalog still works")
	}

	p.Retry(name) // Nothing to do.
	p.Close()
	if err := p.Set(name, address); err == nil {
		t.Error("a closed pool accepts a catalog")
	}
}

// TestCloseLeavesNoGoroutines: a pool that is closed leaves nothing running.
func TestCloseLeavesNoGoroutines(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0")
	p, changed := pool(t, dial.Options{})
	set(t, p, address)
	await(t, p, changed, connectivity.Ready)
	for i := range 20 {
		set(t, p, []string{address, "127.0.0.1:1"}[i%2])
	}

	p.Close()
	end := time.Now().Add(patience)
	for ; ; runtime.Gosched() {
		running := stacks()
		if !strings.Contains(running, "dial.(*Pool)") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still running:\n%s", running)
		}
	}
}

func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}

// TestLargeAnswers: a response that is too large fails that call, and nothing else.
func TestLargeAnswers(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0")
	p, changed := pool(t, dial.Options{MaxMessageBytes: 8})
	set(t, p, address)
	await(t, p, changed, connectivity.Ready)
	if _, err := packages(t, p); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got error %v", err)
	}
	if state, _ := p.State(name); state.Connectivity != connectivity.Ready {
		t.Errorf("got the connection state %s", state.Connectivity)
	}
}

func TestUnresponsiveServers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n")
			_ = conn.Close()
		}
	}()

	p, changed := pool(t, dial.Options{})
	set(t, p, listener.Addr().String())
	await(t, p, changed, connectivity.TransientFailure)
}

func TestTell(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0")
	p, changed := pool(t, dial.Options{})
	notified := make(chan types.NamespacedName, 100)
	p.OnChange(func(catalog types.NamespacedName) { notified <- catalog })
	set(t, p, address)
	await(t, p, changed, connectivity.Ready)
	if got := <-notified; got != name {
		t.Errorf("got a change of %v, want %v", got, name)
	}
}

func TestMain(m *testing.M) {
	// The variables of the machine must not influence the test.
	_ = os.Unsetenv("HTTPS_PROXY")
	os.Exit(m.Run())
}
