// Package retrieval reads release images into folders, and keeps the last few: an operator
// that begins anew needs nobody for the release that it had.
//
// A Registry pulls the image in this process: no Pod and no Job runs it, so that a release is
// to be had while nothing can be scheduled. A Workload has a Job of the release image copy its
// files, for clusters where the registry is to be reached by the container runtime only.
package retrieval

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // G501: it names folders as they are known, and guards nothing.
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// kept is how many releases stay: the one that is applied, the one before, and the one that
// is being judged.
const kept = 3

// Names within the folder.
const (
	contentName = "content"
	recordName  = "record.json"
	newPrefix   = ".new-"
)

// record says what a complete folder holds. It is written last.
type record struct {
	Image string           `json:"image"`
	Files map[string]int64 `json:"files"`
}

// NameOf is the name of the folder of a pull spec.
func NameOf(ref string) string {
	sum := md5.Sum([]byte(ref)) //nolint:gosec // G401: see the import.
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// find returns the payload of a release image when a folder of releases has all of it. A tag may
// stand for another image by now, so that only digests are found.
func find(dir, ref string) (fs.FS, bool) {
	path := filepath.Join(dir, NameOf(ref))
	if !strings.Contains(ref, "@") || !isComplete(path) {
		return nil, false
	}
	return os.DirFS(filepath.Join(path, contentName)), true
}

// Put copies the payload of a release image, whose root files are, into a folder of releases,
// and removes what is old there. What is only half copied is never seen. Everybody may read
// what it writes, as everybody may read the image.
func Put(ctx context.Context, dir, ref string, files fs.FS) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: see above.
		return fmt.Errorf("making the folder of releases: %w", err)
	}

	temp, err := os.MkdirTemp(dir, newPrefix)
	if err != nil {
		return fmt.Errorf("making a folder for release %s: %w", ref, err)
	}

	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := fill(ctx, temp, ref, files); err != nil {
		return fmt.Errorf("writing release %s: %w", ref, err)
	}

	final := filepath.Join(dir, NameOf(ref))
	if err := os.RemoveAll(final); err != nil {
		return fmt.Errorf("removing what is left of release %s: %w", ref, err)
	}
	if err := os.Rename(temp, final); err != nil {
		return fmt.Errorf("putting release %s in its place: %w", ref, err)
	}

	clean(dir, final)
	return nil
}

func fill(ctx context.Context, dir, ref string, files fs.FS) error {
	r := record{Image: ref, Files: map[string]int64{}}
	if err := copyFiles(ctx, files, filepath.Join(dir, contentName), r.Files); err != nil {
		return err
	}

	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, recordName), data, 0o644); err != nil { //nolint:gosec // G306: see Put.
		return err
	}

	return os.Chmod(dir, 0o755) //nolint:gosec // G302: see Put.
}

// copyFiles copies the plain files directly in the two folders: nothing else of them is a
// payload's.
func copyFiles(ctx context.Context, files fs.FS, dir string, sizes map[string]int64) error {
	for _, folder := range []string{release.FolderOwn, release.FolderRelease} {
		entries, err := fs.ReadDir(files, folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Whoever reads the payload says that it is missing.
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil { //nolint:gosec // G301: see Put.
			return err
		}

		for _, entry := range entries {
			if !entry.Type().IsRegular() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}

			name := folder + "/" + entry.Name()
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o644); err != nil { //nolint:gosec // G306: see Put.
				return err
			}

			sizes[name] = int64(len(data))
		}
	}

	return nil
}

// isComplete reports whether a folder holds all files of its record, in their sizes: a crash
// can leave files empty.
func isComplete(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return false
	}

	var r record
	if json.Unmarshal(data, &r) != nil || len(r.Files) == 0 {
		return false
	}

	for name, size := range r.Files {
		info, err := os.Lstat(filepath.Join(dir, contentName, filepath.FromSlash(name)))
		if err != nil || info.Size() != size || !info.Mode().IsRegular() {
			return false
		}
	}

	return true
}

// clean removes what is old or was never complete, except one folder. What cannot be removed
// is tried again the next time.
func clean(dir, except string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}

	type folder struct {
		path string
		made int64
	}
	var folders []folder
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := entry.Info()
		if err != nil || path == except {
			continue
		}
		if strings.HasPrefix(entry.Name(), newPrefix) || !isComplete(path) {
			_ = os.RemoveAll(path)
			continue
		}

		folders = append(folders, folder{path, info.ModTime().UnixNano()})
	}

	slices.SortFunc(folders, func(a, b folder) int { return cmp.Compare(b.made, a.made) })
	for i := kept - 1; i < len(folders); i++ {
		_ = os.RemoveAll(folders[i].path)
	}
}
