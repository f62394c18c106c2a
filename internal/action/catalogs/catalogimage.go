package catalogs

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// CatalogImage makes the image of a file-based catalog that serves it over gRPC, as the
// Dockerfile of a catalog does, without a container engine.
type CatalogImage struct {
	Registry Registry
	Progress report.Progress

	// Dir is the folder of the catalog, which must be valid.
	Dir string
	// Base is the image that it is built on. Empty means Program, scratch nothing: the
	// image then holds the catalog only.
	Base string
	// Program is an opm.
	Program string
	// Labels are added to those of every catalog image.
	Labels map[string]string
	// Delivery says where the image goes.
	Delivery Delivery
}

// Run builds and delivers the image. It gives the reference of one that was pushed.
func (a *CatalogImage) Run(ctx context.Context) (string, error) {
	fsys, done, err := OpenFolder(a.Dir)
	if err != nil {
		return "", err
	}

	defer done()
	object := fmt.Sprintf("catalog %q", a.Dir)
	if err := CheckContent(ctx, fsys, object); err != nil {
		return "", err
	}

	dir, err := os.MkdirTemp("", "mainstay-base-")
	if err != nil {
		return "", err
	}

	defer func() { _ = os.RemoveAll(dir) }() // what counts has been delivered
	ground, err := lay(ctx, a.Registry, a.Base, a.Program, dir)
	if err != nil {
		return "", err
	}

	spec := image.CatalogSpec(fsys)
	maps.Copy(spec.Labels, a.Labels)
	ground.under(&spec, "serve", spec.Labels[image.LabelConfigs])

	return buildAndDeliver(ctx, &spec, object, a.Delivery, a.Registry, a.Progress)
}

// buildAndDeliver builds an image and delivers it. The object names it in errors.
func buildAndDeliver(ctx context.Context, spec *image.Spec, object string, delivery Delivery, registry Registry, progress report.Progress) (string, error) {
	built, err := image.Build(*spec)
	if err != nil {
		return "", &report.Error{Object: object, Err: err}
	}
	return delivery.deliver(ctx, registry, progress, built)
}
