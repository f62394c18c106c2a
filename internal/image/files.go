package image

import (
	"context"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// Files is a file system with files of an image. Their content is in one unlinked temporary
// file. A thousand of them use no more than their size, and nothing remains when the
// program ends. It is safe for concurrent use.
//
// ReadDir and ReadFile are fast. Links within the files are followed. An open file is an
// io.ReaderAt and io.Seeker.
type Files struct {
	fileTree
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

		part := &Files{fileTree: newFileTree(), spool: files.spool}
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
	return &Files{fileTree: newFileTree(), spool: &spool{dir: tempDir}}
}

// Close frees the content. Open files can no longer be read.
func (f *Files) Close() error { return f.spool.close() }

// FS returns f as a file system.
func (f *Files) FS() fs.FS { return f }

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
