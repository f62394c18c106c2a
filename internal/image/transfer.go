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

// Bounds of an image that is copied.
const (
	// maxCopied is how many manifests one image may consist of: a list for twenty platforms,
	// with attestations.
	maxCopied = 256
	// maxNesting is how deep lists may hold lists.
	maxNesting = 3
)

// Copy copies an image from one repository to another with all its platforms, as it is: the
// copy has the same digest. The target is a repository with a tag (latest when it has none),
// or with the digest. The signature policy is asked as for Pull. It gives
// <repository>@<digest>, and sends nothing that is there already.
func (c *Client) Copy(ctx context.Context, from, to string) (string, error) {
	canonical, err := c.copyTo(ctx, from, to)
	return canonical, fail("copy", from, err, c.secrets()...)
}

func (c *Client) copyTo(ctx context.Context, from, to string) (string, error) {
	ctx, cancel := c.transferContext(ctx)
	defer cancel()
	img, top, err := c.openWhole(ctx, from)
	if err != nil {
		return "", err
	}

	defer func() { _ = img.Close() }() // It was only read.
	return c.upload(ctx, img, top, to)
}

// Save copies an image into a layout, as Copy does, under a name. It gives the digest.
func (c *Client) Save(ctx context.Context, from string, layout *Layout, name string) (string, error) {
	found, err := c.save(ctx, from, layout, name)
	return found, fail("copy", from, err, c.secrets()...)
}

func (c *Client) save(ctx context.Context, from string, layout *Layout, name string) (string, error) {
	ctx, cancel := c.transferContext(ctx)
	defer cancel()
	img, top, err := c.openWhole(ctx, from)
	if err != nil {
		return "", err
	}

	defer func() { _ = img.Close() }() // It was only read.
	if err := transferAll(ctx, img, layout, top); err != nil {
		return "", err
	}

	return top.digest.String(), layout.tag(top, name)
}

// Restore copies an image of a layout to a repository, as Copy does. The image is named as
// it was saved.
func (c *Client) Restore(ctx context.Context, layout *Layout, name, to string) (string, error) {
	canonical, err := c.restore(ctx, layout, name, to)
	return canonical, fail("push", to, err, c.secrets()...)
}

func (c *Client) restore(ctx context.Context, layout *Layout, name, to string) (string, error) {
	ctx, cancel := c.transferContext(ctx)
	defer cancel()
	top, err := layout.find(ctx, name)
	if err != nil {
		return "", err
	}
	return c.upload(ctx, layout, top, to)
}

func (c *Client) upload(ctx context.Context, from store, top whole, to string) (string, error) {
	target, err := parseReference(to)
	if err != nil {
		return "", err
	}

	session, err := c.pushSession(target)
	if err != nil {
		return "", err
	}

	defer session.Close()
	sink := &uploading{session: session}
	if err := transferAll(ctx, from, sink, top); err != nil {
		return "", fmt.Errorf("to %s: %w", target.repository(), err)
	}
	if target.digest != "" && target.digest != top.digest {
		return "", faultf(KindInvalid, "the image has the digest %s, not that of %s", top.digest, target)
	}
	if err := session.PutManifest(ctx, target.version(), top.mediaType, top.data); err != nil {
		return "", fmt.Errorf("to %s: %w", target.repository(), err)
	}

	return target.at(top.digest).String(), nil
}

// whole is the manifest of an image, or of a list of images.
type whole struct {
	digest    digest.Digest
	mediaType string
	data      []byte
}

// store has the parts of images. What it gives is verified: a reader fails at its end if it
// was not what was asked for.
type store interface {
	manifestOf(ctx context.Context, d digest.Digest) (whole, error)
	content(ctx context.Context, l layer) (io.ReadCloser, error)
}

// sink takes the parts of images.
type sink interface {
	has(ctx context.Context, d digest.Digest) (bool, error)
	put(ctx context.Context, l layer, open func() (io.ReadCloser, error)) error
	putManifest(ctx context.Context, m whole) error
}

// openWhole opens an image with all its platforms.
func (c *Client) openWhole(ctx context.Context, ref string) (*Image, whole, error) {
	named, err := parseReference(ref)
	if err != nil {
		return nil, whole{}, err
	}

	remote, err := c.remote(named)
	if err != nil {
		return nil, whole{}, err
	}

	img := &Image{client: c, ref: ref, remote: remote}
	top, err := img.manifestOf(ctx, "")
	if err == nil {
		err = c.verify(ctx, subject{named: named, manifest: top.data})
	}
	if err != nil {
		_ = img.Close()
		return nil, whole{}, err
	}

	return img, top, nil
}

// manifestOf reads a manifest of the image, that which its reference names when the digest
// is empty.
func (img *Image) manifestOf(ctx context.Context, d digest.Digest) (whole, error) {
	data, mediaType, err := img.remote.manifest(ctx, d)
	if err != nil {
		return whole{}, err
	}
	if d == "" {
		d = img.remote.named.digest
	}

	if d == "" {
		if d, err = manifest.Digest(data); err != nil {
			return whole{}, badContent("compute the digest of the manifest: %w", err)
		}
	}

	return whole{digest: d, mediaType: mediaType, data: data}, nil
}

func (img *Image) content(ctx context.Context, l layer) (io.ReadCloser, error) {
	return img.blob(ctx, l)
}

// transferAll copies all of an image but the manifest that it begins with, which makes it
// be there.
func transferAll(ctx context.Context, from store, to sink, top whole) error {
	t := &transfer{from: from, to: to, manifests: map[digest.Digest]bool{top.digest: true}, blobs: map[digest.Digest]bool{}}
	if err := t.parts(ctx, top, 1); err != nil {
		return err
	}
	return to.putManifest(ctx, top)
}

type transfer struct {
	from      store
	to        sink
	manifests map[digest.Digest]bool
	blobs     map[digest.Digest]bool
}

// parts copies what a manifest needs.
func (t *transfer) parts(ctx context.Context, m whole, depth int) error {
	if !manifest.MIMETypeIsMultiImage(m.mediaType) {
		return t.image(ctx, m)
	}
	if depth > maxNesting {
		return badContent("it has lists of platforms in lists, deeper than %d", maxNesting)
	}

	var index imgspecv1.Index
	if err := json.Unmarshal(m.data, &index); err != nil {
		return badContent("read the list of platforms: %w", err)
	}

	for _, entry := range index.Manifests {
		if err := entry.Digest.Validate(); err != nil {
			return badContent("read the list of platforms: %q: %w", entry.Digest, err)
		}
		if t.manifests[entry.Digest] {
			continue
		}
		if t.manifests[entry.Digest] = true; len(t.manifests) > maxCopied {
			return badContent("it consists of more than %d images", maxCopied)
		}

		part, err := t.from.manifestOf(ctx, entry.Digest)
		if err == nil {
			err = t.parts(ctx, part, depth+1)
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

// image copies the layers and the configuration of one image.
func (t *transfer) image(ctx context.Context, m whole) error {
	parsed, err := parseManifest(m.data, m.mediaType, 512)
	if err != nil {
		return err
	}

	for _, l := range append(parsed.layers, layer{digest: parsed.config.Digest, size: parsed.config.Size}) {
		if err := t.blob(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (t *transfer) blob(ctx context.Context, l layer) error {
	switch {
	case l.digest.Validate() != nil:
		return badContent("read the manifest: %q is no digest", l.digest)
	case t.blobs[l.digest]:
		return nil
	case strings.Contains(l.mediaType, "foreign"), strings.Contains(l.mediaType, "nondistributable"):
		return badContent("the layer %s is kept outside of the registry (%s)", l.digest, l.mediaType)
	case l.size < 0:
		return badContent("the manifest does not say how large %s is", l.digest)
	}

	there, err := t.to.has(ctx, l.digest)
	if err == nil && !there {
		err = t.to.put(ctx, l, func() (io.ReadCloser, error) { return t.from.content(ctx, l) })
	}

	t.blobs[l.digest] = err == nil
	return err
}

// uploading is a repository that an image is copied to.
type uploading struct{ session *registry.Session }

func (u *uploading) has(ctx context.Context, d digest.Digest) (bool, error) {
	return u.session.HasBlob(ctx, d)
}

func (u *uploading) put(ctx context.Context, l layer, open func() (io.ReadCloser, error)) error {
	// What stops the reading is told rather than how the sending ended.
	var failed error
	err := u.session.PutBlob(ctx, l.digest, l.size, func() (io.ReadCloser, error) {
		content, err := open()
		if err != nil {
			failed = err
			return nil, err
		}
		return &noting{ReadCloser: content, failed: &failed}, nil
	}, nil)
	if err != nil && failed != nil {
		return failed
	}
	return err
}

func (u *uploading) putManifest(ctx context.Context, m whole) error {
	return u.session.PutManifest(ctx, m.digest.String(), m.mediaType, m.data)
}

// noting keeps why reading failed.
type noting struct {
	io.ReadCloser
	failed *error
}

func (n *noting) Read(p []byte) (int, error) {
	count, err := n.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		*n.failed = err
	}
	return count, err
}
