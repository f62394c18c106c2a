// Package registry is the cluster's OCI registry: the handler of go-containerregistry, with what that one leaves out so
// that a registry can live beside a cluster: manifests and tags that survive a restart, and plain HTTP and TLS on one port.
//
// It has no users and no garbage collection. Whoever reaches the port may push.
package registry

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
)

// Folders of a registry's directory.
const (
	blobsDir     = "blobs"
	manifestsDir = "manifests"
)

// NewHandler returns a registry that keeps its blobs, manifests and tags in dir, and serves what is there already. Each
// request is a line of the log.
func NewHandler(ctx context.Context, dir string, logTo io.Writer) (http.Handler, error) {
	blobs := filepath.Join(dir, blobsDir)
	for _, path := range []string{blobs, filepath.Join(dir, manifestsDir)} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("create the registry's directory: %w", err)
		}
	}

	if err := removeUnfinishedUploads(blobs); err != nil {
		return nil, err
	}

	memory := ggcr.New(
		ggcr.WithBlobHandler(ggcr.NewDiskBlobHandler(blobs)),
		ggcr.WithReferrersSupport(true),
		ggcr.Logger(log.New(logTo, "", log.LstdFlags)),
	)
	keeper := &keeper{next: memory, files: manifestFiles(filepath.Join(dir, manifestsDir))}
	if err := keeper.restore(ctx); err != nil {
		return nil, err
	}

	return keeper, nil
}

// removeUnfinishedUploads deletes what a registry that was killed in the middle of a push left behind.
func removeUnfinishedUploads(blobs string) error {
	unfinished, err := filepath.Glob(filepath.Join(blobs, "upload-*"))
	if err != nil {
		return err
	}

	for _, path := range unfinished {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an unfinished upload: %w", err)
		}
	}
	return nil
}
