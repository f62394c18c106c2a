// Package filecopy copies files between the folders of a pod. OLM's pods copy the content
// of bundle and catalog images, and the programs that do so.
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

// Copy copies a file, or a folder recursively. Existing files are replaced, so that an
// interrupted copy can be repeated. Copied, if not nil, is called for each file.
type Copy struct {
	From, To string
	Copied   func(from, to string)
}

// Run copies. It follows a symbolic link at From. Links within a folder are copied as
// links. It returns an error for other types of files.
func (c *Copy) Run(ctx context.Context) error {
	info, err := os.Stat(c.From)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.copyEntry(c.From, c.To, info)
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

		return c.copyEntry(name, filepath.Join(c.To, below), info)
	})
}

// copyEntry copies a file or a link, or creates a folder.
func (c *Copy) copyEntry(from, to string, info fs.FileInfo) error {
	var err error
	switch {
	case info.IsDir():
		return os.MkdirAll(to, 0o755) //nolint:gosec // a container with another user reads it
	case info.Mode()&fs.ModeSymlink != 0:
		var target string
		if target, err = os.Readlink(from); err == nil {
			err = errors.Join(removeIfExists(to), os.Symlink(target, to))
		}
	case info.Mode().IsRegular():
		err = copyRegularFile(from, to, info.Mode().Perm())
	default:
		err = fmt.Errorf("%s is neither a file, a folder nor a link", from)
	}

	if err == nil && c.Copied != nil {
		c.Copied(from, to)
	}
	return err
}

// copyRegularFile copies a file with a mode.
func copyRegularFile(from, to string, mode fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	return replaceFile(to, mode, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
}

// replaceFile removes a file and creates it again, because the existing one may be
// read-only or a link.
func replaceFile(to string, mode fs.FileMode, fill func(io.Writer) error) error {
	if err := removeIfExists(to); err != nil {
		return err
	}

	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(fill(target), target.Close())
}

// removeIfExists removes a file and ignores a missing one.
func removeIfExists(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Bundle copies the manifests and the metadata of a bundle from the root of a bundle image
// to another folder. It keeps the paths and applies the limits of bundles.
type Bundle struct {
	From, To string
}

// Run copies. If there is no bundle, it returns an error and copies nothing.
func (b *Bundle) Run(ctx context.Context) error {
	root, err := os.OpenRoot(b.From)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
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
			continue // its content is not part of the bundle
		}
		if f.Data == nil && f.Err != nil {
			return fmt.Errorf("%s: %w", f.Name, f.Err)
		}

		to := filepath.Join(b.To, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // a container with another user reads it
			return err
		}

		err := replaceFile(to, 0o644, func(w io.Writer) error {
			_, err := w.Write(f.Data)
			return err
		})
		if err != nil {
			return err
		}
	}

	return nil
}
