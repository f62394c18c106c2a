// Package dial keeps the gRPC connections to catalogs: one for each, in the state that it
// is in, for whoever asks a catalog. It dials again by itself for as long as a catalog is
// in the pool.
//
// Which catalogs there are, and where, is told by its users; it knows no cluster.
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

// Limits of what a catalog can make its client hold, and of how often it is tried.
const (
	// DefaultMaxMessageBytes bounds one answer. The largest one is a bundle with all of its
	// manifests, which is some MiB for the largest operators of the field.
	DefaultMaxMessageBytes = 32 << 20
	// maxHeaderBytes bounds the metadata of an answer.
	maxHeaderBytes = 64 << 10
	// maxPause is the longest time between two attempts to connect. It is short, for what
	// cannot be reached holds up what is installed from it.
	maxPause = 20 * time.Second
	// attempt is how long one attempt to connect may take.
	attempt = 20 * time.Second
)

// Options are what a pool is made with. The zero value is ready for use.
type Options struct {
	// Changed is told the name of a catalog whose connection has changed its state; State
	// then says to which. It is called from several goroutines, one at a time for each
	// catalog, and must not wait: the connection's next change is held up meanwhile. A call
	// may still come for a catalog that was just removed. Nil means nobody.
	Changed func(types.NamespacedName)
	// Proxy says which proxies connections go through. The zero value means none.
	Proxy Proxy
	// MaxMessageBytes bounds one answer of a catalog. Zero means DefaultMaxMessageBytes.
	MaxMessageBytes int
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// State is what is known of the connection to a catalog.
type State struct {
	// Address is where the catalog is, as host:port.
	Address string
	// Connectivity is the state of the connection. Its text is one of IDLE, CONNECTING,
	// READY and TRANSIENT_FAILURE.
	Connectivity connectivity.State
	// Since is when the connection came into this state.
	Since time.Time
	// Tried is when the latest attempt to reach the address ended, zero when there was none.
	Tried time.Time
	// Err is why that attempt has failed. Nil when it has not, or when there was none.
	Err error
}

// Pool holds a connection for each catalog. It is safe for use by several goroutines.
type Pool struct {
	options Options
	// open ends when the pool is closed.
	open  context.Context
	close context.CancelFunc

	mu          sync.Mutex
	told        []func(types.NamespacedName)
	connections map[types.NamespacedName]*connection
	watchers    sync.WaitGroup
}

// New makes an empty pool. Close ends it.
func New(options Options) *Pool {
	if options.MaxMessageBytes == 0 {
		options.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}

	open, end := context.WithCancel(context.Background())
	p := &Pool{options: options, open: open, close: end, connections: map[types.NamespacedName]*connection{}}
	if options.Changed != nil {
		p.told = append(p.told, options.Changed)
	}

	return p
}

// Tell has one more be told of changes, as Options.Changed is. It hears of those from now on.
func (p *Pool) Tell(changed func(types.NamespacedName)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, changed)
}

// changed tells that the connection to a catalog has changed.
func (p *Pool) changed(catalog types.NamespacedName) {
	p.mu.Lock()
	told := slices.Clone(p.told)
	p.mu.Unlock()
	for _, tell := range told {
		tell(catalog)
	}
}

// connection is the one to a catalog.
type connection struct {
	client *grpc.ClientConn

	mu    sync.Mutex
	state State
}

// Set has a catalog be reached at an address, as host:port. It returns at once. A
// connection to another address is closed; one to the same address is left as it is. It
// fails for an address that can be none, and then the catalog is not in the pool any more.
func (p *Pool) Set(catalog types.NamespacedName, address string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open.Err() != nil {
		return errors.New("the pool of connections to catalogs is closed")
	}

	if have := p.connections[catalog]; have != nil {
		if have.state.Address == address { // It never changes.
			return nil
		}
		p.remove(catalog)
	}

	if err := checkAddress(address); err != nil {
		return err
	}

	made, err := p.connect(address)
	if err != nil {
		return fmt.Errorf("address %q of a catalog: %w", address, err)
	}

	p.connections[catalog] = made
	p.watchers.Go(func() { p.watch(catalog, made) })
	return nil
}

// checkAddress reports whether something could be reached at an address.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the address of a catalog is HOST:PORT, not %q: %w", address, err)
	}
	if host == "" {
		return fmt.Errorf("the address of a catalog is HOST:PORT, not %q: it names no host", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the address of a catalog is HOST:PORT, not %q: a port is a number from 1 to 65535", address)
	}

	return nil
}

// connect makes a connection, which does nothing by itself yet.
func (p *Pool) connect(address string) (*connection, error) {
	c := &connection{state: State{Address: address, Since: p.options.Clock.Now()}}
	pause := backoff.DefaultConfig
	pause.MaxDelay = maxPause
	// The name is looked up at each attempt: that of a Service leads elsewhere once it was made anew.
	client, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := p.options.Proxy.dial(ctx, address)
			c.tried(p.options.Clock.Now(), err)
			return conn, err
		}),
		grpc.WithNoProxy(), // Proxies are the dialer's.
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0), // A catalog that nobody asks is still to be seen going away.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: attempt}),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(p.options.MaxMessageBytes)),
	)
	if err != nil {
		return nil, err
	}

	c.client = client
	return c, nil
}

func (c *connection) tried(now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Tried, c.state.Err = now, err
}

// watch follows the states of a connection until it is closed.
func (p *Pool) watch(catalog types.NamespacedName, c *connection) {
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
			p.changed(catalog)
		}

		first = false
		if state == connectivity.Idle {
			c.client.Connect()
		}

		c.client.WaitForStateChange(p.open, state)
	}
}

// Remove closes the connection to a catalog. It does nothing for one that there is none to.
func (p *Pool) Remove(catalog types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(catalog)
}

func (p *Pool) remove(catalog types.NamespacedName) {
	c := p.connections[catalog]
	if c == nil {
		return
	}
	delete(p.connections, catalog)
	_ = c.client.Close() // It fails only when it is closed already.
}

// Retry has a catalog that could not be reached be tried at once, and not only after the
// pause that it is due. It does nothing for one that is connected, or not in the pool.
func (p *Pool) Retry(catalog types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.connections[catalog]; c != nil {
		c.client.ResetConnectBackoff()
	}
}

// Client returns the client of a catalog. Its calls fail at once while the catalog cannot be
// reached. It is false for a catalog that is not in the pool.
func (p *Pool) Client(catalog types.NamespacedName) (registrypb.RegistryClient, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.connections[catalog]
	if c == nil {
		return nil, false
	}
	return registrypb.NewRegistryClient(c.client), true
}

// State returns the state of the connection to a catalog. It is false for a catalog that is
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

// Catalogs returns the names of the catalogs in the pool, in no order.
func (p *Pool) Catalogs() []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.connections))
}

// Close closes all connections and waits until nobody is told of changes any more. It must
// not be called by Changed. The pool takes no catalogs afterwards.
func (p *Pool) Close() {
	p.mu.Lock()
	for catalog := range p.connections {
		p.remove(catalog)
	}
	p.close()
	p.mu.Unlock()
	p.watchers.Wait()
}
