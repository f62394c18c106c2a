// Package retrieval reads release images into folders, straight from their registries, and
// keeps the last few: an operator that begins anew needs no registry for the release that it
// had.
//
// The image is pulled by this process. No Pod and no Job runs it, so that a release is to be
// had while nothing can be scheduled, and nothing of it runs before it was verified.
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
	"sync"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
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

// Folder keeps the payloads of release images. It belongs to one process. All of it may be
// deleted while the program runs: what is missing is pulled again.
type Folder struct {
	// Dir is where they lie. It is created when it is needed.
	Dir string
	// Images gives the client that pulls.
	Images func(ctx context.Context) (*image.Client, error)

	mu sync.Mutex
}

// record says what a complete folder holds. It is written last.
type record struct {
	Image string           `json:"image"`
	Files map[string]int64 `json:"files"`
}

// Retrieve gives the payload of a release image: the folders of its manifests. What is there
// already is not pulled again unless it is named by a tag, which may stand for another image
// by now. What is only half there is never seen.
func (f *Folder) Retrieve(ctx context.Context, ref string) (fs.FS, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	final := filepath.Join(f.Dir, NameOf(ref))
	if strings.Contains(ref, "@") && isComplete(final) {
		return os.DirFS(filepath.Join(final, contentName)), nil
	}
	if err := f.fetch(ctx, ref, final); err != nil {
		if errors.Is(err, image.ErrChanged) {
			err = fmt.Errorf("%w: %w", releaseimage.ErrTampered, err)
		}
		return nil, err
	}
	f.clean(final)
	return os.DirFS(filepath.Join(final, contentName)), nil
}

// NameOf is the name of the folder of a pull spec.
func NameOf(ref string) string {
	sum := md5.Sum([]byte(ref)) //nolint:gosec // G401: see the import.
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// fetch pulls into a folder beside the final one, and moves it there when it is complete.
func (f *Folder) fetch(ctx context.Context, ref, final string) (err error) {
	if err := os.MkdirAll(f.Dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of releases: %w", err)
	}
	temp, err := os.MkdirTemp(f.Dir, newPrefix)
	if err != nil {
		return fmt.Errorf("making a folder for release %s: %w", ref, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := f.pull(ctx, ref, temp); err != nil {
		return err
	}
	if err := os.RemoveAll(final); err != nil {
		return fmt.Errorf("removing what is left of release %s: %w", ref, err)
	}
	if err := os.Rename(temp, final); err != nil {
		return fmt.Errorf("putting release %s in its place: %w", ref, err)
	}
	return nil
}

func (f *Folder) pull(ctx context.Context, ref, dir string) error {
	client, err := f.Images(ctx)
	if err != nil {
		return err
	}
	img, err := client.Pull(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = img.Close() }() // It was only read.
	files, err := img.Folders(ctx, dir, release.FolderOwn, release.FolderRelease)
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }() // It was only read.
	r := record{Image: ref, Files: map[string]int64{}}
	content := filepath.Join(dir, contentName)
	if err := copyFiles(ctx, files, content, r.Files); err != nil {
		return fmt.Errorf("writing release %s: %w", ref, err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, recordName), data, 0o600); err != nil {
		return fmt.Errorf("writing release %s: %w", ref, err)
	}
	return nil
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
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o750); err != nil {
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
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o600); err != nil {
				return err
			}
			sizes[name] = int64(len(data))
		}
	}
	return nil
}

// isComplete tells whether a folder holds all files of its record, in their sizes: a crash
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
func (f *Folder) clean(except string) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return
	}
	type folder struct {
		path string
		made int64
	}
	var folders []folder
	for _, entry := range entries {
		path := filepath.Join(f.Dir, entry.Name())
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
