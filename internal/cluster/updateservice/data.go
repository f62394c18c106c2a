package updateservice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/cincinnati/graphdata"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// DataPath is the default path of the folder in graph-data images.
const DataPath = "/var/lib/cincinnati-graph-data"

// graphDataSource loads graph-data.
type graphDataSource interface {
	loadGraphData(ctx context.Context) (*graphdata.Data, error)
}

// emptySource is the source of services without graph-data. Releases name their own channels.
type emptySource struct{}

func (emptySource) loadGraphData(context.Context) (*graphdata.Data, error) { return nil, nil } //nolint:nilnil // there is none, which is no error

// folderSource is a folder on disk.
type folderSource struct {
	dir string
	// loaded is the result of the last load; lastFingerprint is the fingerprint of the files at
	// that time.
	loaded          *graphdata.Data
	lastFingerprint string
}

// loadGraphData loads the folder if it changed. It returns an error if the folder changes while
// it is read, because the content may be incomplete.
func (d *folderSource) loadGraphData(context.Context) (*graphdata.Data, error) {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the graph-data folder: %w", err)
	}
	defer func() { _ = root.Close() }() // It was only read.
	before, err := fingerprintFolder(root.FS())
	if err != nil {
		return nil, fmt.Errorf("reading the graph-data folder %s: %w", d.dir, err)
	}
	if d.loaded != nil && before == d.lastFingerprint {
		return d.loaded, nil
	}

	loaded, err := graphdata.Load(root.FS())
	if err != nil {
		return nil, fmt.Errorf("reading the graph-data folder %s: %w", d.dir, err)
	}

	after, err := fingerprintFolder(root.FS())
	if err != nil {
		return nil, fmt.Errorf("reading the graph-data folder %s: %w", d.dir, err)
	}
	if before != after {
		return nil, fmt.Errorf("the graph-data folder %s changes while it is read: it is read again later", d.dir)
	}

	d.loaded = loaded
	d.lastFingerprint = after
	return loaded, nil
}

// fingerprintFolder returns a text that changes when the files of a folder change.
func fingerprintFolder(fsys fs.FS) (string, error) {
	var state strings.Builder
	for _, folder := range []string{".", "channels", "blocked-edges", "raw"} {
		entries, err := fs.ReadDir(fsys, folder)
		if errors.Is(err, fs.ErrNotExist) && folder != "." {
			continue
		}
		if err != nil {
			return "", err
		}
		for _, entry := range entries {
			name := folder + "/" + entry.Name()
			info, err := fs.Stat(fsys, strings.TrimPrefix(name, "./"))
			switch {
			case err != nil:
				// A broken link, or a file that is being replaced. It counts as a change, so that loading the folder reports it.
				fmt.Fprintf(&state, "%s %v\n", name, err)
			case !info.IsDir():
				fmt.Fprintf(&state, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
			}
		}
	}

	return state.String(), nil
}

// imageSource is an image that contains a folder.
type imageSource struct {
	images   *image.Client
	ref      string
	path     string
	verifier Verifier // nil: signatures are not verified

	loaded     *graphdata.Data
	lastDigest string // the canonical reference of the loaded image
}

// loadGraphData loads the image if the digest of its reference changed.
func (d *imageSource) loadGraphData(ctx context.Context) (*graphdata.Data, error) {
	canonical, err := d.images.Resolve(ctx, d.ref)
	if err != nil {
		return nil, err
	}
	if d.loaded != nil && canonical == d.lastDigest {
		return d.loaded, nil
	}

	if d.verifier != nil {
		_, digest, _ := strings.Cut(canonical, "@")
		if err := d.verifier.Verify(ctx, digest); err != nil {
			return nil, fmt.Errorf("the graph-data image %s is not signed: %w", canonical, err)
		}
	}

	img, err := d.images.Pull(ctx, canonical)
	if err != nil {
		return nil, err
	}
	defer func() { _ = img.Close() }() // It was only read.
	files, _, err := img.Files(ctx, d.path, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }() // It was only read.
	loaded, err := graphdata.Load(files)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the graph-data image %s: %w", d.path, canonical, err)
	}

	d.loaded = loaded
	d.lastDigest = canonical
	return loaded, nil
}
