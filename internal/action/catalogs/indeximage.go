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

// EditIndex makes a new index image: one that holds a SQLite catalog.
type EditIndex struct {
	Registry Registry
	Progress report.Progress

	// From is the index image whose catalog is changed. Empty means a new catalog.
	From   string
	Change Change
	// Image says what becomes of the changed catalog.
	Image IndexImage
}

// IndexImage says what becomes of a changed SQLite catalog. When nothing else is asked for,
// a container engine builds the image.
type IndexImage struct {
	// Generate writes the catalog to database/index.db and a Dockerfile, and builds
	// nothing.
	Generate bool
	// Dockerfile is the name of that. Empty means index.Dockerfile.
	Dockerfile string
	// BinaryImage is what the image is built on. Empty means that of the field's opm, and
	// this program where no container engine builds the image; "scratch" means nothing.
	BinaryImage string
	// Tag names the image. Empty means operator-registry-index:latest.
	Tag string
	// Engine is docker or podman.
	Engine string
	// EngineOutput is told what the engine says.
	EngineOutput io.Writer
	// Program is the opm that images have which no engine builds.
	Program string
	// Delivery says where such an image goes.
	Delivery Delivery
}

const (
	defaultIndexTag        = "operator-registry-index:latest"
	defaultIndexDockerfile = "index.Dockerfile"
	databaseFolder         = "database"
	databaseName           = "index.db"
)

// Run makes the change and the image. It gives the reference of an image that was pushed.
func (a *EditIndex) Run(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "mainstay-index-")
	if err != nil {
		return "", err
	}

	defer func() { _ = os.RemoveAll(dir) }() // what counts has been delivered
	database := filepath.Join(dir, databaseFolder, databaseName)
	if err := os.Mkdir(filepath.Dir(database), 0o755); err != nil { //nolint:gosec // it becomes part of an image
		return "", err
	}

	var ground *foundation
	if !a.Image.Delivery.Nowhere() {
		if ground, err = lay(ctx, a.Registry, a.Image.BinaryImage, a.Image.Program, dir); err != nil {
			return "", err
		}
	}

	if a.From != "" {
		if err := extractIndex(ctx, a.Registry, a.Progress, a.From, database); err != nil {
			return "", err
		}
	}

	edit := EditDatabase{Progress: a.Progress, Path: database, Create: a.From == "", Change: a.Change}
	if err := edit.Run(ctx); err != nil {
		return "", err
	}

	return a.finish(ctx, dir, database, ground)
}

// finish writes, builds and delivers what is asked for.
func (a *EditIndex) finish(ctx context.Context, dir, database string, ground *foundation) (string, error) {
	m := a.Image
	if m.Generate {
		if err := copyFile(os.DirFS(filepath.Dir(database)), filepath.Base(database), filepath.Join(databaseFolder, databaseName)); err != nil {
			return "", err
		}
		if err := m.writeDockerfile(cmp.Or(m.Dockerfile, defaultIndexDockerfile)); err != nil {
			return "", err
		}
	}

	if ground != nil {
		spec, err := indexdb.ImageSpec(database, nil)
		if err != nil {
			return "", err
		}
		ground.under(&spec, "registry", "serve", "--database", indexdb.DatabasePath)
		return buildAndDeliver(ctx, &spec, "index image", m.Delivery, a.Registry, a.Progress)
	}

	if m.Generate {
		return "", nil
	}
	if err := m.writeDockerfile(filepath.Join(dir, defaultIndexDockerfile)); err != nil {
		return "", err
	}

	args, err := buildArguments(m.Engine, defaultIndexDockerfile, cmp.Or(m.Tag, defaultIndexTag))
	if err != nil {
		return "", err
	}

	return "", runEngine(ctx, dir, m.Engine, m.EngineOutput, args...)
}

func (m IndexImage) writeDockerfile(name string) error {
	text, err := indexdb.Dockerfile(m.BinaryImage, path.Join(databaseFolder, databaseName))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // a file for the user
}

// extractIndex copies the SQLite catalog of an index image to a file.
func extractIndex(ctx context.Context, registry Registry, progress report.Progress, ref, to string) error {
	if err := checkReference(ref); err != nil {
		return fmt.Errorf("failed to pull image %q: %w", ref, err)
	}

	defer begin(progress, ref, "pulling")()
	client := registry.Client(ref)
	pulled, err := client.Pull(ctx, ref)
	if err != nil {
		return pullError(ref, err)
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
	files, done, err := registry.files(ctx, client, pulled, path.Dir(location))
	if err != nil {
		return err
	}
	defer done()
	return copyFile(files, path.Base(location), to)
}

// copyFile copies a file of a tree, and makes the folder that it goes to.
func copyFile(fsys fs.FS, name, to string) error {
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

	// Index is the image.
	Index string
	// Packages are those that are written. Empty means all.
	Packages []string
	// Dir is where.
	Dir string
}

// Run pulls the index and the bundles that it names.
func (a *ExportIndex) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mainstay-index-")
	if err != nil {
		return err
	}

	defer func() { _ = os.RemoveAll(dir) }() // it was only read
	database := filepath.Join(dir, databaseName)
	if err := extractIndex(ctx, a.Registry, a.Progress, a.Index, database); err != nil {
		return err
	}

	index, err := indexdb.Open(ctx, database, databaseOptions(a.Progress))
	if err != nil {
		return err
	}

	defer func() { _ = index.Close() }() // it was only read
	pulls := &lanes{to: a.Progress}
	fetch := func(ctx context.Context, ref, folder string) error {
		progress, end := pulls.add()
		defer end()
		return a.fetch(ctx, progress, ref, folder)
	}

	return indexdb.Export{Index: index, Packages: a.Packages, Folder: a.Dir, Fetch: fetch}.Run(ctx)
}

// fetch writes the manifests of a bundle image into a folder.
func (a *ExportIndex) fetch(ctx context.Context, progress report.Progress, ref, folder string) error {
	s, err := openSource(ctx, a.Registry, progress, ref, bundleImage)
	if err != nil {
		return err
	}
	defer s.close()
	return copyTree(s.fsys, "manifests", folder)
}
