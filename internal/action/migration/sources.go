package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Catalogs finds bundles in the ClusterCatalogs of a cluster.
type Catalogs interface {
	// Offers returns the served ClusterCatalogs that contain a bundle, the one with the highest
	// priority first.
	Offers(ctx context.Context, packageName, bundleName string) ([]plan.Offer, error)
}

// Bundles opens bundle images.
type Bundles interface {
	// Open returns the bundle of an image.
	Open(ctx context.Context, image string) (*bundle.Bundle, error)
}

// ServedCatalogs implements Catalogs. It reads through the API server.
type ServedCatalogs struct {
	// Config is the configuration of the cluster.
	Config *rest.Config
	// SystemNamespace is the namespace of catalogd. Empty means olmv1-system.
	SystemNamespace string
}

// Offers implements Catalogs.
func (c *ServedCatalogs) Offers(ctx context.Context, packageName, bundleName string) ([]plan.Offer, error) {
	reader := &clustercatalog.Reader{Config: c.Config, SystemNamespace: c.SystemNamespace}
	served, err := reader.List(ctx)
	if err != nil {
		return nil, err
	}

	var offers []plan.Offer
	for _, catalog := range served {
		content, err := fbc.LoadContent(packageName, reader.Metas(ctx, catalog.Name))
		if err != nil {
			return nil, fmt.Errorf("reading package %q from ClusterCatalog %q: %w", packageName, catalog.Name, err)
		}
		if offer, ok := FindOffer(content, bundleName); ok {
			offer.Catalog, offer.Priority = catalog.Name, catalog.Priority
			offers = append(offers, offer)
		}
	}

	slices.SortStableFunc(offers, func(a, b plan.Offer) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Catalog, b.Catalog))
	})

	return offers, nil
}

// FindOffer returns the offer of a bundle in the content of a catalog, without the name and the
// priority of the catalog. It returns false if the content has no such bundle.
func FindOffer(content *fbc.Content, bundleName string) (plan.Offer, bool) {
	at := slices.IndexFunc(content.Bundles, func(b fbc.Bundle) bool { return b.Name == bundleName })
	if at < 0 {
		return plan.Offer{}, false
	}

	offer := plan.Offer{Image: content.Bundles[at].Image}
	if content.Package != nil {
		offer.DefaultChannel = content.Package.DefaultChannel
	}
	for _, channel := range content.Channels {
		if slices.ContainsFunc(channel.Entries, func(e fbc.ChannelEntry) bool { return e.Name == bundleName }) {
			offer.Channels = append(offer.Channels, channel.Name)
		}
	}

	return offer, true
}

// BundleImages implements Bundles. It pulls images to this machine.
type BundleImages struct {
	Registry catalogs.Registry
	Progress report.Progress
}

// Open implements Bundles.
func (b *BundleImages) Open(ctx context.Context, image string) (*bundle.Bundle, error) {
	open := catalogs.OpenBundle{Registry: b.Registry, Progress: b.Progress, Ref: image, IsImage: true}
	return open.Load(ctx)
}
