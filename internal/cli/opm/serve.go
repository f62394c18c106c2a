package opm

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Serving is a catalog that is to be served over gRPC, and how.
type Serving struct {
	// Folder is that of a file-based catalog.
	Folder string
	// Database is the path of a SQLite catalog, if there is no folder, and Blobs what it
	// has.
	Database string
	Blobs    iter.Seq2[fbc.Meta, error]
	// Address is where to listen.
	Address string
	// CacheDir keeps what was made of the catalog. Empty: a temporary folder.
	CacheDir string
	// CacheOnly fills CacheDir and serves nothing.
	CacheOnly bool
	// EnforceIntegrity refuses a CacheDir that does not fit the catalog. Nil: as is usual
	// for the other values.
	EnforceIntegrity *bool
	// TerminationLog is a file for the error that ends the server. Empty: none.
	TerminationLog string
	// PprofAddress is where profiles are served. Empty: nowhere.
	PprofAddress string
	// CaptureProfiles profiles the start.
	CaptureProfiles bool
	// Log is told what happens.
	Log *slog.Logger
}

// Server serves a catalog until the context ends.
type Server func(context.Context, Serving) error

// errNoServer says that whoever made this command line left the server out.
var errNoServer = errors.New("this program cannot serve catalogs")

// serve calls the server, if there is one.
func (s Server) serve(ctx context.Context, what Serving) error {
	if s == nil {
		return errNoServer
	}
	return s(ctx, what)
}

func serveCommand(server Server) *cobra.Command {
	var (
		s       Serving
		enforce bool
	)
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve a file-based catalog over gRPC",
		Long: `Serve a file-based catalog over gRPC, as the pod of a CatalogSource does: the services
api.Registry and grpc.health.v1.Health, with reflection.

The server listens as soon as it can answer. What it makes of the catalog it keeps in
--cache-dir, so that the next start takes no time. An image that was built with a folder
filled by --cache-only has that from its first start.`,
		Example: `  opm serve ./catalog
  opm serve ./catalog --port 50052 --cache-dir /tmp/cache
  opm serve ./catalog --cache-dir /tmp/cache --cache-only`,
		Args: terminal.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Folder = args[0]
			if cmd.Flags().Changed("cache-enforce-integrity") {
				s.EnforceIntegrity = &enforce
			}
			s.Log = serverLog(cmd)
			return server.serve(cmd.Context(), s)
		},
	}

	bindServing(cmd, &s)
	flags := cmd.Flags()
	flags.StringVar(&s.CacheDir, "cache-dir", "", "folder for what is made of the catalog (default: a temporary one)")
	flags.BoolVar(&s.CacheOnly, "cache-only", false, "fill the cache folder, and serve nothing")
	flags.BoolVar(&enforce, "cache-enforce-integrity", false, "refuse a cache folder that does not fit the catalog (default: true with --cache-dir and without --cache-only)")
	flags.StringVar(&s.PprofAddress, "pprof-addr", "localhost:6060", `address for profiles of the server, "" for none`)
	flags.BoolVar(&s.CaptureProfiles, "pprof-capture-profiles", false, "profile the start, for /debug/pprof/startup/cpu")

	return cmd
}

// bindServing adds the flags that servers of all kinds of catalogs have.
func bindServing(cmd *cobra.Command, s *Serving) {
	flags := cmd.Flags()
	s.Address = ":50051"
	flags.VarP(&portFlag{&s.Address}, "port", "p", "port to listen on, on all interfaces")
	flags.StringVarP(&s.TerminationLog, "termination-log", "t", "/dev/termination-log", "file for the error that ends the server")
	flags.Bool("debug", false, "log more: each call, when it starts and when it ends")
}

// serverLog writes a line for each event to standard error.
func serverLog(cmd *cobra.Command) *slog.Logger {
	level := slog.LevelInfo
	if isSet(cmd, "debug") {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
}

// portFlag is a port, kept as the address of all interfaces.
type portFlag struct{ address *string }

// String returns the port.
func (p *portFlag) String() string {
	if p.address == nil {
		return ""
	}
	return strings.TrimPrefix(*p.address, ":")
}

// Type names the value in the help.
func (p *portFlag) Type() string { return "string" }

// Set takes a port; whether it can be listened on shows when that is done.
func (p *portFlag) Set(value string) error {
	*p.address = ":" + value
	return nil
}
