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

// Registry reads release images straight from their registries, into a folder that belongs to
// one process. All of it may be deleted while the program runs: what is missing is pulled again.
type Registry struct {
	// Dir is where they lie. It is created when it is needed.
	Dir string
	// Images returns the client that pulls.
	Images func(ctx context.Context) (*image.Client, error)

	mu sync.Mutex
}

// Retrieve returns the payload of a release image: the folders of its manifests. What is there
// already is not pulled again unless it is named by a tag.
func (r *Registry) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if files, ok := find(r.Dir, target.Image); ok {
		return files, nil
	}

	if err := r.pull(ctx, target.Image); err != nil {
		if errors.Is(err, image.ErrChanged) {
			err = fmt.Errorf("%w: %w", releaseimage.ErrTampered, err)
		}
		return nil, err
	}

	return os.DirFS(filepath.Join(r.Dir, NameOf(target.Image), contentName)), nil
}

func (r *Registry) pull(ctx context.Context, ref string) (err error) {
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
		return fmt.Errorf("making the folder of releases: %w", err)
	}

	temp, err := os.MkdirTemp(r.Dir, newPrefix)
	if err != nil {
		return fmt.Errorf("making a folder for release %s: %w", ref, err)
	}

	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	files, err := img.Folders(ctx, temp, release.FolderOwn, release.FolderRelease)
	if err != nil {
		return err
	}

	defer func() { _ = files.Close() }() // It was only read.
	return Put(ctx, r.Dir, ref, files)
}
