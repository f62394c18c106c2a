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

// Bounds of an artifact.
const (
	maxAttached      = 100
	maxAttachedBytes = 64 << 10
)

// Attached is a small piece of data in a registry, such as a signature that lies beside the
// image that it is about.
type Attached struct {
	MediaType   string
	Annotations map[string]string
	Data        []byte
}

// PullAttached reads the data that lies under a reference: at most 100 pieces of 64 KiB.
// The signature policy is not asked: what the data is worth is for the caller to see.
func (c *Client) PullAttached(ctx context.Context, ref string) ([]Attached, error) {
	found, err := c.pullAttached(ctx, ref)
	return found, fail("pull", ref, err, c.secrets()...)
}

func (c *Client) pullAttached(ctx context.Context, ref string) ([]Attached, error) {
	named, err := parseReference(ref)
	if err != nil {
		return nil, err
	}

	ctx, cancel := c.openContext(ctx)
	defer cancel()
	remote, err := c.remote(named)
	if err != nil {
		return nil, err
	}

	img := &Image{client: c, ref: ref, remote: remote}
	defer func() { _ = img.Close() }() // It was only read.
	raw, mediaType, err := remote.manifest(ctx, "")
	if err != nil {
		return nil, err
	}
	if mediaType != imgspecv1.MediaTypeImageManifest {
		return nil, badContent("its manifest has the type %q, not %q", mediaType, imgspecv1.MediaTypeImageManifest)
	}

	parsed, err := manifest.OCI1FromManifest(raw)
	if err != nil {
		return nil, badContent("read the manifest: %w", err)
	}
	if len(parsed.Layers) > maxAttached {
		return nil, badContent("it has %d parts, at most %d are read", len(parsed.Layers), maxAttached)
	}

	var found []Attached
	for _, part := range parsed.Layers {
		data, err := img.small(ctx, part)
		if err != nil {
			return nil, err
		}
		found = append(found, Attached{MediaType: part.MediaType, Annotations: part.Annotations, Data: data})
	}

	return found, nil
}

// small reads a blob into memory.
func (img *Image) small(ctx context.Context, part imgspecv1.Descriptor) ([]byte, error) {
	if err := part.Digest.Validate(); err != nil {
		return nil, badContent("read the manifest: %q: %w", part.Digest, err)
	}

	blob, err := img.blob(ctx, layer{digest: part.Digest, size: part.Size})
	if err != nil {
		return nil, err
	}

	defer func() { _ = blob.Close() }() // It was only read.
	data, err := readAtMost(blob, maxAttachedBytes)
	if errors.Is(err, errTooLarge) {
		return nil, badContent("its part %s has more than %d bytes", part.Digest, maxAttachedBytes)
	}

	return data, err
}

// PushAttached writes data under a reference with a tag, in place of what is there. It gives
// <repository>@<digest>. The same data gives the same digest.
func (c *Client) PushAttached(ctx context.Context, ref string, parts []Attached) (string, error) {
	built, err := buildAttached(parts)
	if err != nil {
		return "", fail("push", ref, err)
	}
	return c.Push(ctx, ref, nil, built)
}

// buildAttached makes an image of data, with a configuration that registries take.
func buildAttached(parts []Attached) (*Built, error) {
	config := imgspecv1.Image{Created: &time.Time{}, RootFS: imgspecv1.RootFS{Type: "layers", DiffIDs: []digest.Digest{}}}
	described := imgspecv1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageManifest, Layers: []imgspecv1.Descriptor{},
	}
	built := &Built{}
	for _, part := range parts {
		layer := newBlob(part.MediaType, part.Data)
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

	built.config = newBlob(imgspecv1.MediaTypeImageConfig, data)
	described.Config = built.config.descriptor()
	if data, err = json.Marshal(described); err != nil {
		return nil, err
	}

	built.manifest = newBlob(imgspecv1.MediaTypeImageManifest, data)
	return built, nil
}
