package image

import (
	"context"
	"io"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// remoteContent reads the manifests and blobs of an image from its registry, and verifies them.
type remoteContent struct {
	remote *remoteRepository
	opts   *Options
	shared *registry.Shared
}

// readManifest reads a manifest of the image. An empty digest means the manifest that the
// reference names.
func (c remoteContent) readManifest(ctx context.Context, d digest.Digest) (rawManifest, error) {
	data, mediaType, err := c.remote.fetchManifest(ctx, d)
	if err != nil {
		return rawManifest{}, err
	}
	if d == "" {
		d = c.remote.named.digest
	}

	if d == "" {
		if d, err = manifest.Digest(data); err != nil {
			return rawManifest{}, contentErrorf("compute the digest of the manifest: %w", err)
		}
	}

	return rawManifest{digest: d, mediaType: mediaType, data: data}, nil
}

func (c remoteContent) openContent(ctx context.Context, l layer) (io.ReadCloser, error) {
	return c.openVerifiedBlob(ctx, l)
}

// layerStack reads the layers of an image as archives of files.
type layerStack struct {
	content   remoteContent
	layers    []layer
	transfers transferSlots
}
