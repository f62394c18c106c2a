package extension

import (
	"context"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// bundleOpener opens bundle images, with a cache on disk. It implements install.BundleOpener.
type bundleOpener struct {
	images func(context.Context) (*image.Client, error)
	cache  *image.Cache
}

// Open returns the content of a bundle image. It pulls the image if it is not cached. The files
// are read into memory, because Keep may delete them before the caller uses them.
func (b *bundleOpener) Open(ctx context.Context, ref string) (*install.BundleImage, error) {
	images, err := b.images(ctx)
	if err != nil {
		return nil, err
	}

	canonical, err := images.Resolve(ctx, ref)
	if err != nil {
		return nil, classifyPullError(err)
	}

	opened := &install.BundleImage{Canonical: canonical}
	err = b.cache.Use(ctx, images, canonical, "/", func(entry *image.CacheEntry) (err error) {
		opened.Labels = entry.Labels
		opened.Files, err = bundle.ReadFiles(entry.FS())
		return err
	})
	if err != nil {
		return nil, classifyPullError(err)
	}

	return opened, nil
}

// Keep deletes the cached images that are not in use.
func (b *bundleOpener) Keep(_ context.Context, inUse []string) error {
	return b.cache.RemoveExcept(inUse...)
}

// classifyPullError determines what happens after a failed pull. Terminal errors stop the
// reconciliation, other errors are retried.
func classifyPullError(err error) error {
	if image.IsTerminal(err) {
		return reconcile.Stop(olmv1.ReasonBlocked, err)
	}
	return reconcile.Retry(olmv1.ReasonRetrying, err)
}
