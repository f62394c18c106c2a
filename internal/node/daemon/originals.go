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

// maxOriginalSize limits the size in bytes of a file that the daemon overwrites, because its content is kept.
const maxOriginalSize = 64 << 20

// originalsFolder has a record of each path that the daemon has written.
const originalsFolder = config.OriginalsFolder

// original is what was at a path before the daemon wrote it. The daemon restores it when the path leaves the
// configuration.
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

func originalRecordPath(p string) string {
	sum := sha256.Sum256([]byte(p))
	return path.Join(originalsFolder, hex.EncodeToString(sum[:])+".json")
}

// hasOriginalRecord reports whether there is a record for a path.
func (d *disk) hasOriginalRecord(p string) bool {
	_, err := d.root.Lstat(relativeToRoot(originalRecordPath(p)))
	return err == nil
}

// recordOriginal records what is at a path, unless there is a record.
func (d *disk) recordOriginal(p string) error {
	if d.hasOriginalRecord(p) {
		return nil
	}

	o := original{Path: p, Kind: originalNone}
	info, err := d.root.Lstat(relativeToRoot(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("looking at %s: %w", p, err)
	case info.Mode()&fs.ModeSymlink != 0:
		o.Kind = originalLink
		if o.Link, err = d.root.Readlink(relativeToRoot(p)); err != nil {
			return fmt.Errorf("looking at %s: %w", p, err)
		}
	case info.Mode().IsRegular():
		o.Kind, o.Mode = originalFile, permissionBits(info)
		o.UID, o.GID, _ = ownerOf(info)
		if o.Content, err = d.readFile(p, maxOriginalSize); err != nil {
			return fmt.Errorf("keeping what %s was: %w", p, err)
		}

	default:
		return fmt.Errorf("%s is to be a file, and is a %s", p, fileTypeName(info))
	}

	return d.writeOriginalRecord(o)
}

// writeOriginalRecord writes the record of an original, unless there is one.
func (d *disk) writeOriginalRecord(o original) error {
	if d.hasOriginalRecord(o.Path) {
		return nil
	}

	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("keeping what %s was: %w", o.Path, err)
	}
	return d.writeItem(item{path: originalRecordPath(o.Path), content: data, mode: 0o600})
}

func fileTypeName(info fs.FileInfo) string {
	for mode, name := range map[fs.FileMode]string{fs.ModeDir: "folder", fs.ModeNamedPipe: "named pipe", fs.ModeSocket: "socket", fs.ModeDevice: "device", fs.ModeSymlink: "symbolic link"} {
		if info.Mode()&mode != 0 {
			return name
		}
	}
	return "special file"
}

// restoreUnwantedOriginals restores the original at each path that the daemon has written and that is no longer in
// the configuration.
func (d *disk) restoreUnwantedOriginals(wanted map[string]bool) error {
	folder, err := d.root.Open(relativeToRoot(originalsFolder))
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

		record := path.Join(originalsFolder, name)
		// JSON encodes the content in base64, which is longer by a third.
		data, err := d.readFile(record, 2*maxOriginalSize)
		if err != nil {
			return fmt.Errorf("reading what was there before: %w", err)
		}

		var o original
		if err := json.Unmarshal(data, &o); err != nil || originalRecordPath(o.Path) != record {
			return fmt.Errorf("reading what was there before: %s is damaged", record)
		}
		if wanted[o.Path] {
			continue
		}
		if err := d.restoreOriginal(&o); err != nil {
			return err
		}
		// Remove the record last, so that an interrupted restore is repeated.
		if err := d.removePath(record); err != nil {
			return err
		}
	}

	return nil
}

func (d *disk) restoreOriginal(o *original) error {
	switch o.Kind {
	case originalFile:
		return d.writeItem(item{path: o.Path, content: o.Content, mode: o.Mode, uid: o.UID, gid: o.GID})
	case originalLink:
		return d.writeItem(item{path: o.Path, link: o.Link})
	}
	return d.removePath(o.Path)
}

// writeItems writes the files of a configuration, and restores the originals of all other files that the daemon has
// written.
func (d *disk) writeItems(items []item) error {
	wanted := make(map[string]bool, len(items))
	for _, it := range items {
		wanted[it.path] = true
	}

	if err := d.restoreUnwantedOriginals(wanted); err != nil {
		return err
	}

	for _, it := range items {
		if err := d.recordOriginal(it.path); err != nil {
			return err
		}
		if err := d.writeItem(it); err != nil {
			return err
		}
	}

	return nil
}
