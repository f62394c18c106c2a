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

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// CatalogBuild builds a catalog image without a container engine. The folder contains a
// file-based catalog, or bundles, which are pushed first.
type CatalogBuild struct {
	Registry catalogs.Registry
	Progress report.Progress

	// Dir is the folder. It contains bundles if any folder in it has a
	// metadata/annotations.yaml, and otherwise a file-based catalog.
	Dir string
	// Push is the repository and tag that the image is pushed to. Empty means that it is
	// not pushed.
	Push string
	// Output is the file that the image is written to as an OCI archive. Empty means none.
	Output string
	// BundleRepo is the parent of the repositories that bundles are pushed to: one
	// repository for each package and one tag for each version. Empty means the repository
	// of Push.
	BundleRepo string
	// DryRun builds everything without pushing or writing it.
	DryRun bool
}

// BuiltCatalog is the result of CatalogBuild.
type BuiltCatalog struct {
	// Reference is <repository>@<digest>. It is empty if the image was not pushed.
	Reference string `json:"reference,omitempty"`
	// Digest is the digest of the image.
	Digest string `json:"digest"`
	// Bundles are the bundles that the catalog is composed from. It is empty if the catalog
	// was read from files. The bundles have been pushed unless DryRun is set.
	Bundles []PushedBundle `json:"bundles,omitempty"`
	// Blobs are the content of a catalog that is composed from bundles.
	Blobs []fbc.Meta `json:"-"`
}

// Write writes the content of a catalog that is composed from bundles.
func (b *BuiltCatalog) Write(ctx context.Context, format fbc.Format, w io.Writer) error {
	return catalogs.WriteMetas(ctx, b.Blobs, format, nil, w)
}

// Run builds and delivers the catalog.
func (a *CatalogBuild) Run(ctx context.Context) (*BuiltCatalog, error) {
	object := fmt.Sprintf("catalog %q", a.Dir)
	if a.Push == "" && a.Output == "" && !a.DryRun {
		return nil, &report.Error{Object: object, Err: errors.New("no destination for the image is specified"), Advice: "name a repository with --push or a file with --output, or look at it with --dry-run"}
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
		if spec, err = a.composeFromBundles(ctx, fsys, folders, result); err != nil {
			return nil, err
		}
	} else if err := catalogs.ValidateCatalogContent(ctx, fsys, object); err != nil {
		return nil, err
	}

	built, err := image.Build(spec)
	if err != nil {
		return nil, &report.Error{Object: object, Err: err}
	}

	result.Digest = built.Digest()
	return result, a.deliverImage(ctx, built, result)
}

// deliverImage writes and pushes the image unless DryRun is set. It sets the reference of
// the result.
func (a *CatalogBuild) deliverImage(ctx context.Context, built *image.Built, result *BuiltCatalog) error {
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

// composeFromBundles pushes the bundles of the folders and returns the specification of an
// image with their catalog.
func (a *CatalogBuild) composeFromBundles(ctx context.Context, fsys fs.FS, folders []string, result *BuiltCatalog) (image.Spec, error) {
	repo := cmp.Or(a.BundleRepo, catalogs.RepositoryOf(a.Push))
	if repo == "" {
		return image.Spec{}, &report.Error{
			Object: fmt.Sprintf("bundles in %q", a.Dir), Err: errors.New("no repository for them is specified: a catalog refers to bundles by their images"),
			Advice: "name a repository for them with --bundle-repo, or for them and the catalog with --push",
		}
	}

	var members []catalogMember
	for _, name := range folders {
		m, pushed, err := a.buildAndPushBundle(ctx, fsys, name, repo)
		if err != nil {
			return image.Spec{}, err
		}
		members = append(members, m)
		result.Bundles = append(result.Bundles, pushed)
	}

	composition, err := composeCatalog(members)
	if err != nil {
		return image.Spec{}, &report.Error{Object: fmt.Sprintf("bundles in %q", a.Dir), Err: err}
	}

	for _, warning := range composition.Warnings {
		report.OrQuiet(a.Progress).Warn(warning)
	}

	if result.Blobs, err = composition.encodeBlobs(); err != nil {
		return image.Spec{}, err
	}

	spec := image.CatalogSpec(nil)
	spec.Layers[0].Files = layOutCatalogFiles(spec.Layers[0].Target, result.Blobs)
	return spec, nil
}

// buildAndPushBundle builds a bundle and pushes it unless DryRun is set. It drops the
// content that the catalog does not need, because a folder may contain hundreds of bundles.
func (a *CatalogBuild) buildAndPushBundle(ctx context.Context, fsys fs.FS, name, repo string) (catalogMember, PushedBundle, error) {
	object := fmt.Sprintf("bundle %q", filepath.Join(a.Dir, filepath.FromSlash(name)))
	sub, err := fs.Sub(fsys, name)
	if err != nil {
		return catalogMember{}, PushedBundle{}, &report.Error{Object: object, Err: err}
	}

	b, built, err := buildBundle(sub, object)
	if err != nil {
		return catalogMember{}, PushedBundle{}, err
	}
	if err := requireSemanticVersion(b); err != nil {
		return catalogMember{}, PushedBundle{}, &report.Error{Object: object, Err: err, Advice: "set the version in the ClusterServiceVersion"}
	}

	catalogs.WarnBundle(a.Progress, b)
	warnIfNotInstallable(a.Progress, b)
	tag, err := versionTag(b.Version)
	if err != nil {
		return catalogMember{}, PushedBundle{}, &report.Error{Object: object, Err: err}
	}

	repository := repo + "/" + b.Package
	reference := repository + "@" + built.Digest()
	if !a.DryRun {
		if reference, err = a.Registry.Client(repository).Push(ctx, repository+":"+tag, nil, built); err != nil {
			return catalogMember{}, PushedBundle{}, &report.Error{Object: object, Err: err}
		}
		report.OrQuiet(a.Progress).Done("bundle " + b.Name() + " pushed to " + repository + ":" + tag)
	}

	blob, err := b.FBC(reference, bundle.WithMetadata)
	if err != nil {
		return catalogMember{}, PushedBundle{}, &report.Error{Object: object, Err: err}
	}

	b.CRDs, b.Objects, b.Properties = nil, nil, nil
	return catalogMember{bundle: b, blob: blob}, PushedBundle{Package: b.Package, Name: b.Name(), Version: b.Version.String(), Reference: reference}, nil
}

// encodeBlobs returns the blobs of a composition. For each package they are the
// olm.package, its channels, and its bundles.
func (c *Composition) encodeBlobs() ([]fbc.Meta, error) {
	var metas []fbc.Meta
	for _, p := range c.Packages {
		meta, err := encodeBlobContent(fbc.Meta{Schema: fbc.SchemaPackage, Name: p.Name}, p)
		if err != nil {
			return nil, err
		}

		metas = append(metas, meta)
		for _, channel := range c.Channels {
			if channel.Package != p.Name {
				continue
			}
			meta, err := encodeBlobContent(fbc.Meta{Schema: fbc.SchemaChannel, Package: p.Name, Name: channel.Name}, channel)
			if err != nil {
				return nil, err
			}
			metas = append(metas, meta)
		}

		for _, b := range c.Bundles {
			if b.Package != p.Name {
				continue
			}
			meta, err := encodeBlobContent(fbc.Meta{Schema: fbc.SchemaBundle, Package: p.Name, Name: b.Name}, b)
			if err != nil {
				return nil, err
			}
			metas = append(metas, meta)
		}
	}

	return metas, nil
}

// encodeBlobContent returns a meta with the JSON of value as its blob.
func encodeBlobContent(meta fbc.Meta, value any) (fbc.Meta, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fbc.Meta{}, fmt.Errorf("writing %s %q: %w", meta.Schema, meta.Name, err)
	}

	meta.Blob = json.RawMessage(bytes.TrimSpace(buffer.Bytes()))
	return meta, nil
}

// layOutCatalogFiles returns a file for each package with one line for each blob.
func layOutCatalogFiles(target string, blobs []fbc.Meta) []image.File {
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
