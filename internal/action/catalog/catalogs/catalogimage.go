package catalogs

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// CatalogImage builds an image that serves a file-based catalog over gRPC, without a
// container engine. The image equals the one that the Dockerfile of a catalog describes.
type CatalogImage struct {
	Registry Registry
	Progress report.Progress

	// Dir is the folder of the catalog, which must be valid.
	Dir string
	// Base is the base image. Empty means that the image contains only Program and the
	// catalog; "scratch" means only the catalog.
	Base string
	// Program is the path of an opm binary.
	Program string
	// Labels are added to those of every catalog image.
	Labels map[string]string
	// Delivery is the destination of the image.
	Delivery Delivery
}

// Run validates the catalog, then builds and delivers the image. It returns the reference
// of a pushed image.
func (a *CatalogImage) Run(ctx context.Context) (string, error) {
	fsys, done, err := OpenFolder(a.Dir)
	if err != nil {
		return "", err
	}
	defer done()
	object := fmt.Sprintf("catalog %q", a.Dir)
	if err := ValidateCatalogContent(ctx, fsys, object); err != nil {
		return "", err
	}

	dir, err := os.MkdirTemp("", "mainstay-base-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the image has been delivered
	base, err := loadBaseContent(ctx, a.Registry, a.Base, a.Program, dir)
	if err != nil {
		return "", err
	}

	spec := image.CatalogSpec(fsys)
	maps.Copy(spec.Labels, a.Labels)
	base.addToSpec(&spec, "serve", spec.Labels[image.LabelConfigs])

	return buildAndDeliver(ctx, &spec, object, a.Delivery, a.Registry, a.Progress)
}

// buildAndDeliver builds an image and delivers it. Errors name the object.
func buildAndDeliver(ctx context.Context, spec *image.Spec, object string, delivery Delivery, registry Registry, progress report.Progress) (string, error) {
	built, err := image.Build(*spec)
	if err != nil {
		return "", &report.Error{Object: object, Err: err}
	}
	return delivery.deliverImage(ctx, registry, progress, built)
}
