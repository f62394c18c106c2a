package opm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Serving is the configuration of a gRPC server for a catalog.
type Serving struct {
	// Folder is the directory of a file-based catalog.
	Folder string
	// Database is the path of a SQLite catalog, if Folder is empty, and Blobs are its blobs.
	Database string
	Blobs    iter.Seq2[fbc.Meta, error]
	// Address is the address to listen on.
	Address string
	// CacheDir is the directory of the cache. Empty means a temporary directory.
	CacheDir string
	// CacheOnly fills CacheDir without serving.
	CacheOnly bool
	// EnforceIntegrity rejects a CacheDir that does not match the catalog. Nil means the default for
	// the other options.
	EnforceIntegrity *bool
	// TerminationLog is a file for the error that terminates the server. Empty means none.
	TerminationLog string
	// PprofAddress is the address of the profiling endpoint. Empty disables it.
	PprofAddress string
	// CaptureProfiles captures a CPU profile of the startup.
	CaptureProfiles bool
	// Log receives the events of the server.
	Log *slog.Logger
}

// Server serves a catalog until the context ends.
type Server func(context.Context, Serving) error

// errNoServer is returned if the command line was created without a server.
var errNoServer = errors.New("this program cannot serve catalogs")

// runServer calls the server. It returns errNoServer if s is nil.
func (s Server) runServer(ctx context.Context, what Serving) error {
	if s == nil {
		return errNoServer
	}
	return s(ctx, what)
}

func newServeCommand(server Server) *cobra.Command {
	var (
		s       Serving
		enforce bool
	)
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve a file-based catalog over gRPC",
		Long: `Serve a file-based catalog over gRPC, as the pod of a CatalogSource does. The server provides the
services api.Registry and grpc.health.v1.Health, with reflection.

The server starts to listen when it is ready to answer. The cache of the catalog is kept in
--cache-dir, which speeds up the next start. Use --cache-only to build the cache into a catalog image.`,
		Example: `  opm serve ./catalog
  opm serve ./catalog --port 50052 --cache-dir /tmp/cache
  opm serve ./catalog --cache-dir /tmp/cache --cache-only`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Folder = args[0]
			if cmd.Flags().Changed("cache-enforce-integrity") {
				s.EnforceIntegrity = &enforce
			}
			s.Log = newServerLogger(cmd)
			return server.runServer(cmd.Context(), s)
		},
	}

	addServingFlags(cmd, &s)
	flags := cmd.Flags()
	flags.StringVar(&s.CacheDir, "cache-dir", "", "directory of the cache (default: a temporary directory)")
	flags.BoolVar(&s.CacheOnly, "cache-only", false, "build the cache without serving")
	flags.BoolVar(&enforce, "cache-enforce-integrity", false, "fail if the cache does not match the catalog (default: true with --cache-dir and without --cache-only)")
	flags.StringVar(&s.PprofAddress, "pprof-addr", "localhost:6060", `address of the profiling endpoint; "" disables it`)
	flags.BoolVar(&s.CaptureProfiles, "pprof-capture-profiles", false, "capture a CPU profile of the startup, served at /debug/pprof/startup/cpu")

	return cmd
}

// addServingFlags adds the flags that the servers of all catalog formats have.
func addServingFlags(cmd *cobra.Command, s *Serving) {
	flags := cmd.Flags()
	s.Address = ":50051"
	flags.VarP(&portFlag{&s.Address}, "port", "p", "port to listen on, on all interfaces")
	flags.StringVarP(&s.TerminationLog, "termination-log", "t", "/dev/termination-log", "file for the error that terminates the server")
	flags.Bool("debug", false, "enable debug logging, including the start and end of each call")
}

// newServerLogger returns a logger that writes to standard error.
func newServerLogger(cmd *cobra.Command) *slog.Logger {
	level := slog.LevelInfo
	if isFlagSet(cmd, "debug") {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
}

// portFlag is a port, stored as an address on all interfaces.
type portFlag struct{ address *string }

// String implements pflag.Value.
func (p *portFlag) String() string {
	if p.address == nil {
		return ""
	}
	return strings.TrimPrefix(*p.address, ":")
}

// Type implements pflag.Value.
func (p *portFlag) Type() string { return "string" }

// Set implements pflag.Value. It accepts the numbers of ports.
func (p *portFlag) Set(value string) error {
	if _, err := strconv.ParseUint(value, 10, 16); err != nil {
		return fmt.Errorf("must be a port from 0 to %d", math.MaxUint16)
	}
	*p.address = ":" + value
	return nil
}
