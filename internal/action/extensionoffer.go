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

// OfferedPackages are the offers of all catalogs.
type OfferedPackages struct {
	// Catalogs are sorted by name.
	Catalogs []OfferedPackage `json:"catalogs"`
	// Versions are those of all channels of all catalogs, the newest first.
	Versions []string `json:"versions"`
}

// Run returns the package in each served catalog that has it.
func (a *ExtensionOffer) Run(ctx context.Context) (*OfferedPackages, error) {
	reader := &catalogContentReader{Client: a.Client, Cluster: a.Cluster, SystemNamespace: a.SystemNamespace}
	filter := &olmv1.CatalogFilter{PackageName: a.Package}
	contents, err := reader.readSelectedCatalogs(ctx, filter)
	if err != nil {
		return nil, err
	}

	offers := &OfferedPackages{Catalogs: []OfferedPackage{}}
	var versions []fbc.VersionRelease
	for _, catalog := range contents.catalogs {
		if catalog.Content.Package != nil {
			offer, inChannels := newOfferedPackage(&catalog)
			offers.Catalogs = append(offers.Catalogs, offer)
			versions = append(versions, inChannels...)
		}
	}

	offers.Versions = newestFirst(versions)
	if len(offers.Catalogs) == 0 {
		return nil, &report.Error{
			Object: fmt.Sprintf("package %q", a.Package), Err: errors.New("no served catalog contains it"), Advice: suggestCorrection(filter, contents),
		}
	}
	return offers, nil
}

// newOfferedPackage returns a package of a catalog, and the versions of all its channels.
func newOfferedPackage(catalog *resolve.Catalog) (OfferedPackage, []fbc.VersionRelease) {
	content := catalog.Content
	versions := map[string]fbc.VersionRelease{}
	for i := range content.Bundles {
		if version, err := content.Bundles[i].VersionRelease(); err == nil {
			versions[content.Bundles[i].Name] = version
		}
	}

	offer := OfferedPackage{Catalog: catalog.Name, Priority: catalog.Priority, DefaultChannel: content.Package.DefaultChannel}
	var all []fbc.VersionRelease
	for i := range content.Channels {
		inChannel := versionsOfChannel(&content.Channels[i], versions)
		offer.Channels = append(offer.Channels, OfferedChannel{Name: content.Channels[i].Name, Versions: newestFirst(inChannel)})
		all = append(all, inChannel...)
	}
	return offer, all
}

// versionsOfChannel returns the versions of the entries of a channel.
func versionsOfChannel(channel *fbc.Channel, versions map[string]fbc.VersionRelease) []fbc.VersionRelease {
	var found []fbc.VersionRelease
	for _, entry := range channel.Entries {
		if version, ok := versions[entry.Name]; ok {
			found = append(found, version)
		}
	}

	return found
}

// newestFirst returns versions without their releases, the newest first, each once.
func newestFirst(versions []fbc.VersionRelease) []string {
	sorted := slices.SortedFunc(slices.Values(versions), func(a, b fbc.VersionRelease) int { return b.Compare(a) })
	texts := []string{}
	for _, version := range sorted {
		texts = append(texts, version.Version.String())
	}
	return slices.Compact(texts)
}
