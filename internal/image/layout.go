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

// Layout is a directory with images as they are in a registry, with all their platforms. It
// is an OCI layout, which other tools can read. Each image has a name in it. Everything
// that is read from it is verified. Nothing outside of it is read or written. It is safe
// for concurrent use by one process.
type Layout struct {
	root *os.Root
	mu   sync.Mutex // guards the index
}

// OpenLayout opens an existing directory to copy images into or from. An empty directory
// becomes a layout with the first image.
func OpenLayout(dir string) (*Layout, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, wrapOperationError("open", "", err)
	}
	return &Layout{root: root}, nil
}

// Close closes the directory.
func (l *Layout) Close() error { return l.root.Close() }

// Images returns the digests of the images by name.
func (l *Layout) Images() (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	index, err := l.readImageIndex()
	if err != nil {
		return nil, wrapOperationError("open", "", err)
	}

	named := map[string]string{}
	for _, entry := range index.Manifests {
		if name := entry.Annotations[imgspecv1.AnnotationRefName]; name != "" {
			named[name] = entry.Digest.String()
		}
	}

	return named, nil
}

// readImageIndex returns the index of the layout. It is empty in a directory that is not a
// layout yet.
func (l *Layout) readImageIndex() (imgspecv1.Index, error) {
	index := imgspecv1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex}
	data, err := l.readManifestFile(imgspecv1.ImageIndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	}
	if err != nil {
		return index, err
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return index, contentErrorf("read %s: %w", imgspecv1.ImageIndexFile, err)
	}

	return index, nil
}

// readManifestFile reads a manifest or the index.
func (l *Layout) readManifestFile(name string) ([]byte, error) {
	file, err := l.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // It was only read.

	data, err := readAtMost(file, registry.MaxManifest)
	if errors.Is(err, errTooLarge) {
		return nil, contentErrorf("%s has more than %d bytes", name, registry.MaxManifest)
	}

	return data, err
}

// recordImageName adds an image to the index under a name. It removes the name from any
// other image.
func (l *Layout) recordImageName(m rawManifest, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	index, err := l.readImageIndex()
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
	if err := l.writeFileAtomically(imgspecv1.ImageLayoutFile, version); err != nil {
		return err
	}

	return l.writeFileAtomically(imgspecv1.ImageIndexFile, data)
}

// writeFileAtomically writes a file by renaming a temporary file.
func (l *Layout) writeFileAtomically(name string, data []byte) error {
	temporary := name + ".part"
	if err := l.root.WriteFile(temporary, data, 0o644); err != nil {
		return err
	}
	return l.root.Rename(temporary, name)
}

func (l *Layout) findImageByName(ctx context.Context, name string) (rawManifest, error) {
	images, err := l.Images()
	if err != nil {
		return rawManifest{}, err
	}

	found, ok := images[name]
	if !ok {
		return rawManifest{}, kindErrorf(KindNotFound, "the folder has no image %q", name)
	}

	d, err := digest.Parse(found)
	if err != nil {
		return rawManifest{}, contentErrorf("read %s: %q: %w", imgspecv1.ImageIndexFile, found, err)
	}

	return l.readManifest(ctx, d)
}

func layoutBlobPath(d digest.Digest) string {
	return path.Join(imgspecv1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

func (l *Layout) readManifest(_ context.Context, d digest.Digest) (rawManifest, error) {
	data, err := l.readManifestFile(layoutBlobPath(d))
	if err != nil {
		return rawManifest{}, err
	}
	if d.Algorithm().FromBytes(data) != d {
		return rawManifest{}, digestMismatchf(KindContent, "%s does not have the digest that it should have: it was changed", layoutBlobPath(d))
	}
	return rawManifest{digest: d, mediaType: manifest.GuessMIMEType(data), data: data}, nil
}

func (l *Layout) openContent(_ context.Context, part layer) (io.ReadCloser, error) {
	file, err := l.root.Open(layoutBlobPath(part.digest))
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = contentErrorf("%s is not a regular file", layoutBlobPath(part.digest))
	}
	if err == nil && info.Size() != part.size {
		err = contentErrorf("%s has %d bytes, the manifest says %d: it was changed", layoutBlobPath(part.digest), info.Size(), part.size)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return &verifiedReader{ReadCloser: file, want: part.digest, hash: part.digest.Algorithm().Hash()}, nil
}

func (l *Layout) hasBlob(_ context.Context, d digest.Digest) (bool, error) {
	_, err := l.root.Lstat(layoutBlobPath(d))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (l *Layout) putBlob(_ context.Context, part layer, open func() (io.ReadCloser, error)) error {
	content, err := open()
	if err != nil {
		return err
	}
	err = l.writeBlobAtomically(part.digest, content)
	return errors.Join(err, content.Close())
}

func (l *Layout) putManifest(_ context.Context, m rawManifest) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	name := layoutBlobPath(m.digest)
	if err := l.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return l.writeFileAtomically(name, m.data)
}

// writeBlobAtomically writes a blob and renames it to its name when it is complete.
func (l *Layout) writeBlobAtomically(d digest.Digest, content io.Reader) error {
	name := layoutBlobPath(d)
	if err := l.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}

	// Two images that are copied concurrently may share the blob. Each writes its own file.
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

// verifiedReader is a reader that returns io.EOF only if all content has the digest.
type verifiedReader struct {
	io.ReadCloser
	want digest.Digest
	hash hash.Hash
}

func (v *verifiedReader) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	_, _ = v.hash.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(v.hash.Sum(nil)) != v.want.Encoded() {
		err = digestMismatchf(KindContent, "%s does not have the digest that it should have: it was changed", layoutBlobPath(v.want))
	}
	return n, err
}
