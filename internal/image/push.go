package image

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Progress reports the upload of one blob of the image.
type Progress struct {
	Digest string
	Size   int64 // bytes of the blob
	Sent   int64 // bytes of it that were sent so far
	// Exists is set when the registry had the blob already, so that nothing was sent.
	Exists bool
	// Done is set on the last report about the blob.
	Done bool
}

// Push uploads images under a reference with a tag (latest when it has none), and returns
// <repository>@<digest>. Several images, one for each platform, become one multi-platform
// image. Blobs that the registry has are not sent again. The function progress may be nil.
// It is called by one goroutine at a time.
func (c *Client) Push(ctx context.Context, ref string, progress func(Progress), images ...*Built) (string, error) {
	return c.runTransfer(ctx, "push", ref, func(ctx context.Context) (string, error) {
		return c.registries.pushImages(ctx, ref, progress, images)
	})
}

func (c *connector) pushImages(ctx context.Context, ref string, progress func(Progress), images []*Built) (string, error) {
	named, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	if named.digest != "" {
		return "", kindErrorf(KindInvalid, "an image is pushed to a tag, its digest follows from its content")
	}

	top, err := topLevelManifest(images)
	if err != nil {
		return "", err
	}

	session, err := c.newPushSession(named)
	if err != nil {
		return "", err
	}
	defer session.Close()

	if err := uploadImages(ctx, session, named, top, progress, images); err != nil {
		return "", err
	}

	return named.withDigest(top.digest).String(), nil
}

// uploadImages uploads the blobs and manifests of images, and the top-level manifest last.
func uploadImages(ctx context.Context, session *registry.Session, named imageReference, top builtBlob, progress func(Progress), images []*Built) error {
	if progress == nil {
		progress = func(Progress) {}
	}

	sent := map[string]bool{}
	for _, image := range images {
		for _, part := range append(image.layers[:len(image.layers):len(image.layers)], image.config) {
			if sent[part.digest.String()] {
				continue
			}
			if err := uploadMissingBlob(ctx, session, part, progress); err != nil {
				return err
			}
			sent[part.digest.String()] = true
		}
		if top.digest == image.manifest.digest {
			continue
		}
		if err := session.PutManifest(ctx, image.manifest.digest.String(), image.manifest.mediaType, image.manifest.data); err != nil {
			return fmt.Errorf("for %s: %w", image.platform.Architecture, err)
		}
	}

	return session.PutManifest(ctx, named.tagOrDigest(), top.mediaType, top.data)
}

// uploadMissingBlob uploads a blob if the repository does not have it.
func uploadMissingBlob(ctx context.Context, session *registry.Session, part builtBlob, progress func(Progress)) error {
	state := Progress{Digest: part.digest.String(), Size: part.size()}
	exists, err := session.HasBlob(ctx, part.digest)
	if err != nil {
		return err
	}

	if !exists {
		err = session.PutBlob(ctx, part.digest, part.size(), part.open, func(sent int64) {
			state.Sent = sent
			progress(state)
		})
		if err != nil {
			return err
		}
	}

	state.Done = true
	state.Exists = exists
	progress(state)
	return nil
}

// Digest returns the digest under which images are pushed: that of an index for several
// images, or else that of the one image.
func Digest(images ...*Built) (string, error) {
	top, err := topLevelManifest(images)
	if err != nil {
		return "", wrapOperationError("build", "", err)
	}
	return top.digest.String(), nil
}

// topLevelManifest returns the manifest that the tag names: that of the one image, or an
// index of several.
func topLevelManifest(images []*Built) (builtBlob, error) {
	if len(images) == 0 {
		return builtBlob{}, kindErrorf(KindInvalid, "there is no image to write")
	}
	if len(images) == 1 {
		return images[0].manifest, nil
	}

	index := imgspecv1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex}
	seen := map[string]bool{}
	for _, image := range images {
		name := image.platform.OS + "/" + image.platform.Architecture + "/" + image.platform.Variant
		if seen[name] {
			return builtBlob{}, kindErrorf(KindInvalid, "two images are for the platform %s", name)
		}

		seen[name] = true
		descriptor := image.manifest.descriptor()
		descriptor.Platform = &image.platform
		index.Manifests = append(index.Manifests, descriptor)
	}

	data, err := json.Marshal(index)
	if err != nil {
		return builtBlob{}, err
	}

	return newBuiltBlob(imgspecv1.MediaTypeImageIndex, data), nil
}
