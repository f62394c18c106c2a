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

// DataPath is where images of graph-data have their folder.
const DataPath = "/var/lib/cincinnati-graph-data"

// data returns what people say about releases.
type data interface {
	load(ctx context.Context) (*graphdata.Data, error)
}

// noData is for services without a graph-data folder: releases name their channels
// themselves.
type noData struct{}

func (noData) load(context.Context) (*graphdata.Data, error) { return nil, nil } //nolint:nilnil // there is none, which is no error

// dataFolder is a folder on disk.
type dataFolder struct {
	dir string
	// known is what was read when the files were as last.
	known *graphdata.Data
	last  string
}

// load reads the folder, unless it is as it was. What changes while it is read is not
// taken: it may be half of what is meant.
func (d *dataFolder) load(context.Context) (*graphdata.Data, error) {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the graph-data folder: %w", err)
	}

	defer func() { _ = root.Close() }() // It was only read.
	before, err := stateOf(root.FS())
	if err != nil {
		return nil, fmt.Errorf("reading the graph-data folder %s: %w", d.dir, err)
	}
	if d.known != nil && before == d.last {
		return d.known, nil
	}

	loaded, err := graphdata.Load(root.FS())
	if err != nil {
		return nil, fmt.Errorf("reading the graph-data folder %s: %w", d.dir, err)
	}

	after, err := stateOf(root.FS())
	if err != nil {
		return nil, fmt.Errorf("reading the graph-data folder %s: %w", d.dir, err)
	}
	if before != after {
		return nil, fmt.Errorf("the graph-data folder %s changes while it is read: it is read again later", d.dir)
	}

	d.known, d.last = loaded, after
	return loaded, nil
}

// stateOf describes the files of a folder, so that it changes when they do.
func stateOf(fsys fs.FS) (string, error) {
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
			if err != nil {
				continue // A link to nowhere, or a file that is being replaced: reading it tells.
			}
			if !info.IsDir() {
				fmt.Fprintf(&state, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
			}
		}
	}

	return state.String(), nil
}

// dataImage is an image with a folder.
type dataImage struct {
	images   *image.Client
	ref      string
	path     string
	verifier Verifier // nil: signatures are not looked for

	known *graphdata.Data
	last  string // the digest of what is known
}

// load reads the image, unless its tag has the digest that it had.
func (d *dataImage) load(ctx context.Context) (*graphdata.Data, error) {
	canonical, err := d.images.Resolve(ctx, d.ref)
	if err != nil {
		return nil, err
	}
	if d.known != nil && canonical == d.last {
		return d.known, nil
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

	d.known, d.last = loaded, canonical
	return loaded, nil
}
