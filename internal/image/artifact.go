package image

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"
)

// Limits of an artifact.
const (
	maxAttached      = 100
	maxAttachedBytes = 64 << 10
)

// Attached is a small piece of data in a registry, such as a signature that is stored next
// to its image.
type Attached struct {
	MediaType   string
	Annotations map[string]string
	Data        []byte
}

// PullAttached reads the data under a reference: at most 100 pieces of 64 KiB. It does not
// check the signature policy. The caller decides whether to trust the data.
func (c *Client) PullAttached(ctx context.Context, ref string) ([]Attached, error) {
	var found []Attached
	err := c.readOnce(ctx, "pull", ref, func(ctx context.Context, img *Image) (err error) {
		found, err = img.content.readAttached(ctx)
		return err
	})

	return found, err
}

// readAttached reads the data of an artifact.
func (c remoteContent) readAttached(ctx context.Context) ([]Attached, error) {
	raw, mediaType, err := c.remote.fetchManifest(ctx, "")
	if err != nil {
		return nil, err
	}
	if mediaType != imgspecv1.MediaTypeImageManifest {
		return nil, contentErrorf("its manifest has the type %q, not %q", mediaType, imgspecv1.MediaTypeImageManifest)
	}

	parsed, err := manifest.OCI1FromManifest(raw)
	if err != nil {
		return nil, contentErrorf("read the manifest: %w", err)
	}
	if len(parsed.Layers) > maxAttached {
		return nil, contentErrorf("it has %d parts, at most %d are read", len(parsed.Layers), maxAttached)
	}

	var found []Attached
	for _, part := range parsed.Layers {
		data, err := c.readSmallBlob(ctx, part)
		if err != nil {
			return nil, err
		}
		found = append(found, Attached{MediaType: part.MediaType, Annotations: part.Annotations, Data: data})
	}

	return found, nil
}

// readSmallBlob reads a blob of at most maxAttachedBytes into memory.
func (c remoteContent) readSmallBlob(ctx context.Context, part imgspecv1.Descriptor) ([]byte, error) {
	if err := part.Digest.Validate(); err != nil {
		return nil, contentErrorf("read the manifest: %q: %w", part.Digest, err)
	}

	blob, err := c.openVerifiedBlob(ctx, layer{digest: part.Digest, size: part.Size})
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }() // It was only read.

	data, err := readAtMost(blob, maxAttachedBytes)
	if errors.Is(err, errTooLarge) {
		return nil, contentErrorf("its part %s has more than %d bytes", part.Digest, maxAttachedBytes)
	}

	return data, err
}

// PushAttached replaces the data under a reference with a tag. It returns
// <repository>@<digest>. The same data always has the same digest.
func (c *Client) PushAttached(ctx context.Context, ref string, parts []Attached) (string, error) {
	built, err := buildAttached(parts)
	if err != nil {
		return "", wrapOperationError("push", ref, err)
	}
	return c.Push(ctx, ref, nil, built)
}

// buildAttached returns an image of data, with a configuration that registries accept.
func buildAttached(parts []Attached) (*Built, error) {
	config := imgspecv1.Image{Created: &time.Time{}, RootFS: imgspecv1.RootFS{Type: "layers", DiffIDs: []digest.Digest{}}}
	described := imgspecv1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageManifest, Layers: []imgspecv1.Descriptor{},
	}
	built := &Built{}
	for _, part := range parts {
		layer := newBuiltBlob(part.MediaType, part.Data)
		descriptor := layer.descriptor()
		descriptor.Annotations = part.Annotations
		described.Layers = append(described.Layers, descriptor)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, layer.digest)
		built.layers = append(built.layers, layer)
	}

	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}

	built.config = newBuiltBlob(imgspecv1.MediaTypeImageConfig, data)
	described.Config = built.config.descriptor()
	if data, err = json.Marshal(described); err != nil {
		return nil, err
	}

	built.manifest = newBuiltBlob(imgspecv1.MediaTypeImageManifest, data)
	return built, nil
}
