package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// unpacker applies layers, one after the other, to a file tree. No path and no link can
// lead out of the tree.
type unpacker struct {
	root   destination
	prefix imagePrefix
	limits Limits
	stats  Stats

	decompressedBytes int64  // of all layers so far
	entryCount        int    // of all layers so far
	pathBytes         int64  // length of the paths written so far
	hasSymlinks       bool   // a symbolic link was written
	found             bool   // the prefix exists
	obstacle          string // what is at the prefix instead of a directory
	buffer            []byte

	// siblings are unpackers of other prefixes, which do not overlap with this one. They
	// process the same entries, and share the limits of the layers.
	siblings []*unpacker

	// written has the paths that the current layer wrote, with all parents. Whiteouts of a
	// layer hide only the content of lower layers.
	written map[string]bool
	// dirs are paths known to be directories. It saves system calls.
	dirs map[string]bool
}

func newUnpacker(root destination, prefix string, limits Limits) (*unpacker, error) {
	clean := path.Clean(strings.TrimPrefix(prefix, "/"))
	if prefix == "" || !fs.ValidPath(clean) {
		return nil, kindErrorf(KindInvalid, "%q is not a path inside of an image; write it like /configs", prefix)
	}
	return &unpacker{
		root: root, prefix: imagePrefix(clean), limits: limits.withDefaults(),
		found: clean == ".", buffer: make([]byte, 64<<10),
	}, nil
}

// applyLayer applies one layer, compressed or not. It returns an error of KindContent for
// content that is not accepted. Any other error is from the disk.
func (x *unpacker) applyLayer(r io.Reader) error {
	x.written = map[string]bool{}
	x.dirs = map[string]bool{}
	for _, other := range x.siblings {
		other.written = map[string]bool{}
		other.dirs = map[string]bool{}
	}

	plain, release, err := decompressLayer(r)
	if err != nil {
		return err
	}
	defer release()

	stream := &meteredReader{r: plain, used: &x.decompressedBytes, limit: x.limits.StreamBytes}
	archive := tar.NewReader(stream)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if stream.err != nil {
			return stream.err
		}
		if err != nil {
			return contentErrorf("read the archive: %w", err)
		}
		if x.entryCount++; x.entryCount > x.limits.Entries {
			return contentErrorf("its layers have more than %d entries", x.limits.Entries)
		}
		if err := x.applyArchiveEntry(header, archive, stream); err != nil {
			return err
		}

		for _, other := range x.siblings {
			if err := other.applyArchiveEntry(header, archive, stream); err != nil {
				return err
			}
		}
	}

	// Read to the end, so that the decompressor verifies its checksum.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return stream.err
	}

	return nil
}

// checkAppliedLayers checks what can be checked only after all layers: that the prefix is a
// directory, and that no chain of links leads outside.
func (x *unpacker) checkAppliedLayers() error {
	switch {
	case x.obstacle != "":
		return contentErrorf("/%s is not a directory but %s", x.prefix, x.obstacle)
	case !x.found:
		return contentErrorf("it has no directory /%s", x.prefix)
	case !x.hasSymlinks:
		return nil
	}

	// Each link points inside, but a chain of links could still lead outside.
	return fs.WalkDir(x.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeSymlink {
			return err
		}
		if _, err := x.root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return contentErrorf("the symbolic link %q cannot be followed inside of /%s: %w", x.prefix.pathInImage(name), x.prefix, err)
		}
		return nil
	})
}

// applyArchiveEntry applies one entry of a layer, if it affects the prefix.
func (x *unpacker) applyArchiveEntry(header *tar.Header, content io.Reader, stream *meteredReader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}

	name, err := x.limits.cleanEntryPath(header.Name)
	if err != nil {
		return err
	}
	if hidden, ok := strings.CutPrefix(path.Base(name), ".wh."); ok {
		return x.applyWhiteout(path.Dir(name), hidden)
	}

	isDir := header.Typeflag == tar.TypeDir
	rel, ok := x.prefix.pathBelowPrefix(name)
	switch {
	case !ok && !x.prefix.isAbovePrefix(name):
		return nil
	case isDir && !ok:
		return nil
	case !isDir && (!ok || rel == "."):
		// A file in place of the prefix or its parent hides all former content.
		x.found = false
		x.obstacle = "a file or a link"
		return x.removeLowerChildren(".")
	}

	if x.stats.Files++; x.stats.Files > x.limits.Files {
		return contentErrorf("it has more than %d files in /%s", x.limits.Files, x.prefix)
	}
	if x.pathBytes += int64(len(rel)); x.pathBytes > x.limits.NameBytes {
		return contentErrorf("the paths in /%s have more than %d bytes", x.prefix, x.limits.NameBytes)
	}

	x.found = true
	x.obstacle = ""
	x.markWritten(rel)
	switch header.Typeflag {
	case tar.TypeDir:
		return x.writeDirectory(rel)
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.writeRegularFile(rel, header, content, stream)
	case tar.TypeSymlink:
		return x.writeSymlink(name, rel, header.Linkname)
	case tar.TypeLink:
		return x.writeHardLink(rel, header.Linkname)
	default:
		return contentErrorf("%q is neither a file, a directory nor a link (type %q)", x.prefix.pathInImage(rel), header.Typeflag)
	}
}

// markWritten records that the current layer has a path.
func (x *unpacker) markWritten(rel string) {
	for ; !x.written[rel]; rel = path.Dir(rel) {
		x.written[rel] = true
	}
}

// writeDirectory creates a directory, in place of anything else at the path.
func (x *unpacker) writeDirectory(rel string) error {
	if rel == "." {
		return nil
	}

	info, err := x.root.Lstat(rel)
	if err == nil && info.IsDir() {
		x.dirs[rel] = true
		return nil
	}
	if err := x.removeExistingPath(rel); err != nil {
		return err
	}

	return x.ensureDirectory(rel)
}

// ensureDirectory creates a directory and its parents. A parent that is a link to a
// directory inside is followed, as container runtimes do. Any other obstacle is replaced.
func (x *unpacker) ensureDirectory(rel string) error {
	if rel == "." || x.dirs[rel] {
		return nil
	}
	if err := x.ensureDirectory(path.Dir(rel)); err != nil {
		return err
	}

	info, err := x.root.Stat(rel)
	if err != nil || !info.IsDir() {
		if err := x.removeExistingPath(rel); err != nil {
			return err
		}
		if err := x.root.Mkdir(rel, 0o755); err != nil {
			return fmt.Errorf("write %s: %w", x.prefix.pathInImage(rel), err)
		}
	}

	x.dirs[rel] = true
	return nil
}

// removeExistingPath removes the file or directory at a path, if there is one.
func (x *unpacker) removeExistingPath(rel string) error {
	if _, err := x.root.Lstat(rel); err != nil {
		return nil //nolint:nilerr // nothing is there, or its parent is no directory
	}

	clear(x.dirs)
	if err := x.root.RemoveAll(rel); err != nil {
		return fmt.Errorf("replace %s: %w", x.prefix.pathInImage(rel), err)
	}
	return nil
}

// prepareTargetPath creates the parents of a path and removes an existing file or directory at it.
func (x *unpacker) prepareTargetPath(rel string) error {
	if err := x.ensureDirectory(path.Dir(rel)); err != nil {
		return err
	}
	if err := x.removeExistingPath(rel); err != nil {
		return err
	}
	// If a link leads to its own directory, the removed path can be the parent.
	return x.ensureDirectory(path.Dir(rel))
}

// writeRegularFile writes a file with the content of an entry. It keeps only the owner's
// permission to execute.
func (x *unpacker) writeRegularFile(rel string, header *tar.Header, content io.Reader, stream *meteredReader) error {
	if header.Size > x.limits.FileBytes {
		return contentErrorf("the file %q has %d bytes, at most %d are accepted", x.prefix.pathInImage(rel), header.Size, x.limits.FileBytes)
	}
	if x.stats.Bytes += header.Size; x.stats.Bytes > x.limits.Bytes {
		return contentErrorf("the files in /%s have more than %d bytes", x.prefix, x.limits.Bytes)
	}
	if err := x.prepareTargetPath(rel); err != nil {
		return err
	}

	perm := fs.FileMode(0o644)
	if header.Mode&0o100 != 0 {
		perm = 0o755
	}

	file, err := x.root.Create(rel, perm)
	if err != nil {
		return fmt.Errorf("write %s: %w", x.prefix.pathInImage(rel), err)
	}

	out := &fileWriter{file: file}
	_, err = io.CopyBuffer(out, content, x.buffer)
	if closeErr := file.Close(); out.err == nil {
		out.err = closeErr
	}

	switch {
	case out.err != nil:
		return fmt.Errorf("write %s: %w", x.prefix.pathInImage(rel), out.err)
	case stream.err != nil:
		return stream.err
	case err != nil:
		return contentErrorf("the archive is truncated in the file %q: %w", x.prefix.pathInImage(rel), err)
	}

	return nil
}

// fileWriter records the error of writing, because copying can fail on either side.
type fileWriter struct {
	file io.Writer
	err  error
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.err = err
	return n, err
}

// writeSymlink writes a symbolic link. The target is rewritten to be relative and must be
// inside of the prefix.
func (x *unpacker) writeSymlink(name, rel, target string) error {
	if target == "" || len(target) > x.limits.PathBytes || strings.ContainsRune(target, 0) {
		return contentErrorf("the symbolic link %q has no usable target", x.prefix.pathInImage(rel))
	}

	// An absolute target is relative to the image's root.
	resolved := path.Join(path.Dir(name), target)
	if path.IsAbs(target) {
		resolved = strings.TrimPrefix(path.Clean(target), "/")
	}
	if resolved == "" {
		resolved = "."
	}

	destination, ok := x.prefix.pathBelowPrefix(resolved)
	if !ok || !fs.ValidPath(destination) {
		return contentErrorf("the symbolic link %q points to %q, outside of /%s", x.prefix.pathInImage(rel), target, x.prefix)
	}

	text, err := filepath.Rel(path.Dir(rel), destination)
	if err != nil {
		return contentErrorf("the symbolic link %q points to %q: %w", x.prefix.pathInImage(rel), target, err)
	}
	if err := x.prepareTargetPath(rel); err != nil {
		return err
	}
	if err := x.root.Symlink(text, rel); err != nil {
		return fmt.Errorf("write %s: %w", x.prefix.pathInImage(rel), err)
	}

	x.hasSymlinks = true
	return nil
}

// writeHardLink links a path to a file that was written before.
func (x *unpacker) writeHardLink(rel, target string) error {
	name, err := x.limits.cleanEntryPath(strings.TrimPrefix(target, "/"))
	if err != nil {
		return contentErrorf("the hard link %q: %w", x.prefix.pathInImage(rel), err)
	}

	source, ok := x.prefix.pathBelowPrefix(name)
	if !ok {
		return contentErrorf("the hard link %q points to %q, outside of /%s", x.prefix.pathInImage(rel), target, x.prefix)
	}
	if !x.isRegularFile(source) {
		return contentErrorf("the hard link %q points to %q, which is not a file before it in the image", x.prefix.pathInImage(rel), target)
	}
	if source == rel {
		return nil
	}
	if err := x.prepareTargetPath(rel); err != nil {
		return err
	}
	// The source was removed if one of the two paths is the other's parent.
	if !x.isRegularFile(source) {
		return contentErrorf("the hard link %q replaces what it points to, %q", x.prefix.pathInImage(rel), target)
	}
	if err := x.root.Link(source, rel); err != nil {
		return fmt.Errorf("write %s: %w", x.prefix.pathInImage(rel), err)
	}

	return nil
}

func (x *unpacker) isRegularFile(rel string) bool {
	info, err := x.root.Lstat(rel)
	return err == nil && info.Mode().IsRegular()
}

// applyWhiteout hides content of lower layers: one path, or with the name ".wh..opq" the
// whole content of the directory (the "opaque whiteout" of the OCI image specification).
func (x *unpacker) applyWhiteout(dir, hidden string) error {
	name := path.Join(dir, hidden)
	switch {
	case hidden == ".wh..opq":
		name = dir
	case strings.HasPrefix(hidden, ".wh."):
		return nil // bookkeeping of the AUFS driver
	case hidden == "", hidden == ".", hidden == "..":
		return contentErrorf("the whiteout %q names nothing that could be hidden", path.Join(dir, ".wh."+hidden))
	}

	rel, ok := x.prefix.pathBelowPrefix(name)
	opaque := hidden == ".wh..opq"
	switch {
	case !ok && !x.prefix.isAbovePrefix(name):
		return nil
	case !ok, rel == ".":
		x.found = x.written["."] || opaque && ok || x.prefix == "."
		return x.removeLowerChildren(".")
	case opaque:
		return x.removeLowerChildren(rel)
	default:
		return x.removeLowerPath(rel)
	}
}

// removeLowerPath removes what lower layers have at a path.
func (x *unpacker) removeLowerPath(rel string) error {
	if x.written[rel] {
		return x.removeLowerChildren(rel)
	}
	return x.removeExistingPath(rel)
}

// removeLowerChildren removes what lower layers have in a directory.
func (x *unpacker) removeLowerChildren(rel string) error {
	info, err := x.root.Lstat(rel)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // nothing is there, or the current layer's own file
	}

	names, err := x.root.Names(rel)
	if err != nil {
		return fmt.Errorf("read %s: %w", x.prefix.pathInImage(rel), err)
	}

	for _, name := range names {
		if err := x.removeLowerPath(path.Join(rel, name)); err != nil {
			return err
		}
	}

	return nil
}
