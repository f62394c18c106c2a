package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// destination is what layers are applied to. Names are as in io/fs; none leads out of it, be it
// by links. Lstat looks at a link, Stat and all else follow the links in the directories
// on the way, and Stat that at its end.
type destination interface {
	Lstat(name string) (fs.FileInfo, error)
	Stat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	RemoveAll(name string) error
	// Create makes a file where nothing is yet.
	Create(name string, perm fs.FileMode) (io.WriteCloser, error)
	Symlink(target, name string) error
	Link(existing, name string) error
	// Names returns what is in a directory, in any order.
	Names(dir string) ([]string, error)
	FS() fs.FS
}

// directory is one on disk.
type directory struct{ *os.Root }

// Create makes a file where nothing is yet.
func (d directory) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	return d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

// Names returns what is in a directory.
func (d directory) Names(name string) ([]string, error) {
	dir, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	return names, errors.Join(err, dir.Close())
}
