package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Render reads catalogs and bundles as the blobs of a file-based catalog.
type Render struct {
	Registry Registry
	Progress report.Progress

	// Refs are what is read, one after the other: folders that exist, of a bundle or a
	// file-based catalog, and else references of images of either.
	Refs []string
	// Blob is called with each blob. An error of it ends the rendering.
	Blob func(fbc.Meta) error
}

// Run renders the references.
func (a *Render) Run(ctx context.Context) error {
	for _, ref := range a.Refs {
		if err := a.render(ctx, ref); err != nil {
			return fmt.Errorf("render reference %q: %w", ref, err)
		}
	}
	return nil
}

func (a *Render) render(ctx context.Context, ref string) error {
	info, err := os.Stat(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a.renderImage(ctx, ref)
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("is a file: name the folder of a bundle or a catalog, or an image")
	}
	fsys, done, err := OpenFolder(ref)
	if err != nil {
		return err
	}
	defer done()
	if isDir(fsys, "manifests") && isDir(fsys, "metadata") {
		return a.renderBundle(fsys, "")
	}
	return a.renderCatalog(fsys)
}

func isDir(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// renderImage renders an image by what its labels say that it is.
func (a *Render) renderImage(ctx context.Context, ref string) error {
	pulled, err := a.Registry.Client().Pull(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = pulled.Close() }() // everything has been read and verified
	if configs := pulled.Labels[image.LabelConfigs]; configs != "" {
		fsys, done, err := unpack(ctx, pulled, configs)
		if err != nil {
			return err
		}
		defer done()
		return a.renderCatalog(fsys)
	}
	if pulled.Labels[bundle.KeyPackage] == "" {
		return unknownImage(pulled.Labels)
	}
	fsys, done, err := unpack(ctx, pulled, "/")
	if err != nil {
		return err
	}
	defer done()
	return a.renderBundle(fsys, ref)
}

// unknownImage says that an image is neither a catalog nor a bundle.
func unknownImage(labels map[string]string) error {
	if len(labels) == 0 {
		return errors.New("image type could not be determined: image has no labels")
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, "  "+key+"="+labels[key])
	}
	return fmt.Errorf("image type could not be determined, found labels\n%s", strings.Join(pairs, "\n"))
}

func (a *Render) renderCatalog(fsys fs.FS) error {
	for meta, err := range fbc.Walk(fsys, fbc.Limits{}) {
		if err != nil {
			return err
		}
		if err := a.Blob(meta); err != nil {
			return err
		}
	}
	return nil
}

func (a *Render) renderBundle(fsys fs.FS, ref string) error {
	b, err := bundle.Load(fsys)
	if err != nil {
		return err
	}
	warn(a.Progress, b)
	blob, err := b.FBC(ref)
	if err != nil {
		return err
	}
	meta, err := encodeBlob(fbc.Meta{Schema: fbc.SchemaBundle, Package: blob.Package, Name: blob.Name}, blob)
	if err != nil {
		return err
	}
	return a.Blob(meta)
}

// Validate checks a file-based catalog.
type Validate struct {
	// Dir is the folder of the catalog.
	Dir string
}

// Run checks that every file can be read and that every blob of a schema of OLM is what
// its schema says. It names every fault that it finds, up to a bound.
func (a *Validate) Run(ctx context.Context) error {
	info, err := os.Stat(a.Dir)
	if err == nil && !info.IsDir() {
		return &report.Error{Object: fmt.Sprintf("%q", a.Dir), Err: errors.New("is not a directory"), Advice: "name the folder of a catalog"}
	}
	fsys, done, err := OpenFolder(a.Dir)
	if err != nil {
		return err
	}
	defer done()
	return validate(ctx, fsys, fmt.Sprintf("catalog %q", a.Dir))
}

// maxFaults is how many faults of a catalog are named: nobody reads more at a time.
const maxFaults = 50

func validate(ctx context.Context, fsys fs.FS, object string) error {
	var faults []error
	blobs := 0
	for meta, err := range fbc.Walk(fsys, fbc.Limits{}) {
		if err != nil {
			// The walk ends here: what stands behind the fault cannot be read.
			faults = append(faults, err)
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		blobs++
		if err := decodes(meta); err != nil {
			if faults = append(faults, err); len(faults) == maxFaults {
				faults = append(faults, errors.New("there may be more, which are not looked for"))
				break
			}
		}
	}
	if blobs == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("it holds no blobs"))
	}
	if len(faults) == 0 {
		return nil
	}
	err := faults[0]
	if len(faults) > 1 {
		err = fmt.Errorf("%d faults:\n%w", len(faults), errors.Join(faults...))
	}
	return &report.Error{Object: object, Err: err, Advice: "correct what is named"}
}

// decodes checks that a blob of a schema of OLM is what its schema says.
func decodes(meta fbc.Meta) error {
	var err error
	switch meta.Schema {
	case fbc.SchemaPackage:
		_, err = fbc.DecodePackage(meta)
	case fbc.SchemaChannel:
		_, err = fbc.DecodeChannel(meta)
	case fbc.SchemaBundle:
		_, err = fbc.DecodeBundle(meta)
	case fbc.SchemaDeprecations:
		_, err = fbc.DecodeDeprecations(meta)
	}
	return err
}
