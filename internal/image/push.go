package image

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
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
	if named.digest != "" {
		return "", faultf(KindInvalid, "an image is pushed to a tag, its digest follows from its content")
	}

	top, err := topLevel(images)
	if err != nil {
		return "", err
	}

	ctx, cancel := c.transferContext(ctx)
	defer cancel()
	session, err := c.pushSession(named)
	if err != nil {
		return "", err
	}

	defer session.Close()
	if err := upload(ctx, session, named, top, progress, images); err != nil {
		return "", err
	}

	return named.at(top.digest).String(), nil
}

// pushSession opens the repository that is named, never a mirror of it.
func (c *Client) pushSession(named name) (*registry.Session, error) {
	sys := c.system()
	configured, err := c.registryOf(sys, named.repository())
	if err != nil {
		return nil, err
	}
	if configured != nil && configured.Blocked {
		return nil, faultf(KindDenied, "the registry %s is blocked by the registries configuration", configured.Prefix)
	}

	insecure, err := c.insecure(sys, named)
	if err != nil {
		return nil, err
	}

	return c.session(sys, source{name: named, insecure: insecure}, sessionOptions{push: true})
}

func upload(ctx context.Context, session *registry.Session, named name, top blob, progress func(Progress), images []*Built) error {
	if progress == nil {
		progress = func(Progress) {}
	}

	sent := map[string]bool{}
	for _, image := range images {
		for _, part := range append(image.layers[:len(image.layers):len(image.layers)], image.config) {
			if sent[part.digest.String()] {
				continue
			}
			if err := putBlob(ctx, session, part, progress); err != nil {
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

	return session.PutManifest(ctx, named.version(), top.mediaType, top.data)
}

func putBlob(ctx context.Context, session *registry.Session, part blob, progress func(Progress)) error {
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

	state.Done, state.Exists = true, exists
	progress(state)
	return nil
}

// Digest is that of what several images are pushed as: of an index, or of the one image.
func Digest(images ...*Built) (string, error) {
	top, err := topLevel(images)
	if err != nil {
		return "", fail("build", "", err)
	}
	return top.digest.String(), nil
}

// topLevel returns the manifest that the tag points to: the image's, or an index of several.
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
