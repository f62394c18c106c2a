package registry

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// Catalogs serves several catalogs with one gRPC server. A call is for the catalog to whose Service the
// client has connected: clients send the address as the authority of the call. Authorities have the form
// SERVICE.NAMESPACE, with any suffix and port. It is safe for concurrent use.
type Catalogs struct {
	server *grpc.Server
	local  *localListener

	mu     sync.Mutex
	served map[string]*servedCatalog // by SERVICE.NAMESPACE
	// released counts the contents that are not closed yet.
	released sync.WaitGroup
}

// servedCatalog is a catalog that is served. Its content is closed after the last call.
type servedCatalog struct {
	catalogServices

	content *content.Content
	calls   sync.WaitGroup
}

// NewCatalogs returns a server without catalogs, which accepts local connections. It must be stopped. The
// log receives each call at debug level.
func NewCatalogs(log *slog.Logger) *Catalogs {
	c := &Catalogs{served: map[string]*servedCatalog{}, local: newLocalListener()}
	c.server = grpc.NewServer(serverOptions(&callLogger{log: log, onError: func(error) {}})...)
	c.registerRouted(&registrypb.Registry_ServiceDesc, func(s *servedCatalog) any { return s.registry })
	c.registerRouted(&registrypb.ExperimentalRegistry_ServiceDesc, func(s *servedCatalog) any { return s.experimental })
	c.registerRouted(&grpc_health_v1.Health_ServiceDesc, func(s *servedCatalog) any { return s.health })
	reflection.Register(c.server)
	go func() { _ = c.server.Serve(c.local) }() // It ends when the server is stopped.

	return c
}

// Serve serves the catalogs to a listener until the server is stopped.
func (c *Catalogs) Serve(listener net.Listener) error {
	if err := c.server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Dial connects to the server within the process.
func (c *Catalogs) Dial(ctx context.Context) (net.Conn, error) { return c.local.dialContext(ctx) }

// Set serves content at a Service, instead of what was served there before. It closes the content when
// that is replaced or removed.
func (c *Catalogs) Set(service, namespace string, catalog *content.Content) {
	c.replaceCatalog(service+"."+namespace, &servedCatalog{catalogServices: newCatalogServices(catalog, false), content: catalog})
}

// Remove stops serving the content at a Service, if there is any.
func (c *Catalogs) Remove(service, namespace string) { c.replaceCatalog(service+"."+namespace, nil) }

// replaceCatalog replaces a catalog and closes the old content after the calls in flight.
func (c *Catalogs) replaceCatalog(key string, catalog *servedCatalog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.served[key]
	delete(c.served, key)
	if catalog != nil {
		c.served[key] = catalog
	}
	if old != nil {
		c.released.Go(func() {
			old.calls.Wait()
			_ = old.content.Close() // It was only read.
		})
	}
}

// Stop ends all calls and closes all contents.
func (c *Catalogs) Stop() {
	stopTimer := time.AfterFunc(defaultShutdownTimeout, c.server.Stop)
	defer stopTimer.Stop()
	c.server.GracefulStop()
	c.mu.Lock()
	for key, catalog := range c.served {
		delete(c.served, key)
		_ = catalog.content.Close() // It was only read.
	}

	c.mu.Unlock()
	c.released.Wait()
}

// registerRouted registers a service whose calls go to the catalog of their authority.
func (c *Catalogs) registerRouted(desc *grpc.ServiceDesc, serviceOf func(*servedCatalog) any) {
	routed := *desc
	routed.Methods = nil
	for _, method := range desc.Methods {
		handle := method.Handler
		method.Handler = func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			catalog, err := c.findCatalog(ctx)
			if err != nil {
				return nil, err
			}
			defer catalog.calls.Done()
			answer, err := handle(serviceOf(catalog), ctx, decode, interceptor)
			catalog.health.recordReadError(err)
			return answer, err
		}
		routed.Methods = append(routed.Methods, method)
	}

	routed.Streams = nil
	for _, stream := range desc.Streams {
		handle := stream.Handler
		stream.Handler = func(_ any, s grpc.ServerStream) error {
			catalog, err := c.findCatalog(s.Context())
			if err != nil {
				return err
			}
			defer catalog.calls.Done()
			err = handle(serviceOf(catalog), s)
			catalog.health.recordReadError(err)
			return err
		}
		routed.Streams = append(routed.Streams, stream)
	}

	c.server.RegisterService(&routed, nil)
}

// findCatalog returns the catalog that a call is for. The caller ends the call with calls.Done.
func (c *Catalogs) findCatalog(ctx context.Context) (*servedCatalog, error) {
	var authority string
	if sent := metadata.ValueFromIncomingContext(ctx, ":authority"); len(sent) > 0 {
		authority = sent[0]
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	catalog := c.served[catalogKeyOf(authority)]
	if catalog == nil {
		return nil, status.Errorf(codes.Unavailable, "no catalog is served at %.253q: connect to SERVICE.NAMESPACE.svc:50051, or send that as the authority", authority)
	}

	catalog.calls.Add(1)
	return catalog, nil
}

// catalogKeyOf returns SERVICE.NAMESPACE of an authority such as SERVICE.NAMESPACE.svc:50051, or "".
func catalogKeyOf(authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
	}
	parts := strings.SplitN(host, ".", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// localListener accepts connections from within the process.
type localListener struct {
	pending chan net.Conn
	closed  chan struct{}
	close   func()
}

func newLocalListener() *localListener {
	l := &localListener{pending: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// dialContext returns a connection to the listener.
func (l *localListener) dialContext(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.pending <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *localListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.pending:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *localListener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *localListener) Addr() net.Addr { return localAddress{} }

type localAddress struct{}

func (localAddress) Network() string { return "local" }
func (localAddress) String() string  { return "local" }
