package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// folderMode is the mode of folders that are created for files.
const folderMode = 0o755

// disk is the file system of a node.
type disk struct {
	root *os.Root
	// owners makes the disk set the owners of files, which only root may do.
	owners bool
	// lasting makes the disk flush files and folders, so that they survive a loss of power.
	lasting bool
	// before is called before each change. Tests stop the program there.
	before func(change string)
}

// relativeToRoot returns an absolute path of the node as a path relative to its root.
func relativeToRoot(p string) string { return strings.TrimPrefix(path.Clean(p), "/") }

// beforeChange announces a change to the tests.
func (d *disk) beforeChange(what, p string) {
	if d.before != nil {
		d.before(what + " " + p)
	}
}

// readFile returns the content of a regular file of at most the given size. The error matches fs.ErrNotExist when
// there is no such file. Other kinds of files are not opened: opening a named pipe blocks, and opening a device may
// have effects.
func (d *disk) readFile(p string, most int64) ([]byte, error) {
	info, err := d.root.Stat(relativeToRoot(p))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, but a %s", p, fileTypeName(info))
	}

	file, err := d.root.OpenFile(relativeToRoot(p), os.O_RDONLY|doNotWait, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, but a %s", p, fileTypeName(info))
	}

	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", p, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", p, most)
	}

	return data, nil
}

// item is a file or link with its owner resolved to numeric IDs.
type item struct {
	path     string
	content  []byte
	mode     fs.FileMode
	uid, gid int
	link     string
}

// writeItem creates or replaces a file or link atomically. It does nothing when the file is already as the item
// says.
func (d *disk) writeItem(it item) error {
	if d.describeDifference(it) == "" {
		return nil
	}

	name := relativeToRoot(it.path)
	if folder := path.Dir(name); folder != "." {
		d.beforeChange("create the folder of", it.path)
		if err := d.root.MkdirAll(folder, folderMode); err != nil {
			return fmt.Errorf("creating the folder of %s: %w", it.path, err)
		}
	}

	temporary := temporaryOf(name)
	d.beforeChange("remove the temporary file of", it.path)
	if err := d.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing %s: %w", it.path, err)
	}

	d.beforeChange("write the temporary file of", it.path)
	var err error
	if it.link != "" {
		err = d.root.Symlink(it.link, temporary)
	} else {
		err = d.writeNew(temporary, it)
	}

	if err == nil {
		d.beforeChange("rename the temporary file of", it.path)
		err = d.root.Rename(temporary, name)
	}
	if err != nil {
		_ = d.root.Remove(temporary) // the first error is more useful
		return fmt.Errorf("writing %s: %w", it.path, err)
	}

	return d.syncFolder(path.Dir(name))
}

// writeNew creates a file.
func (d *disk) writeNew(name string, it item) error {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	_, err = file.Write(it.content)
	if d.owners {
		err = errors.Join(err, file.Chown(it.uid, it.gid))
	}

	// The mode is set last, because a change of the owner removes the setuid bit.
	err = errors.Join(err, file.Chmod(it.mode))
	if d.lasting {
		err = errors.Join(err, file.Sync())
	}

	return errors.Join(err, file.Close())
}

// temporaryOf returns the name of the temporary file that is renamed to a file. The name is always the same, so that
// the next attempt removes a temporary file that was left behind.
func temporaryOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return path.Join(path.Dir(name), ".mcd-"+hex.EncodeToString(sum[:8])+".tmp")
}

// exists reports whether a path exists.
func (d *disk) exists(p string) bool {
	_, err := d.root.Lstat(relativeToRoot(p))
	return err == nil
}

// syncFolder flushes a folder to disk.
func (d *disk) syncFolder(folder string) error {
	if !d.lasting {
		return nil
	}

	file, err := d.root.Open(folder)
	if err != nil {
		return fmt.Errorf("opening the folder /%s: %w", folder, err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return fmt.Errorf("flushing the folder /%s: %w", folder, err)
	}

	return nil
}

// removePath removes a file or link. It succeeds when there is none.
func (d *disk) removePath(p string) error {
	d.beforeChange("remove", p)
	name := relativeToRoot(p)
	err := d.root.Remove(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("removing %s: %w", p, err)
	}

	return d.syncFolder(path.Dir(name))
}

// describeDifference returns how a file differs from an item; empty when it does not. The texts are those of the
// field's machine-config-daemon.
func (d *disk) describeDifference(it item) string {
	info, err := d.root.Lstat(relativeToRoot(it.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%q does not exist", it.path)
	case err != nil:
		return fmt.Sprintf("%q cannot be read: %v", it.path, err)
	case it.link != "":
		return d.describeLinkDifference(it)
	case !info.Mode().IsRegular():
		return fmt.Sprintf("%q is not a regular file, but a %s", it.path, fileTypeName(info))
	case permissionBits(info) != it.mode:
		return fmt.Sprintf("mode mismatch for file: %q; expected: %s; received: %s", it.path, it.mode, permissionBits(info))
	case info.Size() != int64(len(it.content)):
		return fmt.Sprintf("content mismatch for file %q", it.path)
	}

	if uid, gid, ok := ownerOf(info); d.owners && ok && (uid != it.uid || gid != it.gid) {
		return fmt.Sprintf("owner mismatch for file: %q; expected: %d:%d; received: %d:%d", it.path, it.uid, it.gid, uid, gid)
	}

	data, err := d.readFile(it.path, info.Size())
	if err != nil {
		return fmt.Sprintf("%q cannot be read: %v", it.path, err)
	}
	if !bytes.Equal(data, it.content) {
		return fmt.Sprintf("content mismatch for file %q", it.path)
	}

	return ""
}

// describeLinkDifference returns how a link differs from an item; empty if it does not.
func (d *disk) describeLinkDifference(it item) string {
	if target, err := d.root.Readlink(relativeToRoot(it.path)); err != nil || target != it.link {
		return fmt.Sprintf("%q is not a link to %s", it.path, it.link)
	}
	return ""
}

// settable are the bits of a mode that a configuration sets.
const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func permissionBits(info fs.FileInfo) fs.FileMode { return info.Mode() & settable }

// modeOf returns the file mode of a Unix permission number.
func modeOf(n int) fs.FileMode {
	mode := fs.FileMode(n) & fs.ModePerm //nolint:gosec // the configuration was checked
	for bit, flag := range map[int]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
