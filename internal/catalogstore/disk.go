package catalogstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// temporaryPattern is the name pattern of files that are not complete yet.
const temporaryPattern = ".new-*"

// disk performs all changes that the store makes to the file system.
type disk struct {
	// beforeChange is called before each change. If it returns an error, the change is not made. It is
	// only set in tests, which simulate a crash between any two changes.
	beforeChange func(change, path string) error
}

func (d disk) allowChange(change, path string) error {
	if d.beforeChange == nil {
		return nil
	}
	return d.beforeChange(change, path)
}

func (d disk) ensureDirectory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := d.allowChange("make folder", path); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o700)
}

// createPendingFile creates a temporary file in a directory, and the directory if it does not exist.
func (d disk) createPendingFile(dir string) (*pendingFile, error) {
	if err := d.ensureDirectory(dir); err != nil {
		return nil, err
	}
	if err := d.allowChange("create", dir); err != nil {
		return nil, err
	}

	file, err := os.CreateTemp(dir, temporaryPattern)
	if err != nil {
		return nil, err
	}

	return &pendingFile{File: file, disk: d}, nil
}

func (d disk) removeFile(path string) error {
	if err := d.allowChange("remove", path); err != nil {
		return err
	}
	return os.Remove(path)
}

func (d disk) removeTree(path string) error {
	if err := d.allowChange("remove", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// pendingFile is a file that is written under a temporary name.
type pendingFile struct {
	*os.File
	disk    disk
	renamed bool
}

func (f *pendingFile) Write(p []byte) (int, error) {
	if err := f.disk.allowChange("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// syncToDisk flushes the file to disk. A file that is renamed after that is complete even after a power
// failure.
func (f *pendingFile) syncToDisk() error {
	if err := f.disk.allowChange("sync", f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

// renameTo renames the file to its final path.
func (f *pendingFile) renameTo(path string) error {
	if err := f.disk.allowChange("rename", path); err != nil {
		return err
	}

	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		// Another program has created a directory there.
		if err := f.disk.removeTree(path); err != nil {
			return err
		}
	}

	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}

	f.renamed = true
	return nil
}

// closeAndDiscard closes the file, and removes it unless it was renamed.
func (f *pendingFile) closeAndDiscard() {
	_ = f.Close() // A file that is kept was synced before.
	if !f.renamed {
		_ = f.disk.removeFile(f.Name()) // A leftover is removed at the next start.
	}
}

// explainDiskError adds context and advice to an error of the disk. It returns errors about the content
// unchanged.
func explainDiskError(doing string, err error) error {
	var content *fbc.Error
	switch {
	case errors.As(err, &content):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: the volume of the catalog cache is full; free space on it or make it larger: %w", doing, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
