package catalogstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// volume is the directory of a store. It limits the used disk space, which is measured instead of
// counted, because other programs can delete files.
type volume struct {
	dir  string
	disk disk
	// limit is the maximum size of all files, in bytes.
	limit int64
	// reserved is the size of unnamed files, which cannot be measured, in bytes.
	reserved atomic.Int64
}

// Directories of a store.
const (
	contentFolder = "content"
	catalogFolder = "catalogs"
	// scratchFolder is the directory in which images are unpacked.
	scratchFolder = ".scratch"
)

func (v *volume) contentDir() string             { return filepath.Join(v.dir, contentFolder) }
func (v *volume) pointerPath(name string) string { return filepath.Join(v.dir, catalogFolder, name) }
func (v *volume) contentPath(hexSum string) string {
	return filepath.Join(v.contentDir(), hexSum)
}

// createContent creates a temporary file in the directory of contents.
func (v *volume) createContent() (*pendingFile, error) {
	return v.disk.createPendingFile(v.contentDir())
}

// Reserve reserves space for an unnamed file in the Scratch directory until Release is called. It returns
// a *FullError if the space is not available.
func (v *volume) Reserve(bytes int64) error {
	if err := v.checkFreeSpace(bytes); err != nil {
		return err
	}
	v.reserved.Add(bytes)
	return nil
}

// Release releases reserved space.
func (v *volume) Release(bytes int64) { v.reserved.Add(-bytes) }

// checkFreeSpace returns a *FullError if there is no space for more bytes.
func (v *volume) checkFreeSpace(more int64) error {
	list, err := listDirectory(v.contentDir())
	if err != nil {
		return err
	}

	used := v.reserved.Load()
	for _, entry := range list {
		info, err := entry.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			used += info.Size()
		}
	}

	if used+more > v.limit {
		return &FullError{Used: used, Limit: v.limit}
	}

	return nil
}

// Scratch creates an empty directory on the volume of the store, for unpacking an image. The caller
// removes it.
func (v *volume) Scratch() (string, error) {
	parent := filepath.Join(v.dir, scratchFolder)
	if err := v.disk.ensureDirectory(parent); err != nil {
		return "", explainDiskError("creating a directory to unpack into", err)
	}

	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return "", explainDiskError("creating a directory to unpack into", err)
	}

	return dir, nil
}

// writePendingPointer writes a pointer to a temporary file.
func (v *volume) writePendingPointer(p pointer) (*pendingFile, error) {
	text, err := p.encode()
	if err != nil {
		return nil, err
	}

	out, err := v.disk.createPendingFile(filepath.Join(v.dir, catalogFolder))
	if err != nil {
		return nil, err
	}
	if _, err = out.Write(text); err == nil {
		err = out.syncToDisk()
	}
	if err != nil {
		out.closeAndDiscard()
		return nil, err
	}

	return out, nil
}

// removeContent removes the file of a content with its compressed forms. It is not an error if they do
// not exist.
func (v *volume) removeContent(content string) error {
	path := v.contentPath(content)
	err := v.disk.removeFile(path)
	for _, encoding := range Encodings {
		err = errors.Join(ignoreMissing(err), ignoreMissing(v.disk.removeFile(path+"."+string(encoding))))
	}

	if err != nil {
		return fmt.Errorf("removing unused content: %w", err)
	}

	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeOrphans removes the files that do not belong to a catalog: unfinished ones, content that no
// catalog uses, and pointers that are not those of a catalog.
func (v *volume) removeOrphans(isUsed func(content string) bool, isCatalog func(name string) bool) error {
	if err := v.disk.removeTree(filepath.Join(v.dir, scratchFolder)); err != nil {
		return err
	}

	for _, folder := range []string{contentFolder, catalogFolder} {
		list, err := listDirectory(filepath.Join(v.dir, folder))
		if err != nil {
			return err
		}
		for _, entry := range list {
			// The name of a compressed form is <content>.<encoding>.
			content, _, _ := strings.Cut(entry.Name(), ".")
			if (folder == contentFolder && isUsed(content)) || (folder == catalogFolder && isCatalog(entry.Name())) {
				continue
			}
			if err := v.disk.removeTree(filepath.Join(v.dir, folder, entry.Name())); err != nil {
				return err
			}
		}
	}

	return nil
}

// listDirectory lists a directory. A directory that does not exist has no entries.
func listDirectory(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}
