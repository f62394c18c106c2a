package catalogs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// copyFileTree copies the content of a folder of fsys into a folder on disk, which is created
// if necessary. Existing files are overwritten. Symbolic links are copied as links. Nothing
// is written outside of the target folder.
func copyFileTree(fsys fs.FS, from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // the user's umask decides
		return err
	}

	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // every file of it was closed
	return fs.WalkDir(fsys, from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(filepath.FromSlash(from), filepath.FromSlash(name))
		if err != nil {
			return err
		}

		switch {
		case relative == ".":
			return nil
		case entry.IsDir():
			return root.MkdirAll(relative, 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			return copySymlink(root, fsys, name, relative)
		case !entry.Type().IsRegular():
			return &fs.PathError{Op: "copy", Path: name, Err: errors.New("it is neither a file nor a folder")}
		}

		return copyRegularFile(root, fsys, name, relative)
	})
}

// copySymlink copies a symbolic link. It refuses absolute targets.
func copySymlink(root *os.Root, fsys fs.FS, name, to string) error {
	target, err := fs.ReadLink(fsys, name)
	if err != nil {
		return err
	}
	if path.IsAbs(target) {
		return &fs.PathError{Op: "copy", Path: name, Err: errors.New("it is a link to an absolute path")}
	}
	if err := root.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return root.Symlink(target, to)
}

// copyRegularFile copies a file with its permissions.
func copyRegularFile(root *os.Root, fsys fs.FS, name, to string) error {
	source, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	info, err := source.Stat()
	if err != nil {
		return err
	}

	target, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}

	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
