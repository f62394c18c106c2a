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

// DefaultAddress is where a registry listens: on all interfaces, as clients expect it.
const DefaultAddress = ":50051"

// DefaultPprofAddress is where profiles of the server can be had.
const DefaultPprofAddress = "localhost:6060"

// DefaultTerminationLog is where Kubernetes looks for why a container has ended.
const DefaultTerminationLog = "/dev/termination-log"

// defaultGrace is how long calls that are under way may take when the server stops: less
// than the 30 s after which Kubernetes ends a container that does not.
const defaultGrace = 20 * time.Second

// Serve serves one catalog until it is told to stop.
//
// It listens only once it can answer: whoever asks for its health before is refused the
// connection. /etc/nsswitch.conf, which the field's opm writes when it is missing, is left
// alone: Go's own resolver looks into /etc/hosts first also without it.
type Serve struct {
	// Source is the catalog: a content.Folder, or a content.Stream.
	Source content.Source
	// Address is where to listen. Empty stands for DefaultAddress.
	Address string
	// CacheDir is where content is kept between two runs, see content.Cache. Empty stands
	// for a temporary folder, which is removed at the end.
	CacheDir string
	// CacheOnly fills the cache directory and serves nothing.
	CacheOnly bool
	// Integrity says what happens to a cache that does not fit the catalog.
	Integrity content.Integrity
	// TerminationLog is a file to which the error is appended that ends the server. Empty
	// stands for none. That it cannot be written is only logged.
	TerminationLog string
	// PprofAddress is where profiles are served by HTTP. Empty stands for nowhere, and so
	// does any with CacheOnly.
	PprofAddress string
	// PprofCaptureProfiles keeps a profile of the CPU from the start until the server
	// answers, for /debug/pprof/startup/cpu.
	PprofCaptureProfiles bool
	// Log is told what happens: at the start, and each call at its begin and its end. Nil
	// stands for nobody.
	Log *slog.Logger
	// Ready, if set, is told the address once the server answers.
	Ready func(net.Addr)
	// Grace is how long calls under way may take when the server stops, 20 s when zero.
	Grace time.Duration
}

// Run serves until the context ends, which is no error. With CacheOnly it returns as soon
// as the cache is right.
func (s *Serve) Run(ctx context.Context) error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}

	termination := s.openTerminationLog()
	err := s.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// It was told to stop before it had begun.
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

// openTerminationLog opens the termination log, nil when there is to be none or it cannot
// be written.
func (s *Serve) openTerminationLog() *os.File {
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

func (s *Serve) run(ctx context.Context) error {
	pprofAddress := s.PprofAddress
	if s.CacheOnly {
		pprofAddress = ""
	}

	profiles, err := startProfiles(ctx, pprofAddress, s.PprofCaptureProfiles)
	if err != nil {
		return fmt.Errorf("could not start pprof endpoint: %w", err)
	}

	defer profiles.stop()
	if profiles.address != nil {
		s.Log.Info("serving profiles", "address", profiles.address)
	}

	log := s.Log.With("backend", content.Format, "cache", s.CacheDir, "configs", s.Source.String())
	cache := content.Cache{Dir: s.CacheDir, Only: s.CacheOnly, Integrity: s.Integrity, Log: log}
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

	profiles.started()
	log = log.With("port", portOf(listener.Addr()), "address", listener.Addr().String())
	log.Info("serving registry")

	return s.serve(ctx, listener, catalog, log)
}

func portOf(address net.Addr) int {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// serve serves content until the context ends.
func (s *Serve) serve(ctx context.Context, listener net.Listener, catalog *content.Content, log *slog.Logger) error {
	stream, _ := s.Source.(content.Stream)
	server := newServer(catalog, stream.Database, s.Log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if s.Ready != nil {
		s.Ready(listener.Addr())
	}

	select {
	case err := <-ended:
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}

	log.Info("shutting down server")
	grace := s.Grace
	if grace == 0 {
		grace = defaultGrace
	}

	// Stop ends the calls that GracefulStop waits for.
	impatient := time.AfterFunc(grace, server.Stop)
	defer impatient.Stop()
	server.GracefulStop()
	// It may have been stopped before it was started.
	if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}

	return nil
}
