// Package retrieval stores the files of release images in directories, and keeps the last few
// releases. An operator that restarts needs no registry for the release that it already had.
//
// A Registry pulls the image in this process. It needs no Pod, so releases can be retrieved
// while nothing can be scheduled. A Workload creates a Job of the release image that copies its
// files, for clusters where only the container runtime can reach the registry.
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

// maxReleases is how many releases are kept: the applied one, the one before, and the one that
// is being accepted.
const maxReleases = 3

// File names in the directory of a release.
const (
	contentName = "content"
	recordName  = "record.json"
	tempPrefix  = ".new-"
)

// folderRecord lists the files of a complete directory. It is written last.
type folderRecord struct {
	Image string           `json:"image"`
	Files map[string]int64 `json:"files"`
}

// FolderName returns the name of the directory for a pull spec.
func FolderName(ref string) string {
	sum := md5.Sum([]byte(ref)) //nolint:gosec // G401: see the import.
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// findRelease returns the payload of a release image if it is stored completely. It finds only
// pull specs with a digest, because a tag may have moved.
func findRelease(dir, ref string) (fs.FS, bool) {
	path := filepath.Join(dir, FolderName(ref))
	if !strings.Contains(ref, "@") || !isCompleteFolder(path) {
		return nil, false
	}
	return os.DirFS(filepath.Join(path, contentName)), true
}

// Put stores the payload of a release image, whose root is files, and removes old releases. A
// release becomes visible only when it is complete. A complete one that is named by a digest is
// left as it is, so that it is there at every moment. The files are world-readable, as the image
// is.
func Put(ctx context.Context, dir, ref string, files fs.FS) (err error) {
	if _, ok := findRelease(dir, ref); ok {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: see above.
		return fmt.Errorf("creating the directory of releases: %w", err)
	}

	temp, err := os.MkdirTemp(dir, tempPrefix)
	if err != nil {
		return fmt.Errorf("creating a directory for release %s: %w", ref, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := writeRelease(ctx, temp, ref, files); err != nil {
		return fmt.Errorf("writing release %s: %w", ref, err)
	}

	// No release is found in what this removes: it is incomplete, or a tag names it.
	final := filepath.Join(dir, FolderName(ref))
	if err := os.RemoveAll(final); err != nil {
		return fmt.Errorf("removing the old directory of release %s: %w", ref, err)
	}
	if err := os.Rename(temp, final); err != nil {
		return fmt.Errorf("moving release %s into place: %w", ref, err)
	}

	removeOldReleases(dir, final)
	return nil
}

func writeRelease(ctx context.Context, dir, ref string, files fs.FS) error {
	r := folderRecord{Image: ref, Files: map[string]int64{}}
	if err := copyPayloadFiles(ctx, files, filepath.Join(dir, contentName), r.Files); err != nil {
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

// copyPayloadFiles copies the regular files directly in the two directories of a payload.
func copyPayloadFiles(ctx context.Context, files fs.FS, dir string, sizes map[string]int64) error {
	for _, folder := range []string{release.FolderOwn, release.FolderRelease} {
		entries, err := fs.ReadDir(files, folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Loading the payload reports that it is missing.
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
			if sizes[name], err = copyPayloadFile(files, dir, name); err != nil {
				return err
			}
		}
	}

	return nil
}

// copyPayloadFile copies a file to the same name below a directory, and returns its size.
func copyPayloadFile(files fs.FS, dir, name string) (int64, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return 0, err
	}
	return int64(len(data)), os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o644) //nolint:gosec // G306: see Put.
}

// isCompleteFolder reports whether a directory has all files of its record with their sizes. A
// crash can leave files empty.
func isCompleteFolder(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return false
	}

	var r folderRecord
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

// removeOldReleases removes old and incomplete releases, except one. Errors are ignored, because
// the next call tries again.
func removeOldReleases(dir, except string) {
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
		if strings.HasPrefix(entry.Name(), tempPrefix) || !isCompleteFolder(path) {
			_ = os.RemoveAll(path)
			continue
		}

		folders = append(folders, folder{path, info.ModTime().UnixNano()})
	}

	slices.SortFunc(folders, func(a, b folder) int { return cmp.Compare(b.made, a.made) })
	for i := maxReleases - 1; i < len(folders); i++ {
		_ = os.RemoveAll(folders[i].path)
	}
}
