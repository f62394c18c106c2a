package action

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// ExtensionOffer reads what the ClusterCatalogs offer of a package.
type ExtensionOffer struct {
	Client client.Client
	// Cluster returns the configuration of the cluster, which is needed to read its catalogs.
	Cluster func() (*rest.Config, error)
	// SystemNamespace is the namespace of catalogd. Empty means DefaultSystemNamespace.
	SystemNamespace string
	// Package is the name of the package.
	Package string
}

// OfferedPackage is a package in a catalog.
type OfferedPackage struct {
	Catalog  string `json:"catalog"`
	Priority int32  `json:"priority"`
	// DefaultChannel is the channel that the author of the package recommends.
	DefaultChannel string           `json:"defaultChannel,omitempty"`
	Channels       []OfferedChannel `json:"channels"`
}

// OfferedChannel is a channel of a package.
type OfferedChannel struct {
	Name string `json:"name"`
	// Versions are those of the channel, the newest first.
	Versions []string `json:"versions"`
}

// Run returns the package in each served catalog that has it, sorted by catalog.
func (a *ExtensionOffer) Run(ctx context.Context) ([]OfferedPackage, error) {
	reader := &catalogContentReader{Client: a.Client, Cluster: a.Cluster, SystemNamespace: a.SystemNamespace}
	filter := &olmv1.CatalogFilter{PackageName: a.Package}
	contents, err := reader.readSelectedCatalogs(ctx, filter)
	if err != nil {
		return nil, err
	}

	offers := []OfferedPackage{}
	for _, catalog := range contents.catalogs {
		if catalog.Content.Package != nil {
			offers = append(offers, newOfferedPackage(&catalog))
		}
	}

	if len(offers) == 0 {
		return nil, &report.Error{
			Object: fmt.Sprintf("package %q", a.Package), Err: errors.New("no served catalog contains it"), Advice: suggestCorrection(filter, contents),
		}
	}
	return offers, nil
}

// newOfferedPackage returns a package of a catalog.
func newOfferedPackage(catalog *resolve.Catalog) OfferedPackage {
	content := catalog.Content
	versions := map[string]fbc.VersionRelease{}
	for i := range content.Bundles {
		if version, err := content.Bundles[i].VersionRelease(); err == nil {
			versions[content.Bundles[i].Name] = version
		}
	}

	offer := OfferedPackage{Catalog: catalog.Name, Priority: catalog.Priority, DefaultChannel: content.Package.DefaultChannel}
	for i := range content.Channels {
		offer.Channels = append(offer.Channels, newOfferedChannel(&content.Channels[i], versions))
	}
	return offer
}

func newOfferedChannel(channel *fbc.Channel, versions map[string]fbc.VersionRelease) OfferedChannel {
	var found []fbc.VersionRelease
	for _, entry := range channel.Entries {
		if version, ok := versions[entry.Name]; ok {
			found = append(found, version)
		}
	}

	slices.SortFunc(found, func(a, b fbc.VersionRelease) int { return b.Compare(a) })
	offered := OfferedChannel{Name: channel.Name, Versions: []string{}}
	for _, version := range found {
		offered.Versions = append(offered.Versions, version.Version.String())
	}
	offered.Versions = slices.Compact(offered.Versions)
	return offered
}
