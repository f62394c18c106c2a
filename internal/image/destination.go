package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// destination is a file tree to which layers are applied. Names are as in io/fs. No name
// and no link leads out of it. Lstat does not follow a link at the end of a name, Stat
// does. All methods follow links in the directories of a name.
type destination interface {
	Lstat(name string) (fs.FileInfo, error)
	Stat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	RemoveAll(name string) error
	// Create creates a file. It fails if the name exists.
	Create(name string, perm fs.FileMode) (io.WriteCloser, error)
	Symlink(target, name string) error
	Link(existing, name string) error
	// Names returns the names in a directory, in any order.
	Names(dir string) ([]string, error)
	FS() fs.FS
}

// diskDirectory is a destination on disk.
type diskDirectory struct{ *os.Root }

// Create creates a file. It fails if the name exists.
func (d diskDirectory) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	return d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

// Names returns the names in a directory.
func (d diskDirectory) Names(name string) ([]string, error) {
	dir, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	return names, errors.Join(err, dir.Close())
}
