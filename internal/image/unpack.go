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

// unpacker applies layers, one after the other, to a tree, out of which no path and no link
// can lead.
type unpacker struct {
	root   destination
	prefix string // what is unpacked: "." or a clean path without leading slash
	limits Limits
	stats  Stats

	stream  int64 // decompressed bytes of all layers so far
	entries int   // entries of all layers so far
	names   int64 // bytes of the paths written so far
	links   bool  // a symbolic link was written
	found   bool  // the prefix is there
	blocked string
	buffer  []byte

	// beside are unpackers of other prefixes, which have no part in this one's. They are given
	// the same entries, and share what bounds the layers.
	beside []*unpacker

	// written has what the current layer wrote, with all parents: whiteouts of a layer
	// hide only what is below it.
	written map[string]bool
	// dirs has paths known to be directories, to save system calls.
	dirs map[string]bool
}

func newUnpacker(root destination, prefix string, limits Limits) (*unpacker, error) {
	clean := path.Clean(strings.TrimPrefix(prefix, "/"))
	if prefix == "" || !fs.ValidPath(clean) {
		return nil, faultf(KindInvalid, "%q is not a path inside of an image; write it like /configs", prefix)
	}
	return &unpacker{
		root: root, prefix: clean, limits: limits.withDefaults(),
		found: clean == ".", buffer: make([]byte, 64<<10),
	}, nil
}

// layer applies one layer, compressed or not. Content that cannot be accepted is an error
// of KindContent, any other error is the disk's.
func (x *unpacker) layer(r io.Reader) error {
	x.written, x.dirs = map[string]bool{}, map[string]bool{}
	for _, other := range x.beside {
		other.written, other.dirs = map[string]bool{}, map[string]bool{}
	}

	plain, release, err := decompress(r)
	if err != nil {
		return err
	}

	defer release()
	stream := &meter{r: plain, used: &x.stream, limit: x.limits.StreamBytes}
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
			return badContent("read the archive: %w", err)
		}
		if x.entries++; x.entries > x.limits.Entries {
			return badContent("its layers have more than %d entries", x.limits.Entries)
		}
		if err := x.entry(header, archive, stream); err != nil {
			return err
		}

		for _, other := range x.beside {
			if err := other.entry(header, archive, stream); err != nil {
				return err
			}
		}
	}

	// What follows the archive is read for the decompressor's own checksum.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return stream.err
	}

	return nil
}

// finish refuses what is only seen when all layers are applied.
func (x *unpacker) finish() error {
	switch {
	case x.blocked != "":
		return badContent("/%s is no directory but %s", x.prefix, x.blocked)
	case !x.found:
		return badContent("it has no directory /%s", x.prefix)
	case !x.links:
		return nil
	}

	// Each link's own text stays inside, but a chain of links could still lead outside.
	return fs.WalkDir(x.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeSymlink {
			return err
		}
		if _, err := x.root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return badContent("the symbolic link %q cannot be followed inside of /%s: %w", x.display(name), x.prefix, err)
		}
		return nil
	})
}

// display returns the path in the image of a path below the prefix.
func (x *unpacker) display(rel string) string { return "/" + path.Join(x.prefix, rel) }

// inside returns the path below the prefix of a path in the image.
func (x *unpacker) inside(name string) (string, bool) {
	switch {
	case x.prefix == ".":
		return name, true
	case name == x.prefix:
		return ".", true
	}
	return strings.CutPrefix(name, x.prefix+"/")
}

// above reports whether a path in the image is a parent of the prefix.
func (x *unpacker) above(name string) bool {
	return x.prefix != "." && (name == "." || strings.HasPrefix(x.prefix, name+"/"))
}

// cleanName returns the path of an entry without leading "./" and trailing "/".
func (x *unpacker) cleanName(name string) (string, error) {
	if len(name) > x.limits.PathBytes {
		return "", badContent("the path %.64q… has %d bytes, at most %d are accepted", name, len(name), x.limits.PathBytes)
	}
	// Some builders write the root directory itself so.
	if name == "/" {
		return ".", nil
	}
	if path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", badContent("the path %q is not relative to the image's root", name)
	}

	elements := strings.Split(name, "/")
	if len(elements) > x.limits.Depth {
		return "", badContent("the path %.64q… has %d elements, at most %d are accepted", name, len(elements), x.limits.Depth)
	}

	for _, element := range elements {
		if element == ".." {
			return "", badContent("the path %q leads upwards", name)
		}
		if len(element) > 255 {
			return "", badContent("the path %.64q… has an element of %d bytes, at most 255 are accepted", name, len(element))
		}
	}

	return path.Clean(name), nil
}

func (x *unpacker) entry(header *tar.Header, content io.Reader, stream *meter) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}

	name, err := x.cleanName(header.Name)
	if err != nil {
		return err
	}
	if hidden, ok := strings.CutPrefix(path.Base(name), ".wh."); ok {
		return x.whiteout(path.Dir(name), hidden)
	}

	isDir := header.Typeflag == tar.TypeDir
	rel, ok := x.inside(name)
	switch {
	case !ok && !x.above(name):
		return nil
	case isDir && !ok:
		return nil
	case !isDir && (!ok || rel == "."):
		// A file where the prefix or its parent was hides all that was there.
		x.found, x.blocked = false, "a file or a link"
		return x.hideChildren(".")
	}

	if x.stats.Files++; x.stats.Files > x.limits.Files {
		return badContent("it has more than %d files in /%s", x.limits.Files, x.prefix)
	}
	if x.names += int64(len(rel)); x.names > x.limits.NameBytes {
		return badContent("the paths in /%s have more than %d bytes", x.prefix, x.limits.NameBytes)
	}

	x.found, x.blocked = true, ""
	x.mark(rel)
	switch header.Typeflag {
	case tar.TypeDir:
		return x.directory(rel)
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.file(rel, header, content, stream)
	case tar.TypeSymlink:
		return x.symlink(name, rel, header.Linkname)
	case tar.TypeLink:
		return x.hardlink(rel, header.Linkname)
	default:
		return badContent("%q is neither a file, a directory nor a link (type %q)", x.display(rel), header.Typeflag)
	}
}

// mark remembers that the current layer has a path.
func (x *unpacker) mark(rel string) {
	for ; !x.written[rel]; rel = path.Dir(rel) {
		x.written[rel] = true
	}
}

func (x *unpacker) directory(rel string) error {
	if rel == "." {
		return nil
	}

	info, err := x.root.Lstat(rel)
	if err == nil && info.IsDir() {
		x.dirs[rel] = true
		return nil
	}
	if err := x.clear(rel); err != nil {
		return err
	}

	return x.ensureDir(rel)
}

// ensureDir makes a directory and its parents. A parent that is a link to a directory
// inside is followed, as container runtimes do; any other obstacle is replaced.
func (x *unpacker) ensureDir(rel string) error {
	if rel == "." || x.dirs[rel] {
		return nil
	}
	if err := x.ensureDir(path.Dir(rel)); err != nil {
		return err
	}

	info, err := x.root.Stat(rel)
	if err != nil || !info.IsDir() {
		if err := x.clear(rel); err != nil {
			return err
		}
		if err := x.root.Mkdir(rel, 0o755); err != nil {
			return fmt.Errorf("write %s: %w", x.display(rel), err)
		}
	}

	x.dirs[rel] = true
	return nil
}

// clear removes what is at a path, to make room.
func (x *unpacker) clear(rel string) error {
	if _, err := x.root.Lstat(rel); err != nil {
		return nil //nolint:nilerr // nothing is there, or its parent is no directory
	}

	clear(x.dirs)
	if err := x.root.RemoveAll(rel); err != nil {
		return fmt.Errorf("replace %s: %w", x.display(rel), err)
	}
	return nil
}

// room makes the parents of a path and removes what is at it.
func (x *unpacker) room(rel string) error {
	if err := x.ensureDir(path.Dir(rel)); err != nil {
		return err
	}
	if err := x.clear(rel); err != nil {
		return err
	}
	// Where a link leads to its own directory, what was removed can be the parent.
	return x.ensureDir(path.Dir(rel))
}

func (x *unpacker) file(rel string, header *tar.Header, content io.Reader, stream *meter) error {
	if header.Size > x.limits.FileBytes {
		return badContent("the file %q has %d bytes, at most %d are accepted", x.display(rel), header.Size, x.limits.FileBytes)
	}
	if x.stats.Bytes += header.Size; x.stats.Bytes > x.limits.Bytes {
		return badContent("the files in /%s have more than %d bytes", x.prefix, x.limits.Bytes)
	}
	if err := x.room(rel); err != nil {
		return err
	}

	perm := fs.FileMode(0o644)
	if header.Mode&0o100 != 0 {
		perm = 0o755
	}

	file, err := x.root.Create(rel, perm)
	if err != nil {
		return fmt.Errorf("write %s: %w", x.display(rel), err)
	}

	out := &fileWriter{file: file}
	_, err = io.CopyBuffer(out, content, x.buffer)
	if closeErr := file.Close(); out.err == nil {
		out.err = closeErr
	}

	switch {
	case out.err != nil:
		return fmt.Errorf("write %s: %w", x.display(rel), out.err)
	case stream.err != nil:
		return stream.err
	case err != nil:
		return badContent("the archive breaks off in the file %q: %w", x.display(rel), err)
	}

	return nil
}

// fileWriter remembers whether writing failed, since copying can fail on either side.
type fileWriter struct {
	file io.Writer
	err  error
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.err = err
	return n, err
}

func (x *unpacker) symlink(name, rel, target string) error {
	if target == "" || len(target) > x.limits.PathBytes || strings.ContainsRune(target, 0) {
		return badContent("the symbolic link %q has no usable target", x.display(rel))
	}

	// An absolute target is meant from the image's root.
	resolved := path.Join(path.Dir(name), target)
	if path.IsAbs(target) {
		resolved = strings.TrimPrefix(path.Clean(target), "/")
	}
	if resolved == "" {
		resolved = "."
	}

	destination, ok := x.inside(resolved)
	if !ok || !fs.ValidPath(destination) {
		return badContent("the symbolic link %q points to %q, outside of /%s", x.display(rel), target, x.prefix)
	}

	text, err := filepath.Rel(path.Dir(rel), destination)
	if err != nil {
		return badContent("the symbolic link %q points to %q: %w", x.display(rel), target, err)
	}
	if err := x.room(rel); err != nil {
		return err
	}
	if err := x.root.Symlink(text, rel); err != nil {
		return fmt.Errorf("write %s: %w", x.display(rel), err)
	}

	x.links = true
	return nil
}

func (x *unpacker) hardlink(rel, target string) error {
	name, err := x.cleanName(strings.TrimPrefix(target, "/"))
	if err != nil {
		return badContent("the hard link %q: %w", x.display(rel), err)
	}

	source, ok := x.inside(name)
	if !ok {
		return badContent("the hard link %q points to %q, outside of /%s", x.display(rel), target, x.prefix)
	}
	if !x.isFile(source) {
		return badContent("the hard link %q points to %q, which is no file before it in the image", x.display(rel), target)
	}
	if source == rel {
		return nil
	}
	if err := x.room(rel); err != nil {
		return err
	}
	// Making room removes the source when one of the two is the other's parent.
	if !x.isFile(source) {
		return badContent("the hard link %q replaces what it points to, %q", x.display(rel), target)
	}
	if err := x.root.Link(source, rel); err != nil {
		return fmt.Errorf("write %s: %w", x.display(rel), err)
	}

	return nil
}

func (x *unpacker) isFile(rel string) bool {
	info, err := x.root.Lstat(rel)
	return err == nil && info.Mode().IsRegular()
}

// whiteout hides what layers below have: one path, or with the name ".wh..opq" all that is
// in the directory (the OCI image specification's "opaque whiteout").
func (x *unpacker) whiteout(dir, hidden string) error {
	name := path.Join(dir, hidden)
	switch {
	case hidden == ".wh..opq":
		name = dir
	case strings.HasPrefix(hidden, ".wh."):
		return nil // bookkeeping of the AUFS driver
	case hidden == "", hidden == ".", hidden == "..":
		return badContent("the whiteout %q names nothing that could be hidden", path.Join(dir, ".wh."+hidden))
	}

	rel, ok := x.inside(name)
	opaque := hidden == ".wh..opq"
	switch {
	case !ok && !x.above(name):
		return nil
	case !ok, rel == ".":
		x.found = x.written["."] || opaque && ok || x.prefix == "."
		return x.hideChildren(".")
	case opaque:
		return x.hideChildren(rel)
	default:
		return x.hide(rel)
	}
}

// hide removes what layers below the current one have at a path.
func (x *unpacker) hide(rel string) error {
	if x.written[rel] {
		return x.hideChildren(rel)
	}
	return x.clear(rel)
}

func (x *unpacker) hideChildren(rel string) error {
	info, err := x.root.Lstat(rel)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // nothing is there, or the current layer's own file
	}

	names, err := x.root.Names(rel)
	if err != nil {
		return fmt.Errorf("read %s: %w", x.display(rel), err)
	}

	for _, name := range names {
		if err := x.hide(path.Join(rel, name)); err != nil {
			return err
		}
	}

	return nil
}
