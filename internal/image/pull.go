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

// Image is an image of a registry, opened for reading. Only its manifest and its
// configuration have been read and verified. The layers are not downloaded yet.
type Image struct {
	// Canonical is <repository>@<digest>. The repository is the requested one, not a mirror
	// of it. The digest is that of the tag: for a multi-platform image the digest of the
	// index, not of the selected platform.
	Canonical string
	// Labels are the labels of the image's configuration. Artifacts that are not container
	// images have none.
	Labels map[string]string
	// Annotations are the annotations of the manifest.
	Annotations map[string]string

	registries *connector
	ref        string
	content    remoteContent
	layers     layerStack
	config     *imgspecv1.Image // nil for artifacts
	closeOnce  sync.Once
}

// newImage returns an image of which nothing was read yet. It does not connect.
func newImage(c *Client, ref string) (*Image, error) {
	named, err := parseReference(ref)
	if err != nil {
		return nil, err
	}

	remote, err := c.registries.openRepository(named)
	if err != nil {
		return nil, err
	}

	content := remoteContent{remote: remote, opts: &c.registries.opts, shared: c.registries.shared}
	return &Image{registries: &c.registries, ref: ref, content: content, layers: layerStack{content: content, transfers: c.transfers}}, nil
}

// Created returns the creation time of the image's configuration, or the zero time when it
// has none.
func (img *Image) Created() time.Time {
	if img.config == nil || img.config.Created == nil {
		return time.Time{}
	}
	return img.config.Created.UTC()
}

// Platform returns the platform of the image's configuration, as values of GOOS and GOARCH.
// It is empty for artifacts that are not container images.
func (img *Image) Platform() (os, architecture string) {
	if img.config == nil {
		return "", ""
	}
	return img.config.OS, img.config.Architecture
}

// LayerSizes returns the digests of the layers and their compressed sizes in bytes. A size is
// zero when the manifest has none.
func (img *Image) LayerSizes() (digests []string, bytes []int64) {
	for _, l := range img.layers.layers {
		digests, bytes = append(digests, l.digest.String()), append(bytes, max(l.size, 0))
	}
	return digests, bytes
}

// layer is a layer of a manifest.
type layer struct {
	digest    digest.Digest
	size      int64 // in bytes; zero or less when the manifest has none
	mediaType string
}

// Resolve returns <repository>@<digest> for a reference. It sends requests only when the
// reference has no digest. It does not check the signature policy; Pull does.
func (c *Client) Resolve(ctx context.Context, ref string) (string, error) {
	if named, err := parseReference(ref); err == nil && named.digest != "" {
		return named.String(), nil
	}

	var canonical string
	err := c.readOnce(ctx, "resolve", ref, func(ctx context.Context, img *Image) error {
		found, err := img.content.remote.fetchDigest(ctx)
		if err != nil {
			return err
		}
		canonical = img.content.remote.named.withDigest(found).String()
		return nil
	})

	return canonical, err
}

// Pull opens an image: it reads the manifest, selects the platform, checks the signature
// policy and reads the configuration. The caller closes the image.
func (c *Client) Pull(ctx context.Context, ref string) (*Image, error) {
	return c.readImage(ctx, "pull", ref, func(ctx context.Context, img *Image) error { return img.openVerified(ctx) })
}

// Close closes the image. It may be called more than once.
func (img *Image) Close() error {
	img.closeOnce.Do(img.content.remote.Close)
	return nil
}

// openVerified reads the manifest and the configuration of an image that the signature
// policy accepts.
func (img *Image) openVerified(ctx context.Context) error {
	named := img.content.remote.named
	raw, mediaType, err := img.content.remote.fetchManifest(ctx, "")
	if err != nil {
		return err
	}

	imageDigest := named.digest
	if imageDigest == "" {
		if imageDigest, err = manifest.Digest(raw); err != nil {
			return contentErrorf("compute the digest of the manifest: %w", err)
		}
	}

	img.Canonical = named.withDigest(imageDigest).String()
	var instance digest.Digest
	if manifest.MIMETypeIsMultiImage(mediaType) {
		if instance, raw, mediaType, err = img.content.choosePlatform(ctx, raw, mediaType); err != nil {
			return err
		}
	}

	policy := signaturePolicy{img.registries}
	if err := policy.checkImage(ctx, verificationSubject{named: named, instance: instance, manifest: raw}); err != nil {
		return err
	}

	return img.readManifestContents(ctx, raw, mediaType)
}

// readManifestContents parses the manifest of a single image and reads its configuration.
func (img *Image) readManifestContents(ctx context.Context, raw []byte, mediaType string) error {
	parsed, err := parseManifest(raw, mediaType, img.registries.opts.Limits.Layers)
	if err != nil {
		return err
	}
	img.Annotations = parsed.annotations
	img.layers.layers = parsed.layers
	return img.readImageConfig(ctx, parsed.config)
}

// manifestContents is the parsed manifest of an image.
type manifestContents struct {
	annotations map[string]string
	layers      []layer
	config      types.BlobInfo
}

func parseManifest(raw []byte, mediaType string, maxLayers int) (*manifestContents, error) {
	parsed, err := manifest.FromBlob(raw, mediaType)
	if err != nil {
		return nil, contentErrorf("read the manifest: %w", err)
	}

	c := &manifestContents{config: parsed.ConfigInfo()}
	switch m := parsed.(type) {
	case *manifest.OCI1:
		c.annotations = m.Annotations
	case *manifest.Schema2:
	default:
		return nil, contentErrorf("its manifest has the obsolete or unknown type %q; push it again with a current tool", mediaType)
	}

	infos := parsed.LayerInfos()
	if len(infos) > maxLayers {
		return nil, contentErrorf("it has %d layers, at most %d are read", len(infos), maxLayers)
	}

	for _, info := range infos {
		if err := info.Digest.Validate(); err != nil {
			return nil, contentErrorf("read the manifest: layer %q: %w", info.Digest, err)
		}
		c.layers = append(c.layers, layer{digest: info.Digest, size: info.Size, mediaType: info.MediaType})
	}

	return c, nil
}

// maxConfigBytes is the maximum size of a configuration, the same as of a manifest.
const maxConfigBytes = 4 << 20

// readImageConfig reads the configuration of a container image. Artifacts have none.
func (img *Image) readImageConfig(ctx context.Context, info types.BlobInfo) error {
	switch info.MediaType {
	case imgspecv1.MediaTypeImageConfig, manifest.DockerV2Schema2ConfigMediaType:
	default:
		return nil
	}

	if err := info.Digest.Validate(); err != nil {
		return contentErrorf("read the manifest: configuration %q: %w", info.Digest, err)
	}

	blob, err := img.content.openVerifiedBlob(ctx, layer{digest: info.Digest, size: info.Size})
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // It was only read.

	data, err := readAtMost(blob, maxConfigBytes)
	if errors.Is(err, errTooLarge) {
		return contentErrorf("its configuration has more than %d bytes", maxConfigBytes)
	}
	if err != nil {
		return err
	}

	var config imgspecv1.Image
	if err := json.Unmarshal(data, &config); err != nil {
		return contentErrorf("read its configuration: %w", err)
	}

	img.config = &config
	img.Labels = config.Config.Labels
	return nil
}
