package extension

import (
	"context"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// bundles opens bundle images by way of a cache on disk.
type bundles struct {
	images func(context.Context) (*image.Client, error)
	cache  *image.Cache
}

// Open returns the content of a bundle image, pulling it if need be. The files are read into
// memory before Keep can remove them: whoever asked for them may use them much later.
func (b *bundles) Open(ctx context.Context, ref string) (*install.BundleImage, error) {
	images, err := b.images(ctx)
	if err != nil {
		return nil, err
	}

	canonical, err := images.Resolve(ctx, ref)
	if err != nil {
		return nil, classify(err)
	}

	opened := &install.BundleImage{Canonical: canonical}
	err = b.cache.Use(ctx, images, canonical, "/", func(entry *image.CacheEntry) (err error) {
		opened.Labels = entry.Labels
		opened.Files, err = bundle.ReadFiles(entry.FS())
		return err
	})
	if err != nil {
		return nil, classify(err)
	}

	return opened, nil
}

// Keep drops the images that are not in use.
func (b *bundles) Keep(_ context.Context, inUse []string) error {
	return b.cache.Keep(inUse...)
}

// classify says what happens after an image could not be had: a bad image stays bad,
// all else may mend.
func classify(err error) error {
	if image.IsTerminal(err) {
		return reconcile.Stop(olmv1.ReasonBlocked, err)
	}
	return reconcile.Retry(olmv1.ReasonRetrying, err)
}
