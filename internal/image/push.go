package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	"go.podman.io/image/v5/types"
)

// Progress tells how far a push has come with one part of the image.
type Progress struct {
	Digest string
	Size   int64 // bytes of the part
	Sent   int64 // bytes of it that were sent so far
	// Exists is set when the registry had the part already, so that nothing was sent.
	Exists bool
	// Done is set on the last report about the part.
	Done bool
}

// Push uploads images under a reference with a tag (latest when it has none), and gives
// <repository>@<digest>. Several images, one for each platform, become one multi-platform
// image. Parts that the registry has are not sent again. The function progress may be nil;
// it is called by one goroutine at a time.
func (c *Client) Push(ctx context.Context, ref string, progress func(Progress), images ...*Built) (string, error) {
	canonical, err := c.push(ctx, ref, progress, images)
	return canonical, fail("push", ref, err, c.secrets()...)
}

func (c *Client) push(ctx context.Context, ref string, progress func(Progress), images []*Built) (string, error) {
	named, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	if _, ok := named.(reference.Digested); ok {
		return "", faultf(KindInvalid, "an image is pushed to a tag, its digest follows from its content")
	}
	top, err := topLevel(images)
	if err != nil {
		return "", err
	}
	ctx, cancel := c.transferContext(ctx)
	defer cancel()
	sys, cleanup, err := c.system(named)
	if err != nil {
		return "", err
	}
	defer cleanup()
	target, err := docker.NewReference(named)
	if err != nil {
		return "", faultf(KindInvalid, "%w", err)
	}
	destination, err := target.NewImageDestination(ctx, sys)
	if err != nil {
		return "", err
	}
	defer func() { _ = destination.Close() }() // What counts was committed.
	if err := upload(ctx, destination, top, progress, images); err != nil {
		return "", err
	}
	return canonicalName(named, top.data)
}

func upload(ctx context.Context, destination types.ImageDestination, top blob, progress func(Progress), images []*Built) error {
	if progress == nil {
		progress = func(Progress) {}
	}
	sent := map[string]bool{}
	for _, image := range images {
		for _, part := range append(image.layers[:len(image.layers):len(image.layers)], image.config) {
			if sent[part.digest.String()] {
				continue
			}
			if err := putBlob(ctx, destination, part, progress); err != nil {
				return fmt.Errorf("upload %s: %w", part.digest, err)
			}
			sent[part.digest.String()] = true
		}
		if top.digest == image.manifest.digest {
			continue
		}
		if err := destination.PutManifest(ctx, image.manifest.data, &image.manifest.digest); err != nil {
			return fmt.Errorf("upload the manifest for %s: %w", image.platform.Architecture, err)
		}
	}
	if err := destination.PutManifest(ctx, top.data, nil); err != nil {
		return fmt.Errorf("upload the manifest: %w", err)
	}
	return destination.Commit(ctx, nil)
}

func putBlob(ctx context.Context, destination types.ImageDestination, part blob, progress func(Progress)) error {
	state := Progress{Digest: part.digest.String(), Size: int64(len(part.data))}
	body := &countingReader{r: bytes.NewReader(part.data), report: func(n int) {
		state.Sent += int64(n)
		progress(state)
	}}
	info := types.BlobInfo{Digest: part.digest, Size: state.Size, MediaType: part.mediaType}
	if _, err := destination.PutBlob(ctx, body, info, none.NoCache, part.mediaType == imgspecv1.MediaTypeImageConfig); err != nil {
		return err
	}
	// The registry client asks whether the blob exists, and does not read it if so.
	state.Done, state.Exists = true, state.Sent == 0
	progress(state)
	return nil
}

type countingReader struct {
	r      io.Reader
	report func(int)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		c.report(n)
	}
	return n, err
}

// topLevel gives the manifest that the tag points to: the image's, or an index of several.
func topLevel(images []*Built) (blob, error) {
	if len(images) == 0 {
		return blob{}, faultf(KindInvalid, "there is no image to write")
	}
	if len(images) == 1 {
		return images[0].manifest, nil
	}
	index := imgspecv1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex}
	seen := map[string]bool{}
	for _, image := range images {
		name := image.platform.OS + "/" + image.platform.Architecture + "/" + image.platform.Variant
		if seen[name] {
			return blob{}, faultf(KindInvalid, "two images are for the platform %s", name)
		}
		seen[name] = true
		descriptor := image.manifest.descriptor()
		descriptor.Platform = &image.platform
		index.Manifests = append(index.Manifests, descriptor)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return blob{}, err
	}
	return newBlob(imgspecv1.MediaTypeImageIndex, data), nil
}
