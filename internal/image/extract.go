package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Stats counts what an extraction wrote, including what a later layer replaced.
type Stats struct {
	Files int   // files, directories and links
	Bytes int64 // content of files
}

// Extract writes the content of the image below prefix ("/configs", or "/" for all) into
// dir, an existing, empty directory. A later layer replaces the content of earlier layers,
// and removes it by whiteouts.
//
// Nothing is ever written outside of dir, and nothing in it can lead outside. A path with
// "..", an absolute path, and a link to outside of prefix are errors that name it. Symbolic
// links that stay inside are kept and rewritten to be relative. Devices, pipes and sockets
// are errors. Owners are not applied. Files have mode 0644, or 0755 when the owner may
// execute them.
//
// Content is verified while it is written. After an error the directory's content is
// undefined, and the caller removes it. A missing prefix is an error of [KindContent].
func (img *Image) Extract(ctx context.Context, prefix, dir string) (Stats, error) {
	stats, err := img.extractFiles(ctx, prefix, dir)
	return stats, img.registries.operationError("extract", img.ref, err)
}

func (img *Image) extractFiles(ctx context.Context, prefix, dir string) (Stats, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Stats{}, err
	}
	defer func() { _ = root.Close() }() // What was written has been closed.
	return img.layers.unpackLayers(ctx, prefix, diskDirectory{root})
}

// unpackLayers applies all layers of the image to a file tree.
func (s layerStack) unpackLayers(ctx context.Context, prefix string, to destination) (Stats, error) {
	x, err := newUnpacker(to, prefix, s.content.opts.Limits)
	if err != nil {
		return Stats{}, err
	}

	ctx, end, err := s.transfers.acquire(ctx)
	if err != nil {
		return Stats{}, err
	}
	defer end()

	for _, l := range s.layers {
		if err := s.extractLayer(ctx, x, l); err != nil {
			return x.stats, err
		}
	}

	return x.stats, x.checkAppliedLayers()
}

func (s layerStack) extractLayer(ctx context.Context, x *unpacker, l layer) error {
	if err := checkLayerType(l); err != nil {
		return err
	}

	blob, err := s.content.openVerifiedBlob(ctx, l)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // It was only read.

	err = x.applyLayer(blob)
	if err != nil && !isContentError(err) && (blob.err == nil || errors.Is(blob.err, io.EOF)) {
		return fmt.Errorf("unpack the layer %s: %w", l.digest, err)
	}
	// Bytes that were changed in transit look like bad content. Check the digest
	// before reporting an error of the archive.
	if blobErr := blob.verifyRemainder(); blobErr != nil {
		return blobErr
	}
	if err != nil {
		return fmt.Errorf("unpack the layer %s: %w", l.digest, err)
	}

	return nil
}

// checkLayerType returns an error for layers that are known not to be readable archives.
// The compression is detected from the content, because media types are often wrong about
// it.
func checkLayerType(l layer) error {
	switch {
	case strings.Contains(l.mediaType, "encrypted"):
		return contentErrorf("the layer %s is encrypted", l.digest)
	case strings.Contains(l.mediaType, "foreign"), strings.Contains(l.mediaType, "nondistributable"):
		return contentErrorf("the layer %s is kept outside of the registry (%s)", l.digest, l.mediaType)
	case l.mediaType == "", strings.Contains(l.mediaType, "tar"):
		return nil
	default:
		return contentErrorf("the layer %s is not an archive of files but %q", l.digest, l.mediaType)
	}
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	bzipMagic = []byte("BZh")
)

// maxZstdWindow bounds the memory of a decompressor. Level 22, the highest, uses 128 MiB.
const maxZstdWindow = 128 << 20

// decompressLayer returns the uncompressed archive of a layer, and a function that frees
// the decompressor.
func decompressLayer(r io.Reader) (io.Reader, func(), error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	magic, err := buffered.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, contentErrorf("read the archive: %w", err)
	}

	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, contentErrorf("decompress the archive: %w", err)
		}
		ahead := newReadAhead(z)
		return ahead, func() { ahead.Close(); _ = z.Close() }, nil
	case bytes.HasPrefix(magic, zstdMagic):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, contentErrorf("decompress the archive: %w", err)
		}
		ahead := newReadAhead(z)
		return ahead, func() { ahead.Close(); z.Close() }, nil
	case bytes.HasPrefix(magic, xzMagic), bytes.HasPrefix(magic, bzipMagic):
		return nil, nil, contentErrorf("the archive is compressed by xz or bzip2; only gzip, zstd and plain archives are read")
	default:
		return buffered, func() {}, nil
	}
}

// meteredReader is a reader that counts bytes, stops at a limit, and records whether
// reading failed. Copying from it into a file can fail on either side.
type meteredReader struct {
	r     io.Reader
	used  *int64
	limit int64
	err   error
}

func (m *meteredReader) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	*m.used += int64(n)
	switch {
	case *m.used > m.limit:
		err = contentErrorf("its layers have more than %d bytes when decompressed", m.limit)
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	default:
		err = contentErrorf("read the archive: %w", err)
	}

	m.err = err
	return n, err
}
