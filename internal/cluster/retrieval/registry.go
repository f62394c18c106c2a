package retrieval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// Registry pulls release images from their registries into a directory that only this process
// uses. The directory may be deleted at any time: missing releases are pulled again.
type Registry struct {
	// Dir is the directory of the releases. It is created on demand.
	Dir string
	// Images returns the client that pulls images.
	Images func(ctx context.Context) (*image.Client, error)

	mu sync.Mutex
}

// Retrieve returns the payload of a release image: the directories of its manifests. A stored
// release is not pulled again, unless it is named by a tag.
func (r *Registry) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if files, ok := findRelease(r.Dir, target.Image); ok {
		return files, nil
	}

	if err := r.pullRelease(ctx, target.Image); err != nil {
		if errors.Is(err, image.ErrDigestMismatch) {
			err = fmt.Errorf("%w: %w", releaseimage.ErrTampered, err)
		}
		return nil, err
	}

	return os.DirFS(filepath.Join(r.Dir, FolderName(target.Image), contentName)), nil
}

func (r *Registry) pullRelease(ctx context.Context, ref string) (err error) {
	client, err := r.Images(ctx)
	if err != nil {
		return err
	}

	img, err := client.Pull(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = img.Close() }()                // It was only read.
	if err := os.MkdirAll(r.Dir, 0o755); err != nil { //nolint:gosec // G301: see Put.
		return fmt.Errorf("creating the directory of releases: %w", err)
	}

	temp, err := os.MkdirTemp(r.Dir, tempPrefix)
	if err != nil {
		return fmt.Errorf("creating a directory for release %s: %w", ref, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	files, err := img.FilesOfFolders(ctx, temp, release.FolderOwn, release.FolderRelease)
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }() // It was only read.
	return Put(ctx, r.Dir, ref, files)
}
