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

// referenceKind is the kind of content behind a user's reference. Several kinds form a bit
// set.
type referenceKind uint8

const (
	catalogDir referenceKind = 1 << iota
	catalogImage
	bundleDir
	bundleImage
	databaseFile
	databaseImage

	// anyCatalog contains all kinds that hold packages.
	anyCatalog = catalogDir | catalogImage | databaseFile | databaseImage
	anything   = anyCatalog | bundleDir | bundleImage
)

// errKindNotAllowed marks a kind of reference that a command does not accept.
var errKindNotAllowed = errors.New("not allowed")

// source is an opened reference.
type source struct {
	kind referenceKind
	// image is the reference of a bundle image, as the user wrote it.
	image string
	// labels are the labels of a bundle image.
	labels map[string]string
	// fsys holds the files of a catalog or a bundle.
	fsys fs.FS
	// database is the path of a SQLite file.
	database string
	// close closes the source and removes unpacked files.
	close func()
}

// openReference opens a reference: an existing path, or otherwise an image. Kinds that are
// not allowed are refused.
func openReference(ctx context.Context, registry Registry, progress report.Progress, ref string, allowed referenceKind) (*source, error) {
	info, err := os.Stat(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		defer showOperation(progress, ref, "pulling")()
		return openImageReference(ctx, registry, ref, allowed)
	case err != nil:
		return nil, err
	case info.IsDir():
		return openDirectory(ref, allowed)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("ref %q has unsupported file type: %s", ref, info.Mode().Type())
	}

	return openDatabaseFile(ref, allowed)
}

// openDatabaseFile opens a file, which must be a SQLite catalog.
func openDatabaseFile(name string, allowed referenceKind) (*source, error) {
	if allowed&databaseFile == 0 {
		return nil, fmt.Errorf("ref %q is not a directory: %w", name, errKindNotAllowed)
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	head := make([]byte, 512)
	n, _ := file.Read(head) // an unreadable file has no supported type either
	if !strings.HasPrefix(string(head[:n]), "SQLite format 3\x00") {
		return nil, fmt.Errorf("ref %q has unsupported file type: %s", name, http.DetectContentType(head[:n]))
	}

	return &source{kind: databaseFile, database: name, close: func() {}}, nil
}

// openDirectory opens a folder. It is a bundle if it has the folders manifests and
// metadata, and otherwise a catalog.
func openDirectory(name string, allowed referenceKind) (*source, error) {
	fsys, done, err := OpenFolder(name)
	if err != nil {
		return nil, err
	}

	s := &source{kind: catalogDir, fsys: fsys, close: done}
	if containsDirectory(fsys, "manifests") && containsDirectory(fsys, "metadata") {
		s.kind = bundleDir
	}

	switch {
	case allowed&s.kind != 0:
		return s, nil
	case s.kind == bundleDir:
		err = fmt.Errorf("cannot render bundle directory %q: %w", name, errKindNotAllowed)
	default:
		err = fmt.Errorf("cannot render declarative config directory: %w", errKindNotAllowed)
	}

	done()
	return nil, err
}

func containsDirectory(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// openImageReference pulls an image and opens the content that its labels declare.
func openImageReference(ctx context.Context, registry Registry, ref string, allowed referenceKind) (*source, error) {
	if err := validateImageReference(ref); err != nil {
		return nil, &report.Error{
			Object: fmt.Sprintf("failed to pull image %q", ref), Err: err,
			Advice: "name a folder that exists, or an image as registry/repository:tag or registry/repository@sha256:digest",
		}
	}

	client := registry.Client(ref)
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return nil, newPullError(ref, err)
	}
	defer func() { _ = pulled.Close() }() // everything has been read and verified
	s, prefix, err := classifyImage(ref, pulled.Labels, allowed)
	if err != nil {
		return nil, err
	}

	if s.kind == databaseImage {
		s.database, s.close, err = unpackDatabase(ctx, registry, client, pulled, prefix)
	} else {
		s.fsys, s.close, err = registry.unpackFiles(ctx, client, pulled, prefix)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to unpack image %q: %w", ref, err)
	}

	return s, nil
}

// unpackDatabase writes the SQLite file of an image to a temporary folder, because SQLite
// opens only files. The returned function removes it.
func unpackDatabase(ctx context.Context, registry Registry, client *image.Client, pulled *image.Image, location string) (string, func(), error) {
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

// newPullError returns an error for a failed pull that names the image only once.
func newPullError(ref string, err error) error {
	text := err.Error()
	var failed *image.Error
	if errors.As(err, &failed) {
		text = strings.TrimPrefix(text, failed.Op+" image "+failed.Ref+": ")
	}
	return &report.Reworded{Text: fmt.Sprintf("failed to pull image %q: %s", ref, text), Cause: err}
}

// classifyImage returns the kind of an image and the path of its content, according to its
// labels.
func classifyImage(ref string, labels map[string]string, allowed referenceKind) (*source, string, error) {
	database, isDatabase := labels[indexdb.LabelDatabase]
	configs, isCatalog := labels[image.LabelConfigs]
	_, isBundle := labels[bundle.KeyPackage]
	switch {
	case isDatabase && !isCatalog:
		if allowed&databaseImage == 0 {
			return nil, "", fmt.Errorf("cannot render index image: %w", errKindNotAllowed)
		}
		return &source{kind: databaseImage}, path.Clean("/" + database), nil
	case isCatalog:
		if allowed&catalogImage == 0 {
			return nil, "", fmt.Errorf("cannot render declarative config image: %w", errKindNotAllowed)
		}
		return &source{kind: catalogImage}, configs, nil
	case isBundle:
		if allowed&bundleImage == 0 {
			return nil, "", fmt.Errorf("cannot render bundle image: %w", errKindNotAllowed)
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

// readCatalogBlobs yields the blobs of a catalog. It stops at the first error.
func (s *source) readCatalogBlobs(ctx context.Context, progress report.Progress) iter.Seq2[fbc.Meta, error] {
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

// loadCatalogModel loads a catalog and validates it.
func (s *source) loadCatalogModel(ctx context.Context, progress report.Progress) (*fbc.Model, error) {
	if s.fsys != nil {
		model, err := fbc.LoadModelFS(s.fsys, fbc.Limits{})
		return model, errors.Join(ctx.Err(), err)
	}
	return fbc.LoadModel(s.readCatalogBlobs(ctx, progress))
}
