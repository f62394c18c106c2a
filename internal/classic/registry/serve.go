package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
)

// DefaultAddress is the default listen address: all interfaces, on the port that clients
// expect.
const DefaultAddress = ":50051"

// DefaultPprofAddress is the default listen address of the profiles.
const DefaultPprofAddress = "localhost:6060"

// DefaultTerminationLog is the file from which Kubernetes reads why a container terminated.
const DefaultTerminationLog = "/dev/termination-log"

// defaultShutdownTimeout is how long calls in flight may take when the server stops. It is less
// than the 30 s after which Kubernetes kills a container.
const defaultShutdownTimeout = 20 * time.Second

// Server serves one catalog until its context ends.
//
// It listens only when the content is ready: until then, connections and health probes are
// refused. It does not write /etc/nsswitch.conf, as upstream opm does if the file is missing:
// Go's resolver reads /etc/hosts first even without it.
type Server struct {
	// Source is the catalog: a content.Folder, or a content.Stream.
	Source content.Source
	// Address is the listen address. If it is empty, DefaultAddress is used.
	Address string
	// CacheDir is the cache directory, see content.Cache. If it is empty, a temporary folder is
	// used and removed at the end.
	CacheDir string
	// CacheOnly is set to fill the cache directory and serve nothing.
	CacheOnly bool
	// Integrity says how to treat a cache that does not match the catalog.
	Integrity content.Integrity
	// TerminationLog is a file to which Run appends its error. It may be empty. If it cannot be
	// written, Run only logs a warning.
	TerminationLog string
	// PprofAddress is the listen address of the profiles. If it is empty, or if CacheOnly is
	// set, profiles are not served.
	PprofAddress string
	// PprofCaptureProfiles enables a CPU profile from the start until the server is ready. It
	// is served at /debug/pprof/startup/cpu.
	PprofCaptureProfiles bool
	// Log receives the messages of the start and, at debug level, of each call. It may be nil.
	Log *slog.Logger
	// OnReady is called with the listen address when the server is ready. It may be nil.
	OnReady func(net.Addr)
	// ShutdownTimeout is how long calls in flight may take when the server stops. Zero means 20 s.
	ShutdownTimeout time.Duration
}

// Run serves until the context ends and then returns nil. With CacheOnly it returns when the
// cache is filled. It appends its error to the termination log.
func (s *Server) Run(ctx context.Context) error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}

	termination := s.openTerminationLog()
	err := s.openAndServe(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// The context ended before the server was ready.
		err = nil
	}

	if termination != nil {
		if err != nil {
			_, _ = fmt.Fprintf(termination, "%v\n", err) // The error is returned as well.
		}
		_ = termination.Close() // Nothing depends on it.
	}

	return err
}

// openTerminationLog opens the termination log. It returns nil if none is set or if it cannot
// be opened.
func (s *Server) openTerminationLog() *os.File {
	if s.TerminationLog == "" {
		return nil
	}

	file, err := os.OpenFile(s.TerminationLog, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644) //nolint:gosec // Kubernetes reads it.
	if err != nil {
		s.Log.Warn("unable to set termination log path", "error", err)
		return nil
	}
	return file
}

// openAndServe opens the content and serves it. With CacheOnly it only opens the content.
func (s *Server) openAndServe(ctx context.Context) error {
	pprofAddress := s.PprofAddress
	if s.CacheOnly {
		pprofAddress = ""
	}

	profiles, err := startProfileServer(ctx, pprofAddress, s.PprofCaptureProfiles)
	if err != nil {
		return fmt.Errorf("could not start pprof endpoint: %w", err)
	}
	defer profiles.stop()
	if profiles.address != nil {
		s.Log.Info("serving profiles", "address", profiles.address)
	}

	log := s.Log.With("backend", content.Format, "cache", s.CacheDir, s.sourceKey(), s.Source.String())
	cache := content.Cache{Dir: s.CacheDir, BuildOnly: s.CacheOnly, Integrity: s.Integrity, Log: log}
	catalog, err := cache.Open(ctx, s.Source)
	if err != nil {
		return err
	}
	defer func() {
		if err := catalog.Close(); err != nil {
			log.Warn("removing the temporary cache", "error", err)
		}
	}()
	if s.CacheOnly {
		return nil
	}

	address := s.Address
	if address == "" {
		address = DefaultAddress
	}

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}

	profiles.finishStartupProfile()
	log = log.With("port", portOfAddress(listener.Addr()), "address", listener.Addr().String())
	log.Info("serving registry")

	return s.serveUntilDone(ctx, listener, catalog, log)
}

// portOfAddress returns the port of a TCP address, or 0.
func portOfAddress(address net.Addr) int {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// isDatabase reports whether the source is a SQLite catalog.
func (s *Server) isDatabase() bool {
	stream, ok := s.Source.(content.Stream)
	return ok && stream.Database
}

// sourceKey returns the log attribute for the source, by the format of the catalog.
func (s *Server) sourceKey() string {
	if s.isDatabase() {
		return "database"
	}
	return "configs"
}

// serveUntilDone serves content until the context ends.
func (s *Server) serveUntilDone(ctx context.Context, listener net.Listener, catalog *content.Content, log *slog.Logger) error {
	server := newGRPCServer(catalog, s.isDatabase(), s.Log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if s.OnReady != nil {
		s.OnReady(listener.Addr())
	}

	select {
	case err := <-ended:
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}

	log.Info("shutting down server")
	timeout := s.ShutdownTimeout
	if timeout == 0 {
		timeout = defaultShutdownTimeout
	}

	// GracefulStop waits for calls in flight; Stop ends them after the timeout.
	stopTimer := time.AfterFunc(timeout, server.Stop)
	defer stopTimer.Stop()
	server.GracefulStop()
	// Serve returns ErrServerStopped if the server was stopped before Serve was called.
	if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}

	return nil
}
