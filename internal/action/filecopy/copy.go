// Package filecopy copies files between the folders of a pod: what OLM's pods take out of the
// images of bundles and catalogs, and the programs by which they do it.
package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Copy copies a file, or a folder with all that is in it. What is there already is replaced, so
// that a copy that was cut off can be made again. Copied is told of each file; nil is told nothing.
type Copy struct {
	From, To string
	Copied   func(from, to string)
}

// Run copies. A symbolic link at From is followed; those within a folder are copied as links. It
// fails for what is neither a file, a folder nor a link.
func (c *Copy) Run(ctx context.Context) error {
	info, err := os.Stat(c.From)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.one(c.From, c.To, info)
	}

	from, err := filepath.EvalSymlinks(c.From)
	if err != nil {
		return err
	}

	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}

		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		return c.one(name, filepath.Join(c.To, below), info)
	})
}

// one copies a file, a link, or a folder without what is in it.
func (c *Copy) one(from, to string, info fs.FileInfo) error {
	var err error
	switch {
	case info.IsDir():
		return os.MkdirAll(to, 0o755) //nolint:gosec // a container with another user reads it.
	case info.Mode()&fs.ModeSymlink != 0:
		var target string
		if target, err = os.Readlink(from); err == nil {
			err = errors.Join(remove(to), os.Symlink(target, to))
		}
	case info.Mode().IsRegular():
		err = file(from, to, info.Mode().Perm())
	default:
		err = fmt.Errorf("%s is neither a file, a folder nor a link", from)
	}

	if err == nil && c.Copied != nil {
		c.Copied(from, to)
	}
	return err
}

func file(from, to string, mode fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}

	defer func() { _ = source.Close() }() // It was only read.
	return write(to, mode, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
}

// write makes a file anew: one that is there may be read-only, or a link to somewhere else.
func write(to string, mode fs.FileMode, fill func(io.Writer) error) error {
	if err := remove(to); err != nil {
		return err
	}

	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(fill(target), target.Close())
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Bundle copies the manifests and the metadata of the bundle in a folder, which is the root of a
// bundle image, to another, at the same paths. The limits are those of bundles everywhere.
type Bundle struct {
	From, To string
}

// Run copies. It fails where there is no bundle, and leaves nothing then.
func (b *Bundle) Run(ctx context.Context) error {
	root, err := os.OpenRoot(b.From)
	if err != nil {
		return err
	}

	defer func() { _ = root.Close() }() // It was only read.
	files, err := bundle.ReadFiles(root.FS())
	switch {
	case err != nil:
		return fmt.Errorf("reading the bundle in %s: %w", b.From, err)
	case !files.HasManifests:
		return fmt.Errorf("%s holds no bundle: there is no folder %s", b.From, bundle.FolderManifests)
	case !files.HasMetadata:
		return fmt.Errorf("%s holds no bundle: there is no folder %s", b.From, bundle.FolderMetadata)
	}

	for _, f := range append(files.Manifests, files.Metadata...) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.Folder {
			continue // What is in it is not of the bundle.
		}
		if f.Data == nil && f.Err != nil {
			return fmt.Errorf("%s: %w", f.Name, f.Err)
		}

		to := filepath.Join(b.To, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // a container with another user reads it.
			return err
		}

		err := write(to, 0o644, func(w io.Writer) error {
			_, err := w.Write(f.Data)
			return err
		})
		if err != nil {
			return err
		}
	}

	return nil
}
