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

// Find reads files by their paths in the image, such as release-manifests/image-references.
// It reads the layers from the last one down and stops when it has them all, so that a small
// layer upon a large base costs little. A file that is not there is missing from the result;
// one that is no regular file, or larger than maxBytes, is an error of [KindContent].
//
// Content is verified before it is given. Links are not followed.
func (img *Image) Find(ctx context.Context, maxBytes int64, names ...string) (map[string][]byte, error) {
	found, err := img.find(ctx, maxBytes, names)
	if err != nil {
		return nil, fail("extract", img.ref, err, img.client.secrets()...)
	}
	return found, nil
}

func (img *Image) find(ctx context.Context, maxBytes int64, names []string) (map[string][]byte, error) {
	ctx, end, err := img.client.startTransfer(ctx)
	if err != nil {
		return nil, err
	}

	defer end()
	f := &finder{maxBytes: maxBytes, limits: img.client.opts.Limits, found: map[string][]byte{}, open: slices.Clone(names)}
	for _, name := range names {
		if !fs.ValidPath(name) || name == "." {
			return nil, faultf(KindInvalid, "%q is not a path of a file; write it without a leading slash", name)
		}
	}

	for _, l := range slices.Backward(img.layers) {
		if len(f.open) == 0 {
			break
		}
		if err := img.findInLayer(ctx, f, l); err != nil {
			return nil, err
		}
	}

	return f.found, nil
}

func (img *Image) findInLayer(ctx context.Context, f *finder, l layer) error {
	if err := checkLayerType(l); err != nil {
		return err
	}

	blob, err := img.blob(ctx, l)
	if err != nil {
		return err
	}

	defer func() { _ = blob.Close() }() // It was only read.
	err = f.layer(blob)
	// Bytes that were changed on the way look like bad content, so the digest is asked
	// before the archive is blamed.
	if blobErr := blob.drain(); blobErr != nil {
		return blobErr
	}
	if err != nil {
		return fmt.Errorf("read the layer %s: %w", l.digest, err)
	}

	return nil
}

// finder looks for files in one layer after the other, from the last one down.
type finder struct {
	maxBytes int64
	limits   Limits
	stream   int64 // decompressed bytes so far
	entries  int
	found    map[string][]byte
	open     []string // not decided by the layers above
}

// layer looks through one layer, to its end: what comes later in it replaces what came
// earlier.
func (f *finder) layer(r io.Reader) error {
	plain, release, err := decompress(r)
	if err != nil {
		return err
	}

	defer release()
	stream := &meter{r: plain, used: &f.stream, limit: f.limits.StreamBytes}
	archive := tar.NewReader(stream)
	hidden := map[string]bool{} // by the layer, for those below it
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			if _, err := io.Copy(io.Discard, stream); err != nil {
				return stream.err
			}
			f.open = slices.DeleteFunc(f.open, func(name string) bool {
				_, found := f.found[name]
				return found || hidden[name]
			})
			return nil
		case stream.err != nil:
			return stream.err
		case err != nil:
			return badContent("read the archive: %w", err)
		}
		if f.entries++; f.entries > f.limits.Entries {
			return badContent("its layers have more than %d entries", f.limits.Entries)
		}
		if err := f.entry(header, archive, hidden); err != nil {
			return err
		}
	}
}

func (f *finder) entry(header *tar.Header, content io.Reader, hidden map[string]bool) error {
	name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	base := path.Base(name)
	for _, wanted := range f.open {
		switch {
		case name == wanted:
			data, err := f.read(wanted, header, content)
			if err != nil {
				return err
			}
			f.found[wanted] = data
		case base == ".wh..wh..opq" && isBelow(wanted, path.Dir(name)),
			strings.HasPrefix(base, ".wh.") && isBelow(wanted, path.Join(path.Dir(name), strings.TrimPrefix(base, ".wh."))),
			// What is no directory any more hides what was in it.
			header.Typeflag != tar.TypeDir && isBelow(wanted, name):
			hidden[wanted] = true
		}
	}

	return nil
}

// isBelow reports whether a path is another one, or below it.
func isBelow(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

func (f *finder) read(name string, header *tar.Header, content io.Reader) ([]byte, error) {
	if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeGNUSparse {
		return nil, badContent("/%s is no regular file", name)
	}
	if header.Size > f.maxBytes {
		return nil, badContent("/%s has %d bytes, at most %d are read", name, header.Size, f.maxBytes)
	}

	data, err := io.ReadAll(content)
	if err != nil {
		return nil, badContent("the archive breaks off in /%s: %w", name, err)
	}

	return data, nil
}
