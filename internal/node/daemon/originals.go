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

// original is the state of a path before the daemon wrote it. The daemon restores it when the path is no longer in the configuration.
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

// originals writes files, and records the state of their paths before.
type originals struct{ disk *disk }

// originalRecordPath returns the path of the record of a path.
func originalRecordPath(p string) string {
	sum := sha256.Sum256([]byte(p))
	return path.Join(originalsFolder, hex.EncodeToString(sum[:])+".json")
}

// hasRecord reports whether there is a record for a path.
func (o originals) hasRecord(p string) bool { return o.disk.exists(originalRecordPath(p)) }

// record records the state of a path, unless there is a record.
func (o originals) record(p string) error {
	if o.hasRecord(p) {
		return nil
	}

	found := original{Path: p, Kind: originalNone}
	info, err := o.disk.root.Lstat(relativeToRoot(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading %s: %w", p, err)
	case info.Mode()&fs.ModeSymlink != 0:
		found.Kind = originalLink
		if found.Link, err = o.disk.root.Readlink(relativeToRoot(p)); err != nil {
			return fmt.Errorf("reading %s: %w", p, err)
		}
	case info.Mode().IsRegular():
		found.Kind, found.Mode = originalFile, permissionBits(info)
		found.UID, found.GID, _ = ownerOf(info)
		if found.Content, err = o.disk.readFile(p, maxOriginalSize); err != nil {
			return fmt.Errorf("recording the original content of %s: %w", p, err)
		}

	default:
		return fmt.Errorf("%s must be a file, but is a %s", p, fileTypeName(info))
	}

	return o.writeRecord(found)
}

// writeRecord writes the record of an original, unless there is one.
func (o originals) writeRecord(found original) error {
	if o.hasRecord(found.Path) {
		return nil
	}

	data, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("recording the original content of %s: %w", found.Path, err)
	}
	return o.disk.writeItem(item{path: originalRecordPath(found.Path), content: data, mode: 0o600})
}

// fileTypeName returns the name of the type of a special file.
func fileTypeName(info fs.FileInfo) string {
	for mode, name := range map[fs.FileMode]string{fs.ModeDir: "folder", fs.ModeNamedPipe: "named pipe", fs.ModeSocket: "socket", fs.ModeDevice: "device", fs.ModeSymlink: "symbolic link"} {
		if info.Mode()&mode != 0 {
			return name
		}
	}
	return "special file"
}

// restoreUnwanted restores the original at each path that the daemon has written and that is no longer in
// the configuration.
func (o originals) restoreUnwanted(wanted map[string]bool) error {
	folder, err := o.disk.root.Open(relativeToRoot(originalsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the original files: %w", err)
	}

	names, err := folder.Readdirnames(-1)
	folder.Close()
	if err != nil {
		return fmt.Errorf("reading the original files: %w", err)
	}

	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}

		record := path.Join(originalsFolder, name)
		// JSON encodes the content in base64, which is longer by a third.
		data, err := o.disk.readFile(record, 2*maxOriginalSize)
		if err != nil {
			return fmt.Errorf("reading the original files: %w", err)
		}

		var found original
		if err := json.Unmarshal(data, &found); err != nil || originalRecordPath(found.Path) != record {
			return fmt.Errorf("reading the original files: %s is damaged", record)
		}
		if wanted[found.Path] {
			continue
		}
		if err := o.restore(&found); err != nil {
			return err
		}
		// Remove the record last, so that an interrupted restore is repeated.
		if err := o.disk.removePath(record); err != nil {
			return err
		}
	}

	return nil
}

// restore restores the original at a path.
func (o originals) restore(found *original) error {
	switch found.Kind {
	case originalFile:
		return o.disk.writeItem(item{path: found.Path, content: found.Content, mode: found.Mode, uid: found.UID, gid: found.GID})
	case originalLink:
		return o.disk.writeItem(item{path: found.Path, link: found.Link})
	}
	return o.disk.removePath(found.Path)
}

// writeItems writes the files of a configuration, and restores the originals of all other files that the daemon has
// written.
func (o originals) writeItems(items []item) error {
	wanted := make(map[string]bool, len(items))
	for _, it := range items {
		wanted[it.path] = true
	}

	if err := o.restoreUnwanted(wanted); err != nil {
		return err
	}

	for _, it := range items {
		if err := o.record(it.path); err != nil {
			return err
		}
		if err := o.disk.writeItem(it); err != nil {
			return err
		}
	}

	return nil
}
