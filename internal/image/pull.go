package image

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/types"
)

// Image is an image of a registry, opened for reading. The files are still there: only
// its manifest and its configuration have been read, and verified.
type Image struct {
	// Canonical is <repository>@<digest>, with the repository as it was asked for (not a
	// mirror of it) and the digest that the tag has: for a multi-platform image the digest
	// of the whole, not of the platform that was chosen.
	Canonical string
	// Labels are the labels of the image's configuration. Artifacts that are no container
	// images have none.
	Labels map[string]string
	// Annotations are those of the manifest.
	Annotations map[string]string

	client    *Client
	ref       string
	remote    *remote
	layers    []layer
	config    *imgspecv1.Image // nil for artifacts
	closeOnce sync.Once
}

// Created is when the image says that it was made, the zero time when it does not.
func (img *Image) Created() time.Time {
	if img.config == nil || img.config.Created == nil {
		return time.Time{}
	}
	return img.config.Created.UTC()
}

// Platform is what the image says it is for, in the words of GOOS and GOARCH. Artifacts that
// are no container images have none.
func (img *Image) Platform() (os, architecture string) {
	if img.config == nil {
		return "", ""
	}
	return img.config.OS, img.config.Architecture
}

// Sizes are those of the layers by their digests, in bytes, compressed: zero where the
// manifest does not say.
func (img *Image) Sizes() (digests []string, bytes []int64) {
	for _, l := range img.layers {
		digests, bytes = append(digests, l.digest.String()), append(bytes, max(l.size, 0))
	}
	return digests, bytes
}

// layer is one layer as the manifest describes it.
type layer struct {
	digest    digest.Digest
	size      int64 // in bytes; zero or less when the manifest does not say
	mediaType string
}

// Resolve returns <repository>@<digest> for a reference. The network is asked only when the
// reference has no digest. Trust is not decided here but by Pull.
func (c *Client) Resolve(ctx context.Context, ref string) (string, error) {
	canonical, err := c.resolve(ctx, ref)
	return canonical, fail("resolve", ref, err, c.secrets()...)
}

func (c *Client) resolve(ctx context.Context, ref string) (string, error) {
	named, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	if named.digest != "" {
		return named.String(), nil
	}

	ctx, cancel := c.openContext(ctx)
	defer cancel()
	remote, err := c.remote(named)
	if err != nil {
		return "", err
	}

	defer remote.Close()
	found, err := remote.digest(ctx)
	if err != nil {
		return "", err
	}

	return named.at(found).String(), nil
}

// Pull opens an image: it reads the manifest, chooses the platform, applies the signature
// policy and reads the configuration. The caller closes the image.
func (c *Client) Pull(ctx context.Context, ref string) (*Image, error) {
	img, err := c.pull(ctx, ref)
	if err != nil {
		return nil, fail("pull", ref, err, c.secrets()...)
	}
	return img, nil
}

func (c *Client) pull(ctx context.Context, ref string) (*Image, error) {
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
	if err := img.open(ctx, named); err != nil {
		_ = img.Close()
		return nil, err
	}

	return img, nil
}

// Close releases the image. It may be called more than once.
func (img *Image) Close() error {
	img.closeOnce.Do(img.remote.Close)
	return nil
}

func (img *Image) open(ctx context.Context, named name) error {
	raw, mediaType, err := img.remote.manifest(ctx, "")
	if err != nil {
		return err
	}

	whole := named.digest
	if whole == "" {
		if whole, err = manifest.Digest(raw); err != nil {
			return badContent("compute the digest of the manifest: %w", err)
		}
	}

	img.Canonical = named.at(whole).String()
	var instance digest.Digest
	if manifest.MIMETypeIsMultiImage(mediaType) {
		if instance, raw, mediaType, err = img.choose(ctx, raw, mediaType); err != nil {
			return err
		}
	}

	if err := img.client.verify(ctx, subject{named: named, instance: instance, manifest: raw}); err != nil {
		return err
	}

	return img.readContent(ctx, raw, mediaType)
}

func (img *Image) readContent(ctx context.Context, raw []byte, mediaType string) error {
	parsed, err := parseManifest(raw, mediaType, img.client.opts.Limits.Layers)
	if err != nil {
		return err
	}
	img.Annotations, img.layers = parsed.annotations, parsed.layers
	return img.readConfig(ctx, parsed.config)
}

// contents is what a manifest tells of an image.
type contents struct {
	annotations map[string]string
	layers      []layer
	config      types.BlobInfo
}

func parseManifest(raw []byte, mediaType string, maxLayers int) (*contents, error) {
	parsed, err := manifest.FromBlob(raw, mediaType)
	if err != nil {
		return nil, badContent("read the manifest: %w", err)
	}

	c := &contents{config: parsed.ConfigInfo()}
	switch m := parsed.(type) {
	case *manifest.OCI1:
		c.annotations = m.Annotations
	case *manifest.Schema2:
	default:
		return nil, badContent("its manifest has the obsolete or unknown type %q; push it again with a current tool", mediaType)
	}

	infos := parsed.LayerInfos()
	if len(infos) > maxLayers {
		return nil, badContent("it has %d layers, at most %d are read", len(infos), maxLayers)
	}

	for _, info := range infos {
		if err := info.Digest.Validate(); err != nil {
			return nil, badContent("read the manifest: layer %q: %w", info.Digest, err)
		}
		c.layers = append(c.layers, layer{digest: info.Digest, size: info.Size, mediaType: info.MediaType})
	}

	return c, nil
}

// maxConfig is what the registry client allows a manifest to have, too.
const maxConfig = 4 << 20

func (img *Image) readConfig(ctx context.Context, info types.BlobInfo) error {
	switch info.MediaType {
	case imgspecv1.MediaTypeImageConfig, manifest.DockerV2Schema2ConfigMediaType:
	default:
		return nil
	}

	if err := info.Digest.Validate(); err != nil {
		return badContent("read the manifest: configuration %q: %w", info.Digest, err)
	}

	blob, err := img.blob(ctx, layer{digest: info.Digest, size: info.Size})
	if err != nil {
		return err
	}

	defer func() { _ = blob.Close() }() // It was only read.
	data, err := readAtMost(blob, maxConfig)
	if errors.Is(err, errTooLarge) {
		return badContent("its configuration has more than %d bytes", maxConfig)
	}
	if err != nil {
		return err
	}

	var config imgspecv1.Image
	if err := json.Unmarshal(data, &config); err != nil {
		return badContent("read its configuration: %w", err)
	}

	img.config, img.Labels = &config, config.Config.Labels
	return nil
}
