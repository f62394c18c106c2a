// Package registry is the cluster's OCI registry. It extends the handler of go-containerregistry with what a
// development cluster needs: manifests and tags that survive a restart, and plain HTTP and TLS on one port.
//
// It has no users and no garbage collection. Any client that reaches the port may push.
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

// NewHandler returns a registry that stores its blobs, manifests and tags in dir and serves what dir already contains.
// It logs each request to logTo.
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
	handler := &persistentHandler{next: memory, manifests: manifestStore(filepath.Join(dir, manifestsDir))}
	if err := handler.restoreManifests(ctx); err != nil {
		return nil, err
	}

	return handler, nil
}

// removeUnfinishedUploads deletes the uploads of a registry that was killed during a push.
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
