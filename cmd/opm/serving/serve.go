// Package serving connects the command `opm serve` with the server. Neither depends on the other.
package serving

import (
	"context"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
)

// Serve serves a catalog over gRPC.
func Serve(ctx context.Context, s opm.Serving) error {
	var source content.Source = content.Folder{Dir: s.Folder}
	if s.Database != "" {
		source = content.Stream{
			Name: s.Database, All: s.Blobs,
			Checksum: func(ctx context.Context) (uint64, error) { return content.FileSum(ctx, s.Database) },
			Database: true,
		}
	}

	server := registry.Server{
		Source: source, Address: s.Address, CacheDir: s.CacheDir, CacheOnly: s.CacheOnly,
		TerminationLog: s.TerminationLog, PprofAddress: s.PprofAddress, PprofCaptureProfiles: s.CaptureProfiles, Log: s.Log,
	}
	switch {
	case s.EnforceIntegrity == nil:
	case *s.EnforceIntegrity:
		server.Integrity = content.EnforceIntegrity
	default:
		server.Integrity = content.IgnoreIntegrity
	}

	return server.Run(ctx)
}
