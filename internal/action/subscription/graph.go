package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Graph lists the versions of a package by channel.
type Graph struct {
	Client client.Client
	// Namespace is the namespace whose catalogs are searched.
	Namespace string
	// Name is the name of a Subscription or of a package.
	Name string
	// Catalog is the catalog, as NAME or NAMESPACE/NAME. Empty means that of the Subscription, or the
	// only one with the package.
	Catalog string
}

// Versions are the versions of a package.
type Versions struct {
	Package string `json:"package"`
	// Catalog is the catalog, as NAMESPACE/NAME.
	Catalog string `json:"catalog"`
	// Installed is the installed ClusterServiceVersion. It is empty without a Subscription.
	Installed string            `json:"installed,omitempty"`
	Channels  []ChannelVersions `json:"channels"`
}

// ChannelVersions are the versions of a channel.
type ChannelVersions struct {
	Name string `json:"name"`
	// Default is true for the default channel of the package.
	Default bool `json:"default,omitempty"`
	// Subscribed is true for the channel of the Subscription.
	Subscribed bool `json:"subscribed,omitempty"`
	// Deprecated is the message of a deprecated channel.
	Deprecated string `json:"deprecated,omitempty"`
	// Versions are the entries of the channel, the newest first.
	Versions []Version `json:"versions"`
}

// Version is an entry of a channel.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Head is true for the entry that new Subscriptions install.
	Head bool `json:"head,omitempty"`
	// Installed is true for the installed entry.
	Installed bool `json:"installed,omitempty"`
	// Deprecated is the message of a deprecated entry.
	Deprecated string `json:"deprecated,omitempty"`
	// NeedsManual states why a new Subscription that starts with the entry needs approval Manual. It is
	// empty for the head, and where no installation is offered.
	NeedsManual string `json:"needsManual,omitempty"`
}

// Run returns the versions.
func (a *Graph) Run(ctx context.Context) (*Versions, error) {
	lookup := packageLookup{client: a.Client, namespace: a.Namespace, name: a.Name, catalog: a.Catalog}
	v := &Versions{}
	channel := ""
	sub, err := getSubscription(ctx, a.Client, a.Namespace, a.Name)
	if err == nil {
		lookup.name, v.Installed, channel = sub.Spec.Package, sub.Status.InstalledCSV, sub.Spec.Channel
		lookup.catalog = cmp.Or(a.Catalog, sub.Spec.CatalogSourceNamespace+"/"+sub.Spec.CatalogSource)
	}

	pkg, err := lookup.findPackage(ctx)
	if err != nil {
		var failure *report.Error
		if sub == nil && errors.As(err, &failure) && strings.HasPrefix(failure.Object, "package") {
			failure.Object = fmt.Sprintf("%q is neither a Subscription of namespace %s nor a package", a.Name, a.Namespace)
		}
		return nil, err
	}

	fillVersions(v, pkg, channel)
	return v, nil
}

// fillVersions sets the channels from a package.
func fillVersions(v *Versions, p *packagesv1.PackageManifest, subscribed string) {
	v.Package, v.Catalog = p.Name, p.Status.CatalogSourceNamespace+"/"+p.Status.CatalogSource
	for _, c := range p.Status.Channels {
		channel := ChannelVersions{Name: c.Name, Default: c.Name == p.Status.DefaultChannel, Subscribed: subscribed != "" && c.Name == subscribed}
		if c.Deprecation != nil {
			channel.Deprecated = c.Deprecation.Message
		}
		for _, e := range c.Entries {
			entry := Version{Name: e.Name, Version: e.Version, Head: e.Name == c.CurrentCSV, Installed: v.Installed != "" && e.Name == v.Installed}
			if e.Deprecation != nil {
				entry.Deprecated = e.Deprecation.Message
			}
			channel.Versions = append(channel.Versions, entry)
		}
		v.Channels = append(v.Channels, channel)
	}
}

// Names returns the names of the Subscriptions of a namespace, for completion.
func Names(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	summaries, err := (&List{Client: c, Namespace: namespace}).Run(ctx)
	if err != nil {
		return nil, action.NewServerError("subscriptions", err)
	}
	var names []string
	for _, s := range summaries {
		names = append(names, s.Subscription.Name)
	}
	return names, nil
}
