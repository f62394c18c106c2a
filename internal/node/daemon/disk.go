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

// folderMode is the mode of folders that are made for files.
const folderMode = 0o755

// disk is the file system of a node, below the folder that stands for its root.
type disk struct {
	root *os.Root
	// owners has files owned as the configuration says, which only root can do.
	owners bool
	// lasting has what is written survive a loss of power, which takes time.
	lasting bool
	// before is called before each change. Tests end the program there.
	before func(change string)
}

// inside returns the name of an absolute path below the root.
func inside(p string) string { return strings.TrimPrefix(path.Clean(p), "/") }

func (d *disk) change(what, p string) {
	if d.before != nil {
		d.before(what + " " + p)
	}
}

// content reads a regular file up to a size. A file that is not there is an error that
// fs.ErrNotExist matches. What is no regular file is not opened: that may wait for ever, or have
// a device do something. What becomes one in between is not waited for.
func (d *disk) content(p string, most int64) ([]byte, error) {
	info, err := d.root.Stat(inside(p))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file, but a %s", p, kindOf(info))
	}

	file, err := d.root.OpenFile(inside(p), os.O_RDONLY|doNotWait, 0)
	if err != nil {
		return nil, err
	}

	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file, but a %s", p, kindOf(info))
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

// item is a file or link with its numbers resolved.
type item struct {
	path     string
	content  []byte
	mode     fs.FileMode
	uid, gid int
	link     string
}

// write makes a file or link what it is to be, whole or not at all. What is so already is left
// alone.
func (d *disk) write(it item) error {
	if d.differs(it) == "" {
		return nil
	}

	name := inside(it.path)
	if folder := path.Dir(name); folder != "." {
		d.change("make the folder of", it.path)
		if err := d.root.MkdirAll(folder, folderMode); err != nil {
			return fmt.Errorf("making the folder of %s: %w", it.path, err)
		}
	}

	temporary := temporaryOf(name)
	d.change("clear the way for", it.path)
	if err := d.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing %s: %w", it.path, err)
	}

	d.change("write beside", it.path)
	var err error
	if it.link != "" {
		err = d.root.Symlink(it.link, temporary)
	} else {
		err = d.writeNew(temporary, it)
	}

	if err == nil {
		d.change("put in place", it.path)
		err = d.root.Rename(temporary, name)
	}
	if err != nil {
		_ = d.root.Remove(temporary) // the first error tells more
		return fmt.Errorf("writing %s: %w", it.path, err)
	}

	return d.sync(path.Dir(name))
}

func (d *disk) writeNew(name string, it item) error {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	_, err = file.Write(it.content)
	if d.owners {
		err = errors.Join(err, file.Chown(it.uid, it.gid))
	}

	// After the owner: changing that takes setuid away.
	err = errors.Join(err, file.Chmod(it.mode))
	if d.lasting {
		err = errors.Join(err, file.Sync())
	}

	return errors.Join(err, file.Close())
}

// temporaryOf names the file that becomes another: always the same, so that one that was left
// behind is found.
func temporaryOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return path.Join(path.Dir(name), ".mcd-"+hex.EncodeToString(sum[:8])+".tmp")
}

// sync has a folder survive a loss of power.
func (d *disk) sync(folder string) error {
	if !d.lasting {
		return nil
	}

	file, err := d.root.Open(folder)
	if err != nil {
		return fmt.Errorf("opening the folder /%s: %w", folder, err)
	}

	defer file.Close()
	if err := file.Sync(); err != nil {
		return fmt.Errorf("keeping the folder /%s: %w", folder, err)
	}

	return nil
}

// remove removes a file or link. One that is not there is no error.
func (d *disk) remove(p string) error {
	d.change("remove", p)
	name := inside(p)
	err := d.root.Remove(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("removing %s: %w", p, err)
	}

	return d.sync(path.Dir(name))
}

// differs says in which way a file is not what it is to be; empty when it is.
func (d *disk) differs(it item) string {
	info, err := d.root.Lstat(inside(it.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%q does not exist", it.path)
	case err != nil:
		return fmt.Sprintf("%q cannot be read: %v", it.path, err)
	case it.link != "":
		return d.linkDiffers(it)
	case !info.Mode().IsRegular():
		return fmt.Sprintf("%q is no regular file, but a %s", it.path, kindOf(info))
	case permissions(info) != it.mode:
		return fmt.Sprintf("mode mismatch for file: %q; expected: %s; received: %s", it.path, it.mode, permissions(info))
	case info.Size() != int64(len(it.content)):
		return fmt.Sprintf("content mismatch for file %q", it.path)
	}

	if uid, gid, ok := ownerOf(info); d.owners && ok && (uid != it.uid || gid != it.gid) {
		return fmt.Sprintf("owner mismatch for file: %q; expected: %d:%d; received: %d:%d", it.path, it.uid, it.gid, uid, gid)
	}

	data, err := d.content(it.path, info.Size())
	if err != nil {
		return fmt.Sprintf("%q cannot be read: %v", it.path, err)
	}
	if !bytes.Equal(data, it.content) {
		return fmt.Sprintf("content mismatch for file %q", it.path)
	}

	return ""
}

func (d *disk) linkDiffers(it item) string {
	if target, err := d.root.Readlink(inside(it.path)); err != nil || target != it.link {
		return fmt.Sprintf("%q is no link to %s", it.path, it.link)
	}
	return ""
}

// settable are the bits of a mode that a configuration sets.
const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func permissions(info fs.FileInfo) fs.FileMode { return info.Mode() & settable }

// modeOf returns the mode that a number of Unix means.
func modeOf(n int) fs.FileMode {
	mode := fs.FileMode(n) & fs.ModePerm //nolint:gosec // the configuration was checked
	for bit, flag := range map[int]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
