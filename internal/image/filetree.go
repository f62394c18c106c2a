package image

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

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

// fileTree is the tree of the files, directories and links below a root, without their content.
type fileTree struct{ root *fileNode }

func newFileTree() fileTree { return fileTree{newDirectoryNode(0o755)} }

// lookupPath returns the node at a path, its directory and its name in the directory. The
// node is nil when the directory has no such name.
func (t fileTree) lookupPath(op, name string, follow bool) (found, dir *fileNode, base string, err error) {
	refuse := func(err error) (*fileNode, *fileNode, string, error) {
		return nil, nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return refuse(fs.ErrInvalid)
	}

	parents := []*fileNode{t.root} // from the root to the current directory
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
func (t fileTree) lookupExisting(op, name string, follow bool) (*fileNode, error) {
	found, _, _, err := t.lookupPath(op, name, follow)
	if err == nil && found == nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return found, err
}

// lookupVacant returns the directory and the name for a new node, or fs.ErrExist.
func (t fileTree) lookupVacant(op, name string) (*fileNode, string, error) {
	found, dir, base, err := t.lookupPath(op, name, false)
	if err == nil && found != nil {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	}
	return dir, base, err
}

// Lstat describes a file. It does not follow a link at the end of the path.
func (t fileTree) Lstat(name string) (fs.FileInfo, error) {
	return t.statFileNode("lstat", name, false)
}

// Stat describes a file. It follows links.
func (t fileTree) Stat(name string) (fs.FileInfo, error) { return t.statFileNode("stat", name, true) }

func (t fileTree) statFileNode(op, name string, follow bool) (fs.FileInfo, error) {
	found, err := t.lookupExisting(op, name, follow)
	if err != nil {
		return nil, err
	}
	return nodeInfo{found, path.Base(name)}, nil
}

// ReadLink returns the target of a link.
func (t fileTree) ReadLink(name string) (string, error) {
	found, err := t.lookupExisting("readlink", name, false)
	if err == nil && found.mode&fs.ModeSymlink == 0 {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return found.target, nil
}

// Mkdir creates a directory.
func (t fileTree) Mkdir(name string, perm fs.FileMode) error {
	dir, base, err := t.lookupVacant("mkdir", name)
	if err == nil {
		dir.children[base] = newDirectoryNode(perm)
	}
	return err
}

// RemoveAll removes a file, or a directory with its content.
func (t fileTree) RemoveAll(name string) error {
	found, dir, base, err := t.lookupPath("remove", name, false)
	if err == nil && found != nil && dir != nil {
		delete(dir.children, base)
	}
	return err
}

// Symlink creates a symbolic link.
func (t fileTree) Symlink(target, name string) error {
	dir, base, err := t.lookupVacant("symlink", name)
	if err == nil {
		dir.children[base] = &fileNode{mode: fs.ModeSymlink | 0o777, target: target}
	}
	return err
}

// Link adds a name for an existing file.
func (t fileTree) Link(existing, name string) error {
	found, err := t.lookupExisting("link", existing, false)
	if err != nil {
		return err
	}

	dir, base, err := t.lookupVacant("link", name)
	if err == nil {
		dir.children[base] = found
	}

	return err
}

// Names returns the names in a directory, in any order.
func (t fileTree) Names(name string) ([]string, error) {
	dir, err := t.lookupExisting("readdir", name, true)
	if err != nil {
		return nil, err
	}

	names := make([]string, 0, len(dir.children))
	for child := range dir.children {
		names = append(names, child)
	}

	return names, nil
}

// ReadDir returns the entries of a directory, sorted by name.
func (t fileTree) ReadDir(name string) ([]fs.DirEntry, error) {
	found, err := t.lookupExisting("readdir", name, true)
	if err == nil && !found.mode.IsDir() {
		err = &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return sortedDirEntries(found), nil
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
