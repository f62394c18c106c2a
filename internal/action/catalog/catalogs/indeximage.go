package catalogs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/indexdb"
)

// EditIndex builds an index image, which contains a SQLite catalog, from a changed catalog.
type EditIndex struct {
	Registry Registry
	Progress report.Progress

	// From is the index image whose catalog is changed. Empty means that a new catalog is
	// created.
	From   string
	Change Change
	// Image describes the output.
	Image IndexImage
}

// IndexImage describes what is made of a changed SQLite catalog. A container engine builds
// the image unless Generate or Delivery is set.
type IndexImage struct {
	// Generate writes the catalog to database/index.db and a Dockerfile. No image is built.
	Generate bool
	// Dockerfile is the name of the Dockerfile. Empty means index.Dockerfile.
	Dockerfile string
	// BinaryImage is the base image. Empty means the upstream opm image if a container
	// engine builds the image, and Program otherwise. "scratch" means none.
	BinaryImage string
	// Tag is the name of the image. Empty means operator-registry-index:latest.
	Tag string
	// Engine is docker or podman.
	Engine string
	// EngineOutput receives the output of the engine.
	EngineOutput io.Writer
	// Program is the path of the opm binary for images that are built without an engine.
	Program string
	// Delivery is the destination of an image that is built without an engine.
	Delivery Delivery
}

const (
	defaultIndexTag        = "operator-registry-index:latest"
	defaultIndexDockerfile = "index.Dockerfile"
	databaseFolder         = "database"
	databaseName           = "index.db"
)

// Run changes the catalog and builds the image. It returns the reference of a pushed image.
func (a *EditIndex) Run(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "mainstay-index-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the image has been delivered
	database := filepath.Join(dir, databaseFolder, databaseName)
	if err := os.Mkdir(filepath.Dir(database), 0o755); err != nil { //nolint:gosec // it becomes part of an image
		return "", err
	}

	var base *baseContent
	if !a.Image.Delivery.IsEmpty() {
		if base, err = loadBaseContent(ctx, a.Registry, a.Image.BinaryImage, a.Image.Program, dir); err != nil {
			return "", err
		}
	}

	if a.From != "" {
		if err := extractIndexDatabase(ctx, a.Registry, a.Progress, a.From, database); err != nil {
			return "", err
		}
	}

	edit := EditDatabase{Progress: a.Progress, Path: database, Create: a.From == "", Change: a.Change}
	if err := edit.Run(ctx); err != nil {
		return "", err
	}

	return a.writeAndDeliverImage(ctx, dir, database, base)
}

// writeAndDeliverImage writes, builds and delivers the requested outputs. A nil base means
// that no delivery was requested.
func (a *EditIndex) writeAndDeliverImage(ctx context.Context, dir, database string, base *baseContent) (string, error) {
	m := a.Image
	if m.Generate {
		if err := copyFileFromTree(os.DirFS(filepath.Dir(database)), filepath.Base(database), filepath.Join(databaseFolder, databaseName)); err != nil {
			return "", err
		}
		if err := m.writeDockerfile(cmp.Or(m.Dockerfile, defaultIndexDockerfile)); err != nil {
			return "", err
		}
	}

	if base != nil {
		spec, err := indexdb.ImageSpec(database, nil)
		if err != nil {
			return "", err
		}
		base.addToSpec(&spec, "registry", "serve", "--database", indexdb.DatabasePath)
		return buildAndDeliver(ctx, &spec, "index image", m.Delivery, a.Registry, a.Progress)
	}

	if m.Generate {
		return "", nil
	}
	if err := m.writeDockerfile(filepath.Join(dir, defaultIndexDockerfile)); err != nil {
		return "", err
	}

	args, err := engineBuildArguments(m.Engine, defaultIndexDockerfile, cmp.Or(m.Tag, defaultIndexTag))
	if err != nil {
		return "", err
	}

	return "", runContainerEngine(ctx, dir, m.Engine, m.EngineOutput, args...)
}

// writeDockerfile writes the Dockerfile of the index image.
func (m IndexImage) writeDockerfile(name string) error {
	text, err := indexdb.Dockerfile(m.BinaryImage, path.Join(databaseFolder, databaseName))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // a file for the user
}

// extractIndexDatabase copies the SQLite catalog of an index image to a file.
func extractIndexDatabase(ctx context.Context, registry Registry, progress report.Progress, ref, to string) error {
	if err := validateImageReference(ref); err != nil {
		return fmt.Errorf("failed to pull image %q: %w", ref, err)
	}
	defer showOperation(progress, ref, "pulling")()
	client := registry.Client(ref)
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return newPullError(ref, err)
	}
	defer func() { _ = pulled.Close() }() // everything has been read and verified
	location, err := indexdb.DatabaseInImage(ref, pulled.Labels)
	if err != nil {
		return err
	}
	if err := extractDatabase(ctx, registry, client, pulled, location, to); err != nil {
		return fmt.Errorf("failed to unpack image %q: %w", ref, err)
	}

	return nil
}

// extractDatabase copies the SQLite file of a pulled image to a file.
func extractDatabase(ctx context.Context, registry Registry, client *image.Client, pulled *image.Image, location, to string) error {
	location = path.Clean("/" + location)
	files, done, err := registry.unpackFiles(ctx, client, pulled, path.Dir(location))
	if err != nil {
		return err
	}
	defer done()
	return copyFileFromTree(files, path.Base(location), to)
}

// copyFileFromTree copies a file of fsys to disk. It creates the parent folder.
func copyFileFromTree(fsys fs.FS, name, to string) error {
	source, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()                        // it was only read
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // the user's umask decides
		return err
	}

	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) //nolint:gosec // as above
	if err != nil {
		return err
	}

	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// ExportIndex writes packages of an index image as folders in the package manifest format.
type ExportIndex struct {
	Registry Registry
	Progress report.Progress

	// Index is the reference of the image.
	Index string
	// Packages are the names of the packages. Empty means all.
	Packages []string
	// Dir is the output folder.
	Dir string
}

// Run pulls the index image and the images of its bundles and writes the folders.
func (a *ExportIndex) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mainstay-index-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it was only read
	database := filepath.Join(dir, databaseName)
	if err := extractIndexDatabase(ctx, a.Registry, a.Progress, a.Index, database); err != nil {
		return err
	}

	index, err := indexdb.Open(ctx, database, warningOptions(a.Progress))
	if err != nil {
		return err
	}
	defer func() { _ = index.Close() }() // it was only read
	pulls := &sharedProgress{target: a.Progress}
	fetch := func(ctx context.Context, ref, folder string) error {
		progress, end := pulls.addProgressLane()
		defer end()
		return a.fetchBundleManifests(ctx, progress, ref, folder)
	}

	return indexdb.Export{Index: index, Packages: a.Packages, Folder: a.Dir, Fetch: fetch}.Run(ctx)
}

// fetchBundleManifests writes the manifests of a bundle image into a folder.
func (a *ExportIndex) fetchBundleManifests(ctx context.Context, progress report.Progress, ref, folder string) error {
	s, err := openReference(ctx, a.Registry, progress, ref, bundleImage)
	if err != nil {
		return err
	}
	defer s.close()
	return copyFileTree(s.fsys, "manifests", folder)
}
