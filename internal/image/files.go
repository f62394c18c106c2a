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

// Files is a file system with files of an image. Their content is in one unlinked temporary
// file. A thousand of them use no more than their size, and nothing remains when the
// program ends. It is safe for concurrent use.
//
// ReadDir and ReadFile are fast. Links within the files are followed. An open file is an
// io.ReaderAt and io.Seeker.
type Files struct {
	root  *fileNode
	spool *spool
}

var (
	_ fs.ReadDirFS  = (*Files)(nil)
	_ fs.ReadFileFS = (*Files)(nil)
	_ fs.StatFS     = (*Files)(nil)
	_ fs.ReadLinkFS = (*Files)(nil)
)

// Files reads the files of the image below prefix, as Extract does and with the same
// limits. The content is stored in tempDir, or in the default directory for temporary files
// when that is empty. Little of it stays in memory. The caller closes the files.
func (img *Image) Files(ctx context.Context, prefix, tempDir string) (*Files, Stats, error) {
	return img.FilesWithin(ctx, prefix, tempDir, nil)
}

// FilesWithin reads files as Files does, and reserves their size in space. The space is
// released when the files are closed.
func (img *Image) FilesWithin(ctx context.Context, prefix, tempDir string, space Space) (*Files, Stats, error) {
	files := newSpooledFiles(tempDir)
	files.spool.space = space
	stats, err := img.layers.unpackLayers(ctx, prefix, files)
	if err == nil {
		err = files.spool.flush()
	}
	if err != nil {
		_ = files.Close() // The error above is returned.
		return nil, stats, img.registries.operationError("extract", img.ref, err)
	}

	return files, stats, nil
}

// FilesOfFolders reads several folders of the image's root ("manifests") in one pass over its
// layers, each as Files reads one. The result has them under their names. A folder that the
// image does not have is missing. The limits apply to each folder.
func (img *Image) FilesOfFolders(ctx context.Context, tempDir string, names ...string) (*Files, error) {
	files := newSpooledFiles(tempDir)
	err := img.layers.readFolders(ctx, files, names)
	if err == nil {
		err = files.spool.flush()
	}
	if err != nil {
		_ = files.Close() // The error above is returned.
		return nil, img.registries.operationError("extract", img.ref, err)
	}

	return files, nil
}

func (s layerStack) readFolders(ctx context.Context, files *Files, names []string) error {
	var unpackers []*unpacker
	for _, name := range names {
		if !fs.ValidPath(name) || name == "." || strings.Contains(name, "/") {
			return kindErrorf(KindInvalid, "%q is not a folder of an image's root", name)
		}

		part := &Files{root: newDirectoryNode(0o755), spool: files.spool}
		files.root.children[name] = part.root
		x, err := newUnpacker(part, name, s.content.opts.Limits)
		if err != nil {
			return err
		}

		unpackers = append(unpackers, x)
	}

	if len(unpackers) == 0 {
		return nil
	}

	last := len(unpackers) - 1
	unpackers[last].siblings = unpackers[:last:last]
	ctx, end, err := s.transfers.acquire(ctx)
	if err != nil {
		return err
	}
	defer end()

	for _, l := range s.layers {
		if err := s.extractLayer(ctx, unpackers[last], l); err != nil {
			return err
		}
	}

	for i, x := range unpackers {
		if !x.found && x.obstacle == "" {
			delete(files.root.children, names[i])
			continue
		}
		if err := x.checkAppliedLayers(); err != nil {
			return err
		}
	}

	return nil
}

func newSpooledFiles(tempDir string) *Files {
	return &Files{root: newDirectoryNode(0o755), spool: &spool{dir: tempDir}}
}

// Close frees the content. Open files can no longer be read.
func (f *Files) Close() error { return f.spool.close() }

// fileNode is a file, a directory or a link.
type fileNode struct {
	mode     fs.FileMode
	children map[string]*fileNode // of a directory
	target   string               // of a link
	offset   int64                // of a file, in the spool
	size     int64
}

func newDirectoryNode(perm fs.FileMode) *fileNode {
	return &fileNode{mode: fs.ModeDir | perm, children: map[string]*fileNode{}}
}

// maxSymlinks is how many links a path may follow. It is the limit of os.Root.
const maxSymlinks = 8

var errEscapes = errors.New("path escapes from parent")

// lookupPath returns the node at a path, its directory and its name in the directory. The
// node is nil when the directory has no such name.
func (f *Files) lookupPath(op, name string, follow bool) (found, dir *fileNode, base string, err error) {
	refuse := func(err error) (*fileNode, *fileNode, string, error) {
		return nil, nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return refuse(fs.ErrInvalid)
	}

	parents := []*fileNode{f.root} // from the root to the current directory
	links := 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		current := parents[len(parents)-1]
		switch {
		case !current.mode.IsDir():
			return refuse(syscall.ENOTDIR)
		case element == "." || element == "":
			continue
		case element == ".." && len(parents) == 1:
			return refuse(errEscapes)
		case element == "..":
			parents = parents[:len(parents)-1]
			continue
		}

		next := current.children[element]
		switch {
		case next == nil && len(rest) == 0:
			return nil, current, element, nil
		case next == nil:
			return refuse(fs.ErrNotExist)
		case next.mode&fs.ModeSymlink == 0 || len(rest) == 0 && !follow:
			if len(rest) == 0 {
				return next, current, element, nil
			}
			parents = append(parents, next)
			continue
		}

		if links++; links > maxSymlinks {
			return refuse(syscall.ELOOP)
		}

		rest = append(strings.Split(next.target, "/"), rest...)
	}

	last := parents[len(parents)-1]
	return last, nil, ".", nil
}

// lookupExisting returns the node at a path, or fs.ErrNotExist.
func (f *Files) lookupExisting(op, name string, follow bool) (*fileNode, error) {
	found, _, _, err := f.lookupPath(op, name, follow)
	if err == nil && found == nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return found, err
}

// lookupVacant returns the directory and the name for a new node, or fs.ErrExist.
func (f *Files) lookupVacant(op, name string) (*fileNode, string, error) {
	found, dir, base, err := f.lookupPath(op, name, false)
	if err == nil && found != nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	}
	return dir, base, err
}

// FS returns f as a file system.
func (f *Files) FS() fs.FS { return f }

// Lstat describes a file. It does not follow a link at the end of the path.
func (f *Files) Lstat(name string) (fs.FileInfo, error) { return f.statFileNode("lstat", name, false) }

// Stat describes a file. It follows links.
func (f *Files) Stat(name string) (fs.FileInfo, error) { return f.statFileNode("stat", name, true) }

func (f *Files) statFileNode(op, name string, follow bool) (fs.FileInfo, error) {
	found, err := f.lookupExisting(op, name, follow)
	if err != nil {
		return nil, err
	}
	return nodeInfo{found, path.Base(name)}, nil
}

// ReadLink returns the target of a link.
func (f *Files) ReadLink(name string) (string, error) {
	found, err := f.lookupExisting("readlink", name, false)
	if err == nil && found.mode&fs.ModeSymlink == 0 {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return found.target, nil
}

// Mkdir creates a directory.
func (f *Files) Mkdir(name string, perm fs.FileMode) error {
	dir, base, err := f.lookupVacant("mkdir", name)
	if err == nil {
		dir.children[base] = newDirectoryNode(perm)
	}
	return err
}

// RemoveAll removes a file, or a directory with its content.
func (f *Files) RemoveAll(name string) error {
	found, dir, base, err := f.lookupPath("remove", name, false)
	if err == nil && found != nil && dir != nil {
		delete(dir.children, base)
	}
	return err
}

// Symlink creates a symbolic link.
func (f *Files) Symlink(target, name string) error {
	dir, base, err := f.lookupVacant("symlink", name)
	if err == nil {
		dir.children[base] = &fileNode{mode: fs.ModeSymlink | 0o777, target: target}
	}
	return err
}

// Link adds a name for an existing file.
func (f *Files) Link(existing, name string) error {
	found, err := f.lookupExisting("link", existing, false)
	if err != nil {
		return err
	}

	dir, base, err := f.lookupVacant("link", name)
	if err == nil {
		dir.children[base] = found
	}

	return err
}

// Names returns the names in a directory, in any order.
func (f *Files) Names(name string) ([]string, error) {
	dir, err := f.lookupExisting("readdir", name, true)
	if err != nil {
		return nil, err
	}

	names := make([]string, 0, len(dir.children))
	for child := range dir.children {
		names = append(names, child)
	}

	return names, nil
}

// Create creates a file. It must be written before the next file is created.
func (f *Files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	dir, base, err := f.lookupVacant("open", name)
	if err != nil {
		return nil, err
	}
	created := &fileNode{mode: perm, offset: f.spool.size}
	dir.children[base] = created
	return &nodeWriter{created, f.spool}, nil
}

// nodeWriter appends to the last file of the spool.
type nodeWriter struct {
	node  *fileNode
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
	found, err := f.lookupExisting("open", name, true)
	if err != nil {
		return nil, err
	}

	described := nodeInfo{found, path.Base(name)}
	if found.mode.IsDir() {
		return &openDir{info: described, entries: sortedDirEntries(found)}, nil
	}

	return &openFile{io.NewSectionReader(f.spool, found.offset, found.size), described}, nil
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *Files) ReadDir(name string) ([]fs.DirEntry, error) {
	found, err := f.lookupExisting("readdir", name, true)
	if err == nil && !found.mode.IsDir() {
		err = &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return sortedDirEntries(found), nil
}

// ReadFile reads a file.
func (f *Files) ReadFile(name string) ([]byte, error) {
	found, err := f.lookupExisting("read", name, true)
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

func sortedDirEntries(dir *fileNode) []fs.DirEntry {
	entries := make([]fs.DirEntry, 0, len(dir.children))
	for name, child := range dir.children {
		entries = append(entries, fs.FileInfoToDirEntry(nodeInfo{child, name}))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// nodeInfo is the fs.FileInfo of a node under a name.
type nodeInfo struct {
	node *fileNode
	name string
}

func (i nodeInfo) Name() string       { return i.name }
func (i nodeInfo) Mode() fs.FileMode  { return i.node.mode }
func (i nodeInfo) ModTime() time.Time { return time.Time{} }
func (i nodeInfo) IsDir() bool        { return i.node.mode.IsDir() }
func (i nodeInfo) Sys() any           { return nil }

func (i nodeInfo) Size() int64 {
	if i.node.mode&fs.ModeSymlink != 0 {
		return int64(len(i.node.target))
	}
	return i.node.size
}

// openFile is a file that is open for reading.
type openFile struct {
	*io.SectionReader
	info nodeInfo
}

func (o *openFile) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *openFile) Close() error               { return nil }

// openDir is a directory that is open for reading.
type openDir struct {
	info    nodeInfo
	entries []fs.DirEntry
}

func (o *openDir) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *openDir) Close() error               { return nil }

func (o *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: o.info.name, Err: syscall.EISDIR}
}

// ReadDir returns the next n entries, or all of them when n is not positive.
func (o *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(o.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(o.entries) {
		n = len(o.entries)
	}

	page := o.entries[:n]
	o.entries = o.entries[n:]
	return page, nil
}
