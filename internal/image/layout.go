package image

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// Layout is a folder that holds images as they are in a registry, with all their platforms:
// an OCI layout, which other tools read too. Each image has a name in it. What is read from
// it is verified, and nothing is read or written outside of it. It is safe for concurrent
// use by one process.
type Layout struct {
	root *os.Root
	mu   sync.Mutex // guards the index
}

// OpenLayout opens a folder, which must exist, to copy images into or from. An empty one
// becomes a layout with the first image.
func OpenLayout(dir string) (*Layout, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fail("open", "", err)
	}
	return &Layout{root: root}, nil
}

// Close releases the folder.
func (l *Layout) Close() error { return l.root.Close() }

// Images returns the digests of the images by their names.
func (l *Layout) Images() (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, err := l.index()
	if err != nil {
		return nil, fail("open", "", err)
	}

	named := map[string]string{}
	for _, entry := range index.Manifests {
		if name := entry.Annotations[imgspecv1.AnnotationRefName]; name != "" {
			named[name] = entry.Digest.String()
		}
	}

	return named, nil
}

// index reads the list of images, which is empty in a folder that is no layout yet.
func (l *Layout) index() (imgspecv1.Index, error) {
	index := imgspecv1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex}
	data, err := l.read(imgspecv1.ImageIndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	}
	if err != nil {
		return index, err
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return index, badContent("read %s: %w", imgspecv1.ImageIndexFile, err)
	}

	return index, nil
}

// read reads a manifest or the index.
func (l *Layout) read(name string) ([]byte, error) {
	file, err := l.root.Open(name)
	if err != nil {
		return nil, err
	}

	defer func() { _ = file.Close() }() // It was only read.
	data, err := readAtMost(file, registry.MaxManifest)
	if errors.Is(err, errTooLarge) {
		return nil, badContent("%s has more than %d bytes", name, registry.MaxManifest)
	}

	return data, err
}

// tag returns an image a name, which it takes from whichever had it.
func (l *Layout) tag(m whole, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, err := l.index()
	if err != nil {
		return err
	}

	entry := imgspecv1.Descriptor{
		MediaType: m.mediaType, Digest: m.digest, Size: int64(len(m.data)),
		Annotations: map[string]string{imgspecv1.AnnotationRefName: name},
	}
	index.Manifests = slices.DeleteFunc(index.Manifests, func(known imgspecv1.Descriptor) bool {
		return known.Annotations[imgspecv1.AnnotationRefName] == name
	})
	index.Manifests = append(index.Manifests, entry)
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}

	version, err := json.Marshal(imgspecv1.ImageLayout{Version: imgspecv1.ImageLayoutVersion})
	if err != nil {
		return err
	}
	if err := l.write(imgspecv1.ImageLayoutFile, version); err != nil {
		return err
	}

	return l.write(imgspecv1.ImageIndexFile, data)
}

// write makes a file at once or not at all.
func (l *Layout) write(name string, data []byte) error {
	temporary := name + ".part"
	if err := l.root.WriteFile(temporary, data, 0o644); err != nil {
		return err
	}
	return l.root.Rename(temporary, name)
}

func (l *Layout) find(ctx context.Context, name string) (whole, error) {
	images, err := l.Images()
	if err != nil {
		return whole{}, err
	}

	found, ok := images[name]
	if !ok {
		return whole{}, faultf(KindNotFound, "the folder has no image %q", name)
	}

	d, err := digest.Parse(found)
	if err != nil {
		return whole{}, badContent("read %s: %q: %w", imgspecv1.ImageIndexFile, found, err)
	}

	return l.manifestOf(ctx, d)
}

func blobPath(d digest.Digest) string {
	return path.Join(imgspecv1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

func (l *Layout) manifestOf(_ context.Context, d digest.Digest) (whole, error) {
	data, err := l.read(blobPath(d))
	if err != nil {
		return whole{}, err
	}
	if d.Algorithm().FromBytes(data) != d {
		return whole{}, changedf(KindContent, "%s does not have the digest that it should have: it was changed", blobPath(d))
	}
	return whole{digest: d, mediaType: manifest.GuessMIMEType(data), data: data}, nil
}

func (l *Layout) content(_ context.Context, part layer) (io.ReadCloser, error) {
	file, err := l.root.Open(blobPath(part.digest))
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = badContent("%s is no regular file", blobPath(part.digest))
	}
	if err == nil && info.Size() != part.size {
		err = badContent("%s has %d bytes, the manifest says %d: it was changed", blobPath(part.digest), info.Size(), part.size)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return &verified{ReadCloser: file, want: part.digest, sum: part.digest.Algorithm().Hash()}, nil
}

func (l *Layout) has(_ context.Context, d digest.Digest) (bool, error) {
	_, err := l.root.Lstat(blobPath(d))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (l *Layout) put(_ context.Context, part layer, open func() (io.ReadCloser, error)) error {
	content, err := open()
	if err != nil {
		return err
	}
	err = l.store(part.digest, content)
	return errors.Join(err, content.Close())
}

func (l *Layout) putManifest(_ context.Context, m whole) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := blobPath(m.digest)
	if err := l.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return l.write(name, m.data)
}

// store writes a blob under its name when all of it has come.
func (l *Layout) store(d digest.Digest, content io.Reader) error {
	name := blobPath(d)
	if err := l.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}

	// Two images that are copied at once may have the blob; each writes its own file.
	temporary := fmt.Sprintf("%s.%p.part", name, content)
	file, err := l.root.Create(temporary)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, l.root.Remove(temporary))
	}

	return l.root.Rename(temporary, name)
}

// verified is a reader that ends well only if all of it has the digest.
type verified struct {
	io.ReadCloser
	want digest.Digest
	sum  hash.Hash
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	_, _ = v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(v.sum.Sum(nil)) != v.want.Encoded() {
		err = changedf(KindContent, "%s does not have the digest that it should have: it was changed", blobPath(v.want))
	}
	return n, err
}
