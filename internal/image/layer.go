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

// Layer is a layer to build: a tree of files, single files, or both.
type Layer struct {
	// Tree is copied below Target ("/configs"; empty is "/"): its directories and regular
	// files. Anything else in it is an error.
	Tree   fs.FS
	Target string
	// Files are single files at their own paths.
	Files []File
	// Dirs are directories that are there even if nothing is in them.
	Dirs []string
	// Temporary are directories, such as /tmp, in which everybody may make files, and nobody
	// removes those of others (mode 1777).
	Temporary []string
	// UID and GID own everything in the layer.
	UID, GID int
}

// File is a single file of a layer.
type File struct {
	// Path in the image, such as /usr/bin/mainstay.
	Path string
	// Executable returns the file mode 0755 instead of 0644.
	Executable bool
	// ReadOnly returns it mode 0444, or 0555.
	ReadOnly bool
	// First has it stand before the other files in the archive, which else are sorted by
	// their paths, so that who looks for it need not read them.
	First bool
	// Link makes it a symbolic link to that path. Such a file has no content.
	Link string
	// Content of the file.
	Content []byte
}

// content is a file of a layer: bytes, or a file of its tree.
type content struct {
	data       []byte
	link       string
	tree       fs.FS
	name       string // in the tree
	executable bool
	readOnly   bool
	first      bool
}

// pack makes the layer's archive, compressed, and gives the digest that it has when it is
// not. One file after the other is read.
func (l Layer) pack() ([]byte, digest.Digest, error) {
	files, err := l.collect()
	if err != nil {
		return nil, "", err
	}
	if err := addParents(files); err != nil {
		return nil, "", err
	}

	var out bytes.Buffer
	plain := digest.Canonical.Digester()
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(io.MultiWriter(plain.Hash(), packed))
	for _, name := range order(files) {
		if err := l.write(w, name, files[name]); err != nil {
			return nil, "", fmt.Errorf("/%s: %w", name, err)
		}
	}

	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		return nil, "", err
	}

	return out.Bytes(), plain.Digest(), nil
}

// order returns the paths as they stand in the archive.
func order(files map[string]*content) []string {
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

// addParents adds the directories that files lie in. A directory has no content.
func addParents(files map[string]*content) error {
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

func (l Layer) write(w *tar.Writer, name string, file *content) error {
	header := &tar.Header{
		Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Uid: l.UID, Gid: l.GID, ModTime: time.Unix(0, 0),
	}
	if file == nil {
		if l.isTemporary(name) {
			header.Mode = 0o1777
		}
		return w.WriteHeader(header)
	}

	if file.link != "" {
		header.Typeflag, header.Name, header.Linkname, header.Mode = tar.TypeSymlink, name, file.link, 0o777
		return w.WriteHeader(header)
	}

	data := file.data
	if file.tree != nil {
		var err error
		if data, err = fs.ReadFile(file.tree, file.name); err != nil {
			return err
		}
	}

	header.Typeflag, header.Name, header.Size = tar.TypeReg, name, int64(len(data))
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

func (l Layer) isTemporary(name string) bool {
	return slices.ContainsFunc(l.Temporary, func(dir string) bool { return path.Clean("/"+dir) == "/"+name })
}

// collect returns the layer's files by path; a directory is nil.
func (l Layer) collect() (map[string]*content, error) {
	files := map[string]*content{}
	for _, file := range l.Files {
		name := strings.TrimPrefix(path.Clean("/"+file.Path), "/")
		if name == "" || files[name] != nil {
			return nil, fmt.Errorf("the file path %q is empty or given twice", file.Path)
		}
		files[name] = &content{data: file.Content, link: file.Link, executable: file.Executable, readOnly: file.ReadOnly, first: file.First}
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

		files[to] = &content{tree: l.Tree, name: name, executable: info.Mode()&0o111 != 0}
		return nil
	})

	return files, err
}
