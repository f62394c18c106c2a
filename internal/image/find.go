package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ReadFiles reads files by their paths in the image, such as release-manifests/image-references.
// It reads the layers from the last to the first and stops when all files are decided. A
// small layer on a large base image is therefore quick to read. A missing file is missing
// from the result. It returns an error of [KindContent] for a name that is not a regular
// file or is larger than maxBytes.
//
// Content is verified before it is returned. Links are not followed.
func (img *Image) ReadFiles(ctx context.Context, maxBytes int64, names ...string) (map[string][]byte, error) {
	found, err := img.layers.findFiles(ctx, maxBytes, names)
	if err != nil {
		return nil, img.registries.operationError("extract", img.ref, err)
	}
	return found, nil
}

func (s layerStack) findFiles(ctx context.Context, maxBytes int64, names []string) (map[string][]byte, error) {
	ctx, end, err := s.transfers.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()

	f := &fileFinder{maxBytes: maxBytes, limits: s.content.opts.Limits, found: map[string][]byte{}, pending: slices.Clone(names)}
	for _, name := range names {
		if !fs.ValidPath(name) || name == "." {
			return nil, kindErrorf(KindInvalid, "%q is not a path of a file; write it without a leading slash", name)
		}
	}

	for _, l := range slices.Backward(s.layers) {
		if len(f.pending) == 0 {
			break
		}
		if err := s.findInLayer(ctx, f, l); err != nil {
			return nil, err
		}
	}

	return f.found, nil
}

func (s layerStack) findInLayer(ctx context.Context, f *fileFinder, l layer) error {
	if err := checkLayerType(l); err != nil {
		return err
	}

	blob, err := s.content.openVerifiedBlob(ctx, l)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // It was only read.

	err = f.searchLayer(blob)
	// Bytes that were changed in transit look like bad content. Check the digest
	// before reporting an error of the archive.
	if blobErr := blob.verifyRemainder(); blobErr != nil {
		return blobErr
	}
	if err != nil {
		return fmt.Errorf("read the layer %s: %w", l.digest, err)
	}

	return nil
}

// fileFinder searches layers for files, from the last layer to the first.
type fileFinder struct {
	maxBytes          int64
	limits            Limits
	decompressedBytes int64 // of all layers so far
	entries           int
	found             map[string][]byte
	pending           []string // neither found nor hidden in the layers above
}

// searchLayer searches one layer to its end, because a later entry replaces an earlier one.
func (f *fileFinder) searchLayer(r io.Reader) error {
	plain, release, err := decompressLayer(r)
	if err != nil {
		return err
	}
	defer release()

	stream := &meteredReader{r: plain, used: &f.decompressedBytes, limit: f.limits.StreamBytes}
	archive := tar.NewReader(stream)
	hidden := map[string]bool{} // files of lower layers that this layer hides
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			if _, err := io.Copy(io.Discard, stream); err != nil {
				return stream.err
			}
			f.pending = slices.DeleteFunc(f.pending, func(name string) bool {
				_, found := f.found[name]
				return found || hidden[name]
			})
			return nil
		case stream.err != nil:
			return stream.err
		case err != nil:
			return contentErrorf("read the archive: %w", err)
		}
		if f.entries++; f.entries > f.limits.Entries {
			return contentErrorf("its layers have more than %d entries", f.limits.Entries)
		}
		if err := f.matchArchiveEntry(header, archive, hidden); err != nil {
			return err
		}
	}
}

// matchArchiveEntry records the content of a pending file, or that the layer hides the
// file.
func (f *fileFinder) matchArchiveEntry(header *tar.Header, content io.Reader, hidden map[string]bool) error {
	name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	base := path.Base(name)
	for _, wanted := range f.pending {
		switch {
		case name == wanted:
			data, err := f.readRegularFile(wanted, header, content)
			if err != nil {
				return err
			}
			f.found[wanted] = data
		case base == ".wh..wh..opq" && isAtOrBelow(wanted, path.Dir(name)),
			strings.HasPrefix(base, ".wh.") && isAtOrBelow(wanted, path.Join(path.Dir(name), strings.TrimPrefix(base, ".wh."))),
			// A directory that became something else hides its former content.
			header.Typeflag != tar.TypeDir && isAtOrBelow(wanted, name):
			hidden[wanted] = true
		}
	}

	return nil
}

// isAtOrBelow reports whether name is dir or a path below it.
func isAtOrBelow(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

// readRegularFile returns the content of an archive entry of at most maxBytes.
func (f *fileFinder) readRegularFile(name string, header *tar.Header, content io.Reader) ([]byte, error) {
	if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeGNUSparse {
		return nil, contentErrorf("/%s is not a regular file", name)
	}
	if header.Size > f.maxBytes {
		return nil, contentErrorf("/%s has %d bytes, at most %d are read", name, header.Size, f.maxBytes)
	}

	data, err := io.ReadAll(content)
	if err != nil {
		return nil, contentErrorf("the archive is truncated in /%s: %w", name, err)
	}

	return data, nil
}
