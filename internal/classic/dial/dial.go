// Package dial holds the gRPC connections to catalogs, one for each catalog in the pool. It
// reconnects as long as a catalog is in the pool.
//
// Callers add catalogs with their addresses. The package does not access a cluster.
package dial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// Limits for the memory that a catalog can make its client use, and for connection attempts.
const (
	// DefaultMaxMessageBytes limits a response. The largest response is a bundle with all its
	// manifests: some MiB for the largest public operators.
	DefaultMaxMessageBytes = 32 << 20
	// maxHeaderBytes limits the metadata of a response.
	maxHeaderBytes = 64 << 10
	// maxRetryInterval is the longest interval between two attempts to connect. It is short,
	// because a catalog that cannot be reached delays installations.
	maxRetryInterval = 20 * time.Second
	// connectTimeout limits one attempt to connect.
	connectTimeout = 20 * time.Second
)

// Options configure a pool. The zero value is ready for use.
type Options struct {
	// OnChange is called with a catalog when the state of its connection has changed. It is
	// called from several goroutines, but not concurrently for the same catalog. It must not
	// block, because that delays further changes of the connection. It may be called for a
	// catalog that was just removed. It may be nil.
	OnChange func(types.NamespacedName)
	// Proxy is the proxy for connections. The zero value means none.
	Proxy Proxy
	// MaxMessageBytes limits a response of a catalog. Zero means DefaultMaxMessageBytes.
	MaxMessageBytes int
	// Clock is the clock. If it is nil, the real time is used.
	Clock clock.PassiveClock
}

// State is the state of the connection to a catalog.
type State struct {
	// Address is the address of the catalog, as host:port.
	Address string
	// Connectivity is the state of the connection: one of IDLE, CONNECTING, READY and
	// TRANSIENT_FAILURE.
	Connectivity connectivity.State
	// Since is when the connection entered this state.
	Since time.Time
	// Tried is when the latest attempt to connect ended, or zero if there was none.
	Tried time.Time
	// Err is the error of the latest attempt to connect, or nil.
	Err error
}

// Pool holds a connection for each catalog. It is safe for concurrent use.
type Pool struct {
	options Options
	// baseContext ends when the pool is closed.
	baseContext context.Context
	cancel      context.CancelFunc

	mu             sync.Mutex
	changeHandlers []func(types.NamespacedName)
	connections    map[types.NamespacedName]*connection
	watchers       sync.WaitGroup
}

// New returns an empty pool, which must be closed.
func New(options Options) *Pool {
	if options.MaxMessageBytes == 0 {
		options.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}

	open, end := context.WithCancel(context.Background())
	p := &Pool{options: options, baseContext: open, cancel: end, connections: map[types.NamespacedName]*connection{}}
	if options.OnChange != nil {
		p.changeHandlers = append(p.changeHandlers, options.OnChange)
	}

	return p
}

// OnChange registers another function that is called like Options.Changed for future changes.
func (p *Pool) OnChange(changed func(types.NamespacedName)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeHandlers = append(p.changeHandlers, changed)
}

// notifyChange calls the registered functions.
func (p *Pool) notifyChange(catalog types.NamespacedName) {
	p.mu.Lock()
	told := slices.Clone(p.changeHandlers)
	p.mu.Unlock()
	for _, tell := range told {
		tell(catalog)
	}
}

// connection is the connection to a catalog.
type connection struct {
	client *grpc.ClientConn
	// isLocal is set if the catalog is served within the process.
	isLocal bool

	mu    sync.Mutex
	state State
}

// Set sets the address of a catalog, as host:port, and returns at once. It keeps a connection
// to the same address and closes one to another address. If the address is invalid, it returns
// an error and the catalog is not in the pool.
func (p *Pool) Set(catalog types.NamespacedName, address string) error {
	return p.setConnection(catalog, address, nil)
}

// SetLocal is like Set for a catalog that is served within the process. It connects with the given function
// instead of the network. The address is the authority of all calls.
func (p *Pool) SetLocal(catalog types.NamespacedName, address string, dial func(context.Context) (net.Conn, error)) error {
	return p.setConnection(catalog, address, dial)
}

// setConnection sets the address of a catalog. dialLocal is nil if it is reached over the network.
func (p *Pool) setConnection(catalog types.NamespacedName, address string, dialLocal func(context.Context) (net.Conn, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.baseContext.Err() != nil {
		return errors.New("the pool of connections to catalogs is closed")
	}

	if existing := p.connections[catalog]; existing != nil {
		if existing.state.Address == address && existing.isLocal == (dialLocal != nil) { // They never change.
			return nil
		}
		p.closeConnection(catalog)
	}

	if err := validateAddress(address); err != nil {
		return err
	}

	created, err := p.newConnection(address, dialLocal)
	if err != nil {
		return fmt.Errorf("address %q of a catalog: %w", address, err)
	}

	p.connections[catalog] = created
	p.watchers.Go(func() { p.watchConnectionState(catalog, created) })
	return nil
}

// validateAddress returns an error unless an address is a valid host:port.
func validateAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the address of a catalog is HOST:PORT, not %q: %w", address, err)
	}
	if host == "" {
		return fmt.Errorf("the address of a catalog is HOST:PORT, not %q: the host is missing", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the address of a catalog is HOST:PORT, not %q: a port is a number from 1 to 65535", address)
	}

	return nil
}

// newConnection returns a connection, which does not connect yet.
func (p *Pool) newConnection(address string, dialLocal func(context.Context) (net.Conn, error)) (*connection, error) {
	c := &connection{isLocal: dialLocal != nil, state: State{Address: address, Since: p.options.Clock.Now()}}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return p.options.Proxy.dialContext(ctx, address)
	}
	if dialLocal != nil {
		dial = func(ctx context.Context, _ string) (net.Conn, error) { return dialLocal(ctx) }
	}

	retryBackoff := backoff.DefaultConfig
	retryBackoff.MaxDelay = maxRetryInterval
	// The dialer resolves the name at each attempt: a recreated Service has another address.
	client, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			c.recordAttempt(p.options.Clock.Now(), err)
			return conn, err
		}),
		grpc.WithNoProxy(), // The dialer handles proxies.
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0), // The state must be known even if there are no calls.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retryBackoff, MinConnectTimeout: connectTimeout}),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(p.options.MaxMessageBytes), grpc.ForceCodecV2(newCodec())),
	)
	if err != nil {
		return nil, err
	}

	c.client = client
	return c, nil
}

// recordAttempt records the result of an attempt to connect.
func (c *connection) recordAttempt(now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Tried, c.state.Err = now, err
}

// watchConnectionState records and notifies state changes of a connection until it is closed.
func (p *Pool) watchConnectionState(catalog types.NamespacedName, c *connection) {
	first := true
	for {
		state := c.client.GetState()
		if state == connectivity.Shutdown {
			return
		}

		c.mu.Lock()
		changed := first || c.state.Connectivity != state
		if changed {
			c.state.Connectivity, c.state.Since = state, p.options.Clock.Now()
		}

		c.mu.Unlock()
		if changed {
			p.notifyChange(catalog)
		}

		first = false
		if state == connectivity.Idle {
			c.client.Connect()
		}

		c.client.WaitForStateChange(p.baseContext, state)
	}
}

// Remove closes the connection to a catalog and removes it. It does nothing if the catalog is
// not in the pool.
func (p *Pool) Remove(catalog types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeConnection(catalog)
}

// closeConnection closes and removes a connection. The caller must hold the lock.
func (p *Pool) closeConnection(catalog types.NamespacedName) {
	c := p.connections[catalog]
	if c == nil {
		return
	}
	delete(p.connections, catalog)
	_ = c.client.Close() // It fails only if it is already closed.
}

// Retry skips the remaining retry interval of a catalog that could not be reached. It does
// nothing if the catalog is connected or not in the pool.
func (p *Pool) Retry(catalog types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.connections[catalog]; c != nil {
		c.client.ResetConnectBackoff()
	}
}

// Client returns the client of a catalog. Its calls fail at once while the catalog cannot be
// reached. It returns false if the catalog is not in the pool.
func (p *Pool) Client(catalog types.NamespacedName) (registrypb.RegistryClient, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.connections[catalog]
	if c == nil {
		return nil, false
	}
	return registrypb.NewRegistryClient(c.client), true
}

// State returns the state of the connection to a catalog. It returns false if the catalog is
// not in the pool.
func (p *Pool) State(catalog types.NamespacedName) (State, bool) {
	p.mu.Lock()
	c := p.connections[catalog]
	p.mu.Unlock()
	if c == nil {
		return State{}, false
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, true
}

// Catalogs returns the names of the catalogs in the pool, unsorted.
func (p *Pool) Catalogs() []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.connections))
}

// Close closes all connections and waits for running calls of Changed, so Changed must not call
// it. Catalogs cannot be added afterwards.
func (p *Pool) Close() {
	p.mu.Lock()
	for catalog := range p.connections {
		p.closeConnection(catalog)
	}
	p.cancel()
	p.mu.Unlock()
	p.watchers.Wait()
}
