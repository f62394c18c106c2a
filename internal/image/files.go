package image

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Files are files of an image, to be read and thrown away. Their content lies in one
// temporary file that has no name any more, so that a thousand of them cost no more than
// their bytes, and nothing is left of a program that ends. It is safe for concurrent use.
//
// They are a file system: ReadDir and ReadFile are quick, links inside are followed, and an
// open file is an io.ReaderAt and io.Seeker.
type Files struct {
	root  *node
	spool *spool
}

var (
	_ fs.ReadDirFS  = (*Files)(nil)
	_ fs.ReadFileFS = (*Files)(nil)
	_ fs.StatFS     = (*Files)(nil)
	_ fs.ReadLinkFS = (*Files)(nil)
)

// Files reads what the image has below prefix, as Extract does and with the same limits.
// The content lies in tempDir, or where temporary files lie when that is empty; little of
// it stays in memory. The caller closes the files.
func (img *Image) Files(ctx context.Context, prefix, tempDir string) (*Files, Stats, error) {
	return img.FilesWithin(ctx, prefix, tempDir, nil)
}

// FilesWithin reads what the image has below prefix, as Files does, as long as there is space
// on the disk of tempDir. The space is released when the files are closed.
func (img *Image) FilesWithin(ctx context.Context, prefix, tempDir string, space Space) (*Files, Stats, error) {
	files := newFiles(tempDir)
	files.spool.space = space
	stats, err := img.unpack(ctx, prefix, files)
	if err == nil {
		err = files.spool.flush()
	}
	if err != nil {
		_ = files.Close() // Nobody reads it.
		return nil, stats, fail("extract", img.ref, err, img.client.secrets()...)
	}

	return files, stats, nil
}

// Folders reads several folders of the image's root ("manifests") in one pass over its
// layers, each as Files reads one. They stand in the result under their names; one that the
// image does not have is missing there. The limits hold for each.
func (img *Image) Folders(ctx context.Context, tempDir string, names ...string) (*Files, error) {
	files := newFiles(tempDir)
	err := img.folders(ctx, files, names)
	if err == nil {
		err = files.spool.flush()
	}
	if err != nil {
		_ = files.Close() // Nobody reads it.
		return nil, fail("extract", img.ref, err, img.client.secrets()...)
	}

	return files, nil
}

func (img *Image) folders(ctx context.Context, files *Files, names []string) error {
	var unpackers []*unpacker
	for _, name := range names {
		if !fs.ValidPath(name) || name == "." || strings.Contains(name, "/") {
			return faultf(KindInvalid, "%q is no folder of an image's root", name)
		}

		part := &Files{root: newDir(0o755), spool: files.spool}
		files.root.children[name] = part.root
		x, err := newUnpacker(part, name, img.client.opts.Limits)
		if err != nil {
			return err
		}

		unpackers = append(unpackers, x)
	}

	if len(unpackers) == 0 {
		return nil
	}

	last := len(unpackers) - 1
	unpackers[last].beside = unpackers[:last:last]
	ctx, end, err := img.client.startTransfer(ctx)
	if err != nil {
		return err
	}

	defer end()
	for _, l := range img.layers {
		if err := img.extractLayer(ctx, unpackers[last], l); err != nil {
			return err
		}
	}

	for i, x := range unpackers {
		if !x.found && x.blocked == "" {
			delete(files.root.children, names[i])
			continue
		}
		if err := x.finish(); err != nil {
			return err
		}
	}

	return nil
}

func newFiles(tempDir string) *Files {
	return &Files{root: newDir(0o755), spool: &spool{dir: tempDir}}
}

// Close frees the content. What is open cannot be read any more.
func (f *Files) Close() error { return f.spool.close() }

// node is a file, a directory or a link. It is its own fs.FileInfo but for its name.
type node struct {
	mode     fs.FileMode
	children map[string]*node // of a directory
	target   string           // of a link
	offset   int64            // of a file, in the spool
	size     int64
}

func newDir(perm fs.FileMode) *node {
	return &node{mode: fs.ModeDir | perm, children: map[string]*node{}}
}

// maxLinks is how many links a path may lead over. It is that of os.Root.
const maxLinks = 8

var errEscapes = errors.New("path escapes from parent")

// find returns the node at a path, its directory and its name in it. The node is nil when the
// directory has none of the name.
func (f *Files) find(op, name string, follow bool) (found, dir *node, base string, err error) {
	refuse := func(err error) (*node, *node, string, error) {
		return nil, nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return refuse(fs.ErrInvalid)
	}

	ways := []*node{f.root} // from the root to where the path has come to
	links := 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		here := ways[len(ways)-1]
		switch {
		case !here.mode.IsDir():
			return refuse(syscall.ENOTDIR)
		case element == "." || element == "":
			continue
		case element == ".." && len(ways) == 1:
			return refuse(errEscapes)
		case element == "..":
			ways = ways[:len(ways)-1]
			continue
		}

		next := here.children[element]
		switch {
		case next == nil && len(rest) == 0:
			return nil, here, element, nil
		case next == nil:
			return refuse(fs.ErrNotExist)
		case next.mode&fs.ModeSymlink == 0 || len(rest) == 0 && !follow:
			if len(rest) == 0 {
				return next, here, element, nil
			}
			ways = append(ways, next)
			continue
		}

		if links++; links > maxLinks {
			return refuse(syscall.ELOOP)
		}

		rest = append(strings.Split(next.target, "/"), rest...)
	}

	last := ways[len(ways)-1]
	return last, nil, ".", nil
}

// existing returns the node at a path.
func (f *Files) existing(op, name string, follow bool) (*node, error) {
	found, _, _, err := f.find(op, name, follow)
	if err == nil && found == nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return found, err
}

// place returns where a new node goes.
func (f *Files) place(op, name string) (*node, string, error) {
	found, dir, base, err := f.find(op, name, false)
	if err == nil && found != nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	}
	return dir, base, err
}

// FS returns the files themselves.
func (f *Files) FS() fs.FS { return f }

// Lstat describes a file or a link.
func (f *Files) Lstat(name string) (fs.FileInfo, error) { return f.info("lstat", name, false) }

// Stat describes a file, or what a link leads to.
func (f *Files) Stat(name string) (fs.FileInfo, error) { return f.info("stat", name, true) }

func (f *Files) info(op, name string, follow bool) (fs.FileInfo, error) {
	found, err := f.existing(op, name, follow)
	if err != nil {
		return nil, err
	}
	return info{found, path.Base(name)}, nil
}

// ReadLink returns where a link leads.
func (f *Files) ReadLink(name string) (string, error) {
	found, err := f.existing("readlink", name, false)
	if err == nil && found.mode&fs.ModeSymlink == 0 {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return found.target, nil
}

// Mkdir makes a directory.
func (f *Files) Mkdir(name string, perm fs.FileMode) error {
	dir, base, err := f.place("mkdir", name)
	if err == nil {
		dir.children[base] = newDir(perm)
	}
	return err
}

// RemoveAll removes a file, or a directory with all that is in it.
func (f *Files) RemoveAll(name string) error {
	found, dir, base, err := f.find("remove", name, false)
	if err == nil && found != nil && dir != nil {
		delete(dir.children, base)
	}
	return err
}

// Symlink makes a link.
func (f *Files) Symlink(target, name string) error {
	dir, base, err := f.place("symlink", name)
	if err == nil {
		dir.children[base] = &node{mode: fs.ModeSymlink | 0o777, target: target}
	}
	return err
}

// Link returns a file another name.
func (f *Files) Link(existing, name string) error {
	found, err := f.existing("link", existing, false)
	if err != nil {
		return err
	}

	dir, base, err := f.place("link", name)
	if err == nil {
		dir.children[base] = found
	}

	return err
}

// Names returns what is in a directory.
func (f *Files) Names(name string) ([]string, error) {
	dir, err := f.existing("readdir", name, true)
	if err != nil {
		return nil, err
	}

	names := make([]string, 0, len(dir.children))
	for child := range dir.children {
		names = append(names, child)
	}

	return names, nil
}

// Create makes a file, which is written before the next one is made.
func (f *Files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	dir, base, err := f.place("open", name)
	if err != nil {
		return nil, err
	}
	created := &node{mode: perm, offset: f.spool.size}
	dir.children[base] = created
	return &nodeWriter{created, f.spool}, nil
}

type nodeWriter struct {
	node  *node
	spool *spool
}

func (w *nodeWriter) Write(p []byte) (int, error) {
	n, err := w.spool.write(p)
	w.node.size += int64(n)
	return n, err
}

func (w *nodeWriter) Close() error { return nil }

// Open opens a file or a directory.
func (f *Files) Open(name string) (fs.File, error) {
	found, err := f.existing("open", name, true)
	if err != nil {
		return nil, err
	}

	described := info{found, path.Base(name)}
	if found.mode.IsDir() {
		return &openDir{info: described, entries: entriesOf(found)}, nil
	}

	return &openFile{io.NewSectionReader(f.spool, found.offset, found.size), described}, nil
}

// ReadDir returns what is in a directory, by name.
func (f *Files) ReadDir(name string) ([]fs.DirEntry, error) {
	found, err := f.existing("readdir", name, true)
	if err == nil && !found.mode.IsDir() {
		err = &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return entriesOf(found), nil
}

// ReadFile reads a file.
func (f *Files) ReadFile(name string) ([]byte, error) {
	found, err := f.existing("read", name, true)
	if err == nil && found.mode.IsDir() {
		err = &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if err != nil {
		return nil, err
	}

	data := make([]byte, found.size)
	if _, err := f.spool.ReadAt(data, found.offset); err != nil && len(data) > 0 {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}

	return data, nil
}

func entriesOf(dir *node) []fs.DirEntry {
	entries := make([]fs.DirEntry, 0, len(dir.children))
	for name, child := range dir.children {
		entries = append(entries, fs.FileInfoToDirEntry(info{child, name}))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// info describes a node under a name.
type info struct {
	node *node
	name string
}

func (i info) Name() string       { return i.name }
func (i info) Mode() fs.FileMode  { return i.node.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.node.mode.IsDir() }
func (i info) Sys() any           { return nil }

func (i info) Size() int64 {
	if i.node.mode&fs.ModeSymlink != 0 {
		return int64(len(i.node.target))
	}
	return i.node.size
}

// openFile is a file that is read.
type openFile struct {
	*io.SectionReader
	info info
}

func (o *openFile) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *openFile) Close() error               { return nil }

// openDir is a directory that is read.
type openDir struct {
	info    info
	entries []fs.DirEntry
}

func (o *openDir) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *openDir) Close() error               { return nil }

func (o *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: o.info.name, Err: syscall.EISDIR}
}

// ReadDir returns up to n entries, or all of them.
func (o *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(o.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(o.entries) {
		n = len(o.entries)
	}

	given := o.entries[:n]
	o.entries = o.entries[n:]
	return given, nil
}
