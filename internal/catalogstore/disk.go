package catalogstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// temporaryPattern is how a file is called until it is complete.
const temporaryPattern = ".new-*"

// disk changes files. Every change that the store makes goes through it.
type disk struct {
	// before is asked before each change, and its error takes the place of the change. It
	// is nil but in tests, which let a program end between any two changes.
	before func(change, path string) error
}

func (d disk) may(change, path string) error {
	if d.before == nil {
		return nil
	}
	return d.before(change, path)
}

func (d disk) makeFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := d.may("make folder", path); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o700)
}

// create makes a file for writing, in a folder that is made when it is missing.
func (d disk) create(dir string) (*newFile, error) {
	if err := d.makeFolder(dir); err != nil {
		return nil, err
	}
	if err := d.may("create", dir); err != nil {
		return nil, err
	}

	file, err := os.CreateTemp(dir, temporaryPattern)
	if err != nil {
		return nil, err
	}

	return &newFile{File: file, disk: d}, nil
}

func (d disk) remove(path string) error {
	if err := d.may("remove", path); err != nil {
		return err
	}
	return os.Remove(path)
}

func (d disk) removeAll(path string) error {
	if err := d.may("remove", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// newFile is a file that is not in its place yet.
type newFile struct {
	*os.File
	disk  disk
	moved bool
}

func (f *newFile) Write(p []byte) (int, error) {
	if err := f.disk.may("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// sync waits until all of it is on the disk. What is moved to its place after that is
// complete also after a power failure.
func (f *newFile) sync() error {
	if err := f.disk.may("sync", f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

// move moves the file to its place.
func (f *newFile) move(place string) error {
	if err := f.disk.may("rename", place); err != nil {
		return err
	}

	if info, err := os.Lstat(place); err == nil && info.IsDir() {
		// Something else has made a folder there.
		if err := f.disk.removeAll(place); err != nil {
			return err
		}
	}

	if err := os.Rename(f.Name(), place); err != nil {
		return err
	}

	f.moved = true
	return nil
}

// discard closes the file, and removes it if it was not moved to its place.
func (f *newFile) discard() {
	_ = f.Close() // What was to be kept is synced.
	if !f.moved {
		_ = f.disk.remove(f.Name()) // The next start removes what stays.
	}
}

// explain says what to do about an error of the disk. Errors about the content stay as
// they are.
func explain(doing string, err error) error {
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
