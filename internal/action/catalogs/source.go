package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/indexdb"
)

// kind is what a reference of the user stands for; several make a set.
type kind uint8

const (
	catalogDir kind = 1 << iota
	catalogImage
	bundleDir
	bundleImage
	databaseFile
	databaseImage

	// anyCatalog is everything that holds packages.
	anyCatalog = catalogDir | catalogImage | databaseFile | databaseImage
	anything   = anyCatalog | bundleDir | bundleImage
)

// errNotAllowed marks what a command does not take.
var errNotAllowed = errors.New("not allowed")

// source is what a reference stands for, opened for reading.
type source struct {
	kind kind
	// image is the reference of a bundle's image, as the user wrote it.
	image string
	// labels are those of a bundle's image.
	labels map[string]string
	// fsys is a catalog or a bundle.
	fsys fs.FS
	// database is the path of a SQLite file.
	database string
	// close removes what was unpacked.
	close func()
}

// openSource opens a reference: a path that exists, or else an image. What is not among
// the allowed kinds is refused.
func openSource(ctx context.Context, registry Registry, progress report.Progress, ref string, allowed kind) (*source, error) {
	info, err := os.Stat(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		defer begin(progress, ref, "pulling")()
		return openImage(ctx, registry, ref, allowed)
	case err != nil:
		return nil, err
	case info.IsDir():
		return openDir(ref, allowed)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("ref %q has unsupported file type: %s", ref, info.Mode().Type())
	}

	return openFile(ref, allowed)
}

// openFile opens a file, which can only be a SQLite catalog.
func openFile(name string, allowed kind) (*source, error) {
	if allowed&databaseFile == 0 {
		return nil, fmt.Errorf("ref %q is not a directory: %w", name, errNotAllowed)
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}

	defer func() { _ = file.Close() }() // it was only read
	head := make([]byte, 512)
	n, _ := file.Read(head) // a file that cannot be read is of no known type either
	if !strings.HasPrefix(string(head[:n]), "SQLite format 3\x00") {
		return nil, fmt.Errorf("ref %q has unsupported file type: %s", name, http.DetectContentType(head[:n]))
	}

	return &source{kind: databaseFile, database: name, close: func() {}}, nil
}

// openDir opens a folder: of a bundle when it has manifests and metadata, else of a catalog.
func openDir(name string, allowed kind) (*source, error) {
	fsys, done, err := OpenFolder(name)
	if err != nil {
		return nil, err
	}

	s := &source{kind: catalogDir, fsys: fsys, close: done}
	if isDir(fsys, "manifests") && isDir(fsys, "metadata") {
		s.kind = bundleDir
	}

	switch {
	case allowed&s.kind != 0:
		return s, nil
	case s.kind == bundleDir:
		err = fmt.Errorf("cannot render bundle directory %q: %w", name, errNotAllowed)
	default:
		err = fmt.Errorf("cannot render declarative config directory: %w", errNotAllowed)
	}

	done()
	return nil, err
}

func isDir(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// openImage pulls an image and opens what its labels say that it holds.
func openImage(ctx context.Context, registry Registry, ref string, allowed kind) (*source, error) {
	if err := checkReference(ref); err != nil {
		return nil, &report.Error{
			Object: fmt.Sprintf("failed to pull image %q", ref), Err: err,
			Advice: "name a folder that exists, or an image as registry/repository:tag or registry/repository@sha256:digest",
		}
	}

	client := registry.Client(ref)
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, pullError(ref, err)
	}

	defer func() { _ = pulled.Close() }() // everything has been read and verified
	s, prefix, err := classify(ref, pulled.Labels, allowed)
	if err != nil {
		return nil, err
	}

	if s.kind == databaseImage {
		s.database, s.close, err = pulledDatabase(ctx, registry, client, pulled, prefix)
	} else {
		s.fsys, s.close, err = registry.files(ctx, client, pulled, prefix)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to unpack image %q: %w", ref, err)
	}

	return s, nil
}

// pulledDatabase writes the SQLite file of an image to disk, where it can be opened. The
// returned function removes it.
func pulledDatabase(ctx context.Context, registry Registry, client *image.Client, pulled *image.Image, location string) (string, func(), error) {
	dir, err := os.MkdirTemp("", "mainstay-database-")
	if err != nil {
		return "", nil, err
	}

	remove := func() { _ = os.RemoveAll(dir) }
	name := filepath.Join(dir, databaseName)
	if err := extractDatabase(ctx, registry, client, pulled, location, name); err != nil {
		remove()
		return "", nil, err
	}

	return name, remove, nil
}

// pullError says that an image was not pulled, naming it once.
func pullError(ref string, err error) error {
	text := err.Error()
	var failed *image.Error
	if errors.As(err, &failed) {
		text = strings.TrimPrefix(text, failed.Op+" image "+failed.Ref+": ")
	}
	return &report.Reworded{Text: fmt.Sprintf("failed to pull image %q: %s", ref, text), Cause: err}
}

// classify tells what an image holds, and below which path.
func classify(ref string, labels map[string]string, allowed kind) (*source, string, error) {
	database, isDatabase := labels[indexdb.LabelDatabase]
	configs, isCatalog := labels[image.LabelConfigs]
	_, isBundle := labels[bundle.KeyPackage]
	switch {
	case isDatabase && !isCatalog:
		if allowed&databaseImage == 0 {
			return nil, "", fmt.Errorf("cannot render index image: %w", errNotAllowed)
		}
		return &source{kind: databaseImage}, path.Clean("/" + database), nil
	case isCatalog:
		if allowed&catalogImage == 0 {
			return nil, "", fmt.Errorf("cannot render declarative config image: %w", errNotAllowed)
		}
		return &source{kind: catalogImage}, configs, nil
	case isBundle:
		if allowed&bundleImage == 0 {
			return nil, "", fmt.Errorf("cannot render bundle image: %w", errNotAllowed)
		}
		return &source{kind: bundleImage, image: ref, labels: labels}, "/", nil
	case len(labels) == 0:
		return nil, "", fmt.Errorf("render %q: image type could not be determined: image has no labels", ref)
	}

	var pairs strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs.WriteString("\n  " + key + "=" + labels[key])
	}

	return nil, "", fmt.Errorf("render %q: image type could not be determined, found labels%s", ref, pairs.String())
}

// metas yields the blobs of a catalog. The first error ends it.
func (s *source) metas(ctx context.Context, progress report.Progress) iter.Seq2[fbc.Meta, error] {
	var blobs iter.Seq2[fbc.Meta, error]
	if s.fsys != nil {
		blobs = fbc.Walk(s.fsys, fbc.Limits{})
	} else {
		report.OrQuiet(progress).Warn(DatabaseNotice)
		blobs = ReadDatabase(ctx, progress, s.database)
	}

	return func(yield func(fbc.Meta, error) bool) {
		for meta, err := range blobs {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(meta, err) || err != nil {
				return
			}
		}
	}
}

// model returns a catalog as the rules see it, which it must keep.
func (s *source) model(ctx context.Context, progress report.Progress) (*fbc.Model, error) {
	if s.fsys != nil {
		model, err := fbc.LoadModelFS(s.fsys, fbc.Limits{})
		return model, errors.Join(ctx.Err(), err)
	}
	return fbc.LoadModel(s.metas(ctx, progress))
}
