package publish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// CatalogBuild makes a catalog image, without a container engine: from a folder that
// holds a file-based catalog, or from one that holds bundles, which are pushed first.
type CatalogBuild struct {
	Registry catalogs.Registry
	Progress report.Progress

	// Dir is the folder: a file-based catalog, or any folders of bundles. It holds
	// bundles when a folder in it has a metadata/annotations.yaml.
	Dir string
	// Push is where the image goes: a repository and a tag. Empty means nowhere.
	Push string
	// Output is a file that the image is written to as an OCI archive. Empty means none.
	Output string
	// BundleRepo is the repository below which bundles are pushed, one repository for
	// each package, one tag for each version. Empty means that of Push.
	BundleRepo string
	// DryRun builds everything, and pushes and writes nothing.
	DryRun bool
}

// BuiltCatalog is a catalog image.
type BuiltCatalog struct {
	// Reference is <repository>@<digest>, empty if the image was not pushed.
	Reference string `json:"reference,omitempty"`
	// Digest of the image.
	Digest string `json:"digest"`
	// Bundles that the catalog was made of, empty if it was there as files. They have
	// been pushed, unless it was a dry run.
	Bundles []PushedBundle `json:"bundles,omitempty"`
	// Blobs are the content of the catalog if it was made of bundles.
	Blobs []fbc.Meta `json:"-"`
}

// Write writes the content of a catalog that was made of bundles.
func (b *BuiltCatalog) Write(ctx context.Context, format fbc.Format, w io.Writer) error {
	return catalogs.WriteMetas(ctx, b.Blobs, format, nil, w)
}

// Run builds the catalog.
func (a *CatalogBuild) Run(ctx context.Context) (*BuiltCatalog, error) {
	object := fmt.Sprintf("catalog %q", a.Dir)
	if a.Push == "" && a.Output == "" && !a.DryRun {
		return nil, &report.Error{Object: object, Err: errors.New("nowhere to put the image"), Advice: "name a repository with --push or a file with --output, or look at it with --dry-run"}
	}

	fsys, done, err := catalogs.OpenFolder(a.Dir)
	if err != nil {
		return nil, err
	}

	defer done()
	folders, err := findBundles(fsys)
	if err != nil {
		return nil, &report.Error{Object: object, Err: err}
	}

	result := &BuiltCatalog{}
	spec := image.CatalogSpec(fsys)
	if len(folders) > 0 {
		if spec, err = a.fromBundles(ctx, fsys, folders, result); err != nil {
			return nil, err
		}
	} else if err := catalogs.CheckContent(ctx, fsys, object); err != nil {
		return nil, err
	}

	built, err := image.Build(spec)
	if err != nil {
		return nil, &report.Error{Object: object, Err: err}
	}

	result.Digest = built.Digest()
	return result, a.deliver(ctx, built, result)
}

// deliver writes and pushes the image.
func (a *CatalogBuild) deliver(ctx context.Context, built *image.Built, result *BuiltCatalog) error {
	if a.DryRun {
		return nil
	}

	if a.Output != "" {
		if err := catalogs.WriteArchive(a.Output, cmp.Or(a.Push, "localhost/catalog:latest"), built); err != nil {
			return err
		}
		report.OrQuiet(a.Progress).Done("image written to " + a.Output)
	}

	if a.Push == "" {
		return nil
	}

	reference, err := a.Registry.Client(a.Push).Push(ctx, a.Push, nil, built)
	result.Reference = reference
	return err
}

// fromBundles pushes the bundles of the folders and describes an image of their catalog.
func (a *CatalogBuild) fromBundles(ctx context.Context, fsys fs.FS, folders []string, result *BuiltCatalog) (image.Spec, error) {
	repo := cmp.Or(a.BundleRepo, catalogs.RepositoryOf(a.Push))
	if repo == "" {
		return image.Spec{}, &report.Error{
			Object: fmt.Sprintf("bundles in %q", a.Dir), Err: errors.New("nowhere to push them: a catalog names bundles by their images"),
			Advice: "name a repository for them with --bundle-repo, or for them and the catalog with --push",
		}
	}

	var members []member
	for _, name := range folders {
		m, pushed, err := a.pushBundle(ctx, fsys, name, repo)
		if err != nil {
			return image.Spec{}, err
		}
		members = append(members, m)
		result.Bundles = append(result.Bundles, pushed)
	}

	composition, err := compose(members)
	if err != nil {
		return image.Spec{}, &report.Error{Object: fmt.Sprintf("bundles in %q", a.Dir), Err: err}
	}

	for _, warning := range composition.Warnings {
		report.OrQuiet(a.Progress).Warn(warning)
	}

	if result.Blobs, err = composition.blobs(); err != nil {
		return image.Spec{}, err
	}

	spec := image.CatalogSpec(nil)
	spec.Layers[0].Files = catalogFiles(spec.Layers[0].Target, result.Blobs)
	return spec, nil
}

// pushBundle pushes one bundle, or only builds it in a dry run. What the catalog does
// not need of the bundle is let go of: a folder may hold hundreds.
func (a *CatalogBuild) pushBundle(ctx context.Context, fsys fs.FS, name, repo string) (member, PushedBundle, error) {
	object := fmt.Sprintf("bundle %q", filepath.Join(a.Dir, filepath.FromSlash(name)))
	sub, err := fs.Sub(fsys, name)
	if err != nil {
		return member{}, PushedBundle{}, &report.Error{Object: object, Err: err}
	}

	b, built, err := buildBundle(sub, object)
	if err != nil {
		return member{}, PushedBundle{}, err
	}
	if err := checkVersion(b); err != nil {
		return member{}, PushedBundle{}, &report.Error{Object: object, Err: err, Advice: "set the version in the ClusterServiceVersion"}
	}

	catalogs.Warn(a.Progress, b)
	warnUnfit(a.Progress, b)
	tag, err := versionTag(b.Version)
	if err != nil {
		return member{}, PushedBundle{}, &report.Error{Object: object, Err: err}
	}

	repository := repo + "/" + b.Package
	reference := repository + "@" + built.Digest()
	if !a.DryRun {
		if reference, err = a.Registry.Client(repository).Push(ctx, repository+":"+tag, nil, built); err != nil {
			return member{}, PushedBundle{}, &report.Error{Object: object, Err: err}
		}
		report.OrQuiet(a.Progress).Done("bundle " + b.Name() + " pushed to " + repository + ":" + tag)
	}

	blob, err := b.FBC(reference, bundle.WithMetadata)
	if err != nil {
		return member{}, PushedBundle{}, &report.Error{Object: object, Err: err}
	}

	b.CRDs, b.Objects, b.Properties = nil, nil, nil
	return member{bundle: b, blob: blob}, PushedBundle{Package: b.Package, Name: b.Name(), Version: b.Version.String(), Reference: reference}, nil
}

// blobs returns the blobs of a composition: package by package, each its olm.package, its
// channels, and its bundles.
func (c *Composition) blobs() ([]fbc.Meta, error) {
	var metas []fbc.Meta
	for _, p := range c.Packages {
		meta, err := encodeBlob(fbc.Meta{Schema: fbc.SchemaPackage, Name: p.Name}, p)
		if err != nil {
			return nil, err
		}

		metas = append(metas, meta)
		for _, channel := range c.Channels {
			if channel.Package != p.Name {
				continue
			}
			meta, err := encodeBlob(fbc.Meta{Schema: fbc.SchemaChannel, Package: p.Name, Name: channel.Name}, channel)
			if err != nil {
				return nil, err
			}
			metas = append(metas, meta)
		}

		for _, b := range c.Bundles {
			if b.Package != p.Name {
				continue
			}
			meta, err := encodeBlob(fbc.Meta{Schema: fbc.SchemaBundle, Package: p.Name, Name: b.Name}, b)
			if err != nil {
				return nil, err
			}
			metas = append(metas, meta)
		}
	}

	return metas, nil
}

// encodeBlob completes a meta with its blob.
func encodeBlob(meta fbc.Meta, value any) (fbc.Meta, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fbc.Meta{}, fmt.Errorf("writing %s %q: %w", meta.Schema, meta.Name, err)
	}

	meta.Blob = json.RawMessage(bytes.TrimSpace(buffer.Bytes()))
	return meta, nil
}

// catalogFiles lays blobs out as files, one for each package, one line for each blob.
func catalogFiles(target string, blobs []fbc.Meta) []image.File {
	var files []image.File
	at := map[string]int{}
	for _, blob := range blobs {
		name := blob.PackageName()
		if _, ok := at[name]; !ok {
			at[name] = len(files)
			files = append(files, image.File{Path: path.Join(target, name, "catalog.json")})
		}
		file := &files[at[name]]
		file.Content = append(append(file.Content, blob.Blob...), '\n')
	}

	return files
}
