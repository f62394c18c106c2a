package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
)

// Layer describes a layer to build: a tree of files, single files, or both.
type Layer struct {
	// Tree is copied below Target ("/configs"; empty means "/"). It may contain directories
	// and regular files only.
	Tree   fs.FS
	Target string
	// Files are single files at their own paths.
	Files []File
	// Dirs are directories that exist even if they are empty.
	Dirs []string
	// Temporary are directories, such as /tmp, with mode 1777: every user may create files
	// there, but not remove those of others.
	Temporary []string
	// UID and GID are the owner of everything in the layer.
	UID, GID int
}

// File is a single file of a layer.
type File struct {
	// Path is the path in the image, such as /usr/bin/mainstay.
	Path string
	// Executable sets the file mode to 0755 instead of 0644.
	Executable bool
	// ReadOnly sets the file mode to 0444, or to 0555 for executables.
	ReadOnly bool
	// First places the file before the other files in the archive, which are sorted by
	// path. A reader that looks for this file does not have to read the others.
	First bool
	// Link makes the file a symbolic link to this path. Such a file has no content.
	Link string
	// Content is the content of the file.
	Content []byte
}

// layerFile is a file of a layer: bytes, a link, or a file of the layer's tree.
type layerFile struct {
	data       []byte
	link       string
	tree       fs.FS
	name       string // in the tree
	executable bool
	readOnly   bool
	first      bool
}

// packArchive returns the compressed archive of the layer, and the digest of the
// uncompressed archive. It reads one file at a time.
func (l Layer) packArchive() ([]byte, digest.Digest, error) {
	files, err := l.collectFiles()
	if err != nil {
		return nil, "", err
	}
	if err := addParentDirs(files); err != nil {
		return nil, "", err
	}

	var out bytes.Buffer
	plain := digest.Canonical.Digester()
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(io.MultiWriter(plain.Hash(), packed))
	for _, name := range sortArchivePaths(files) {
		if err := l.writeArchiveEntry(w, name, files[name]); err != nil {
			return nil, "", fmt.Errorf("/%s: %w", name, err)
		}
	}

	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		return nil, "", err
	}

	return out.Bytes(), plain.Digest(), nil
}

// sortArchivePaths returns the paths in the order of the archive.
func sortArchivePaths(files map[string]*layerFile) []string {
	names := slices.Sorted(maps.Keys(files))
	first := map[string]bool{}
	for name, file := range files {
		if file == nil || !file.first {
			continue
		}
		for ; name != "."; name = path.Dir(name) {
			first[name] = true
		}
	}

	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case first[a] == first[b]:
			return 0
		case first[a]:
			return -1
		default:
			return 1
		}
	})

	return names
}

// addParentDirs adds the parent directories of all files. A directory is nil.
func addParentDirs(files map[string]*layerFile) error {
	dirs := map[string]bool{}
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if files[dir] != nil {
				return fmt.Errorf("/%s is both a file and a directory", dir)
			}
			dirs[dir] = true
		}
	}

	for dir := range dirs {
		files[dir] = nil
	}
	return nil
}

// writeArchiveEntry writes one file, link or directory into the archive.
func (l Layer) writeArchiveEntry(w *tar.Writer, name string, file *layerFile) error {
	header := &tar.Header{
		Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Uid: l.UID, Gid: l.GID, ModTime: time.Unix(0, 0),
	}
	if file == nil {
		if l.isTemporaryDir(name) {
			header.Mode = 0o1777
		}
		return w.WriteHeader(header)
	}

	if file.link != "" {
		header.Typeflag = tar.TypeSymlink
		header.Name = name
		header.Linkname = file.link
		header.Mode = 0o777
		return w.WriteHeader(header)
	}

	data := file.data
	if file.tree != nil {
		var err error
		if data, err = fs.ReadFile(file.tree, file.name); err != nil {
			return err
		}
	}

	header.Typeflag = tar.TypeReg
	header.Name = name
	header.Size = int64(len(data))
	if !file.executable {
		header.Mode = 0o644
	}
	if file.readOnly {
		header.Mode &^= 0o222
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}

	_, err := w.Write(data)
	return err
}

func (l Layer) isTemporaryDir(name string) bool {
	return slices.ContainsFunc(l.Temporary, func(dir string) bool { return path.Clean("/"+dir) == "/"+name })
}

// collectFiles returns the files of the layer by path. A directory is nil.
func (l Layer) collectFiles() (map[string]*layerFile, error) {
	files := map[string]*layerFile{}
	for _, file := range l.Files {
		name := strings.TrimPrefix(path.Clean("/"+file.Path), "/")
		if name == "" || files[name] != nil {
			return nil, fmt.Errorf("the file path %q is empty or given twice", file.Path)
		}
		files[name] = &layerFile{data: file.Content, link: file.Link, executable: file.Executable, readOnly: file.ReadOnly, first: file.First}
	}

	for _, dir := range slices.Concat(l.Dirs, l.Temporary) {
		name := strings.TrimPrefix(path.Clean("/"+dir), "/")
		if name == "" || files[name] != nil {
			return nil, fmt.Errorf("the directory %q is the root or a file", dir)
		}
		files[name] = nil
	}

	if l.Tree == nil {
		return files, nil
	}

	target := strings.TrimPrefix(path.Clean("/"+l.Target), "/")
	err := fs.WalkDir(l.Tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		to := path.Join(target, name)
		switch {
		case to == ".":
			return nil
		case files[to] != nil:
			return fmt.Errorf("/%s is given twice", to)
		case entry.IsDir():
			files[to] = nil
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", name)
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		files[to] = &layerFile{tree: l.Tree, name: name, executable: info.Mode()&0o111 != 0}
		return nil
	})

	return files, err
}
