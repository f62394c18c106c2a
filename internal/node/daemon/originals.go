package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// maxOriginal is how large a file may be that the daemon writes over: it is kept.
const maxOriginal = 64 << 20

// originals is the folder with a record of each path that the daemon has written.
const originals = config.OriginalsFolder

// original is what was at a path before the daemon wrote there. It is kept until the path leaves
// the configuration, and put back then.
type original struct {
	Path string `json:"path"`
	// Kind is none, file or link.
	Kind    originalKind `json:"kind"`
	Content []byte       `json:"content,omitempty"`
	Mode    fs.FileMode  `json:"mode,omitempty"`
	UID     int          `json:"uid,omitempty"`
	GID     int          `json:"gid,omitempty"`
	Link    string       `json:"link,omitempty"`
}

type originalKind string

const (
	originalNone originalKind = "none"
	originalFile originalKind = "file"
	originalLink originalKind = "link"
)

func recordOf(p string) string {
	sum := sha256.Sum256([]byte(p))
	return path.Join(originals, hex.EncodeToString(sum[:])+".json")
}

// isKept reports whether it is recorded what was at a path.
func (d *disk) isKept(p string) bool {
	_, err := d.root.Lstat(inside(recordOf(p)))
	return err == nil
}

// keep records what is at a path, unless that was done before.
func (d *disk) keep(p string) error {
	if d.isKept(p) {
		return nil
	}

	o := original{Path: p, Kind: originalNone}
	info, err := d.root.Lstat(inside(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("looking at %s: %w", p, err)
	case info.Mode()&fs.ModeSymlink != 0:
		o.Kind = originalLink
		if o.Link, err = d.root.Readlink(inside(p)); err != nil {
			return fmt.Errorf("looking at %s: %w", p, err)
		}
	case info.Mode().IsRegular():
		o.Kind, o.Mode = originalFile, permissions(info)
		o.UID, o.GID, _ = ownerOf(info)
		if o.Content, err = d.content(p, maxOriginal); err != nil {
			return fmt.Errorf("keeping what %s was: %w", p, err)
		}

	default:
		return fmt.Errorf("%s is to be a file, and is a %s", p, kindOf(info))
	}

	return d.record(o)
}

// record writes down what was at a path, unless that was done before.
func (d *disk) record(o original) error {
	if d.isKept(o.Path) {
		return nil
	}

	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("keeping what %s was: %w", o.Path, err)
	}
	return d.write(item{path: recordOf(o.Path), content: data, mode: 0o600})
}

func kindOf(info fs.FileInfo) string {
	for mode, name := range map[fs.FileMode]string{fs.ModeDir: "folder", fs.ModeNamedPipe: "named pipe", fs.ModeSocket: "socket", fs.ModeDevice: "device", fs.ModeSymlink: "symbolic link"} {
		if info.Mode()&mode != 0 {
			return name
		}
	}
	return "special file"
}

// restore puts back what was at each path that the daemon has written and that is not wanted any
// more.
func (d *disk) restore(wanted map[string]bool) error {
	folder, err := d.root.Open(inside(originals))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading what was there before: %w", err)
	}

	names, err := folder.Readdirnames(-1)
	folder.Close()
	if err != nil {
		return fmt.Errorf("reading what was there before: %w", err)
	}

	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}

		record := path.Join(originals, name)
		// Its content may be of any bytes, which JSON makes longer by a third.
		data, err := d.content(record, 2*maxOriginal)
		if err != nil {
			return fmt.Errorf("reading what was there before: %w", err)
		}

		var o original
		if err := json.Unmarshal(data, &o); err != nil || recordOf(o.Path) != record {
			return fmt.Errorf("reading what was there before: %s is damaged", record)
		}
		if wanted[o.Path] {
			continue
		}
		if err := d.putBack(&o); err != nil {
			return err
		}
		// Last: as long as the record is there, this is done again.
		if err := d.remove(record); err != nil {
			return err
		}
	}

	return nil
}

func (d *disk) putBack(o *original) error {
	switch o.Kind {
	case originalFile:
		return d.write(item{path: o.Path, content: o.Content, mode: o.Mode, uid: o.UID, gid: o.GID})
	case originalLink:
		return d.write(item{path: o.Path, link: o.Link})
	}
	return d.remove(o.Path)
}

// put makes the files of the node those of a configuration, and no others of the daemon's.
func (d *disk) put(items []item) error {
	wanted := make(map[string]bool, len(items))
	for _, it := range items {
		wanted[it.path] = true
	}

	if err := d.restore(wanted); err != nil {
		return err
	}

	for _, it := range items {
		if err := d.keep(it.path); err != nil {
			return err
		}
		if err := d.write(it); err != nil {
			return err
		}
	}

	return nil
}
