package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Limits of an image that is copied.
const (
	// maxCopiedManifests is how many manifests one image may have: an index for twenty
	// platforms, with attestations.
	maxCopiedManifests = 256
	// maxNesting is the maximum depth of nested indexes.
	maxNesting = 3
)

// Copy copies an image with all its platforms from one repository to another, and returns
// <repository>@<digest>. The copy has the same digest. The target is a repository with a
// tag (latest when it has none), or with the digest. The signature policy is checked as in
// Pull. Content that the target has already is not sent again.
func (c *Client) Copy(ctx context.Context, from, to string) (string, error) {
	return c.runTransfer(ctx, "copy", from, func(ctx context.Context) (string, error) {
		img, top, err := openAllPlatforms(ctx, c, from)
		if err != nil {
			return "", err
		}
		defer func() { _ = img.Close() }() // It was only read.

		return c.registries.uploadCopiedImage(ctx, img.content, top, to)
	})
}

// Save copies an image into a layout under a name, as Copy does. It returns the digest.
func (c *Client) Save(ctx context.Context, from string, layout *Layout, name string) (string, error) {
	return c.runTransfer(ctx, "copy", from, func(ctx context.Context) (string, error) {
		img, top, err := openAllPlatforms(ctx, c, from)
		if err != nil {
			return "", err
		}
		defer func() { _ = img.Close() }() // It was only read.

		if err := transferImage(ctx, img.content, layout, top, c.registries.opts.Limits.Layers); err != nil {
			return "", err
		}

		return top.digest.String(), layout.recordImageName(top, name)
	})
}

// Restore copies an image of a layout to a repository, as Copy does. The name is that of
// Save.
func (c *Client) Restore(ctx context.Context, layout *Layout, name, to string) (string, error) {
	return c.runTransfer(ctx, "push", to, func(ctx context.Context) (string, error) {
		top, err := layout.findImageByName(ctx, name)
		if err != nil {
			return "", err
		}
		return c.registries.uploadCopiedImage(ctx, layout, top, to)
	})
}

// uploadCopiedImage copies an image to the reference to, and returns <repository>@<digest>.
func (c *connector) uploadCopiedImage(ctx context.Context, from imageSource, top rawManifest, to string) (string, error) {
	target, err := parseReference(to)
	if err != nil {
		return "", err
	}

	session, err := c.newPushSession(target)
	if err != nil {
		return "", err
	}
	defer session.Close()

	sink := &registrySink{session: session}
	if err := transferImage(ctx, from, sink, top, c.opts.Limits.Layers); err != nil {
		return "", fmt.Errorf("to %s: %w", target.repository(), err)
	}
	if target.digest != "" && target.digest != top.digest {
		return "", kindErrorf(KindInvalid, "the image has the digest %s, not that of %s", top.digest, target)
	}
	if err := session.PutManifest(ctx, target.tagOrDigest(), top.mediaType, top.data); err != nil {
		return "", fmt.Errorf("to %s: %w", target.repository(), err)
	}

	return target.withDigest(top.digest).String(), nil
}

// rawManifest is an encoded manifest of an image or an index.
type rawManifest struct {
	digest    digest.Digest
	mediaType string
	data      []byte
}

// imageSource provides the manifests and blobs of images. Their content is verified: a
// reader returns an error at its end if the digest does not match.
type imageSource interface {
	readManifest(ctx context.Context, d digest.Digest) (rawManifest, error)
	openContent(ctx context.Context, l layer) (io.ReadCloser, error)
}

// imageSink stores the manifests and blobs of images.
type imageSink interface {
	hasBlob(ctx context.Context, d digest.Digest) (bool, error)
	putBlob(ctx context.Context, l layer, open func() (io.ReadCloser, error)) error
	putManifest(ctx context.Context, m rawManifest) error
}

// openAllPlatforms opens an image with all its platforms, if the signature policy accepts
// it.
func openAllPlatforms(ctx context.Context, c *Client, ref string) (*Image, rawManifest, error) {
	img, err := newImage(c, ref)
	if err != nil {
		return nil, rawManifest{}, err
	}

	top, err := img.content.readManifest(ctx, "")
	if err == nil {
		err = signaturePolicy{&c.registries}.checkImage(ctx, verificationSubject{named: img.content.remote.named, manifest: top.data})
	}
	if err != nil {
		_ = img.Close()
		return nil, rawManifest{}, err
	}

	return img, top, nil
}

// transferImage copies an image by digest. The top-level manifest is copied last, because
// it makes the image available. No image may have more than maxLayers layers.
func transferImage(ctx context.Context, from imageSource, to imageSink, top rawManifest, maxLayers int) error {
	t := &transfer{from: from, to: to, maxLayers: maxLayers, manifests: map[digest.Digest]bool{top.digest: true}, blobs: map[digest.Digest]bool{}}
	if err := t.copyManifestParts(ctx, top, 1); err != nil {
		return err
	}
	return to.putManifest(ctx, top)
}

// transfer copies one image from a source to a sink, each manifest and blob once.
type transfer struct {
	from      imageSource
	to        imageSink
	maxLayers int
	manifests map[digest.Digest]bool
	blobs     map[digest.Digest]bool
}

// copyManifestParts copies the blobs of an image, or all images of an index.
func (t *transfer) copyManifestParts(ctx context.Context, m rawManifest, depth int) error {
	if !manifest.MIMETypeIsMultiImage(m.mediaType) {
		return t.copyImageBlobs(ctx, m)
	}
	if depth > maxNesting {
		return contentErrorf("its image indexes are nested deeper than %d levels", maxNesting)
	}

	var index imgspecv1.Index
	if err := json.Unmarshal(m.data, &index); err != nil {
		return contentErrorf("read the image index: %w", err)
	}

	for _, entry := range index.Manifests {
		if err := entry.Digest.Validate(); err != nil {
			return contentErrorf("read the image index: %q: %w", entry.Digest, err)
		}
		if t.manifests[entry.Digest] {
			continue
		}
		if t.manifests[entry.Digest] = true; len(t.manifests) > maxCopiedManifests {
			return contentErrorf("it consists of more than %d images", maxCopiedManifests)
		}

		part, err := t.from.readManifest(ctx, entry.Digest)
		if err == nil {
			err = t.copyManifestParts(ctx, part, depth+1)
		}
		if err == nil {
			err = t.to.putManifest(ctx, part)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// copyImageBlobs copies the layers and the configuration of one image.
func (t *transfer) copyImageBlobs(ctx context.Context, m rawManifest) error {
	parsed, err := parseManifest(m.data, m.mediaType, t.maxLayers)
	if err != nil {
		return err
	}

	for _, l := range append(parsed.layers, layer{digest: parsed.config.Digest, size: parsed.config.Size}) {
		if err := t.copyBlob(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (t *transfer) copyBlob(ctx context.Context, l layer) error {
	switch {
	case l.digest.Validate() != nil:
		return contentErrorf("read the manifest: %q is not a digest", l.digest)
	case t.blobs[l.digest]:
		return nil
	case strings.Contains(l.mediaType, "foreign"), strings.Contains(l.mediaType, "nondistributable"):
		return contentErrorf("the layer %s is kept outside of the registry (%s)", l.digest, l.mediaType)
	case l.size < 0:
		return contentErrorf("the manifest does not say how large %s is", l.digest)
	}

	exists, err := t.to.hasBlob(ctx, l.digest)
	if err == nil && !exists {
		err = t.to.putBlob(ctx, l, func() (io.ReadCloser, error) { return t.from.openContent(ctx, l) })
	}

	t.blobs[l.digest] = err == nil
	return err
}

// registrySink is a repository that an image is copied to.
type registrySink struct{ session *registry.Session }

func (u *registrySink) hasBlob(ctx context.Context, d digest.Digest) (bool, error) {
	return u.session.HasBlob(ctx, d)
}

func (u *registrySink) putBlob(ctx context.Context, l layer, open func() (io.ReadCloser, error)) error {
	// The error of the reader is the cause, so it is returned instead of the upload's.
	var failed error
	err := u.session.PutBlob(ctx, l.digest, l.size, func() (io.ReadCloser, error) {
		content, err := open()
		if err != nil {
			failed = err
			return nil, err
		}
		return &errorRecorder{ReadCloser: content, failed: &failed}, nil
	}, nil)
	if err != nil && failed != nil {
		return failed
	}
	return err
}

func (u *registrySink) putManifest(ctx context.Context, m rawManifest) error {
	return u.session.PutManifest(ctx, m.digest.String(), m.mediaType, m.data)
}

// errorRecorder is a reader that records its error.
type errorRecorder struct {
	io.ReadCloser
	failed *error
}

func (n *errorRecorder) Read(p []byte) (int, error) {
	count, err := n.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		*n.failed = err
	}
	return count, err
}
