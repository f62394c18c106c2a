package hub

import (
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// PackageSummary is what a list of packages shows of a package.
type PackageSummary struct {
	// Catalog is the name of the ClusterCatalog, or NAMESPACE:NAME of the CatalogSource. With Name it identifies the package.
	Catalog     string `json:"catalog"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	Provider    string `json:"provider,omitempty"`
	// Description is one short text without markup.
	Description string `json:"description,omitempty"`
	// Icon is the name of the icon's file: the digest of its content, with the extension of its type.
	Icon       string   `json:"icon,omitempty"`
	Categories []string `json:"categories,omitempty"`
	Keywords   []string `json:"keywords,omitempty"`
	// Kinds are the kinds that the package provides.
	Kinds []string `json:"kinds,omitempty"`
	// Capability is the capability level: Basic Install, Seamless Upgrades, Full Lifecycle, Deep Insights or Auto Pilot.
	Capability string `json:"capability,omitempty"`
	// Features are the infrastructure features.
	Features []string `json:"features,omitempty"`
	// ValidSubscriptions are the names of products that include the package.
	ValidSubscriptions []string `json:"validSubscriptions,omitempty"`
	InstallModes       []string `json:"installModes,omitempty"`
	Architectures      []string `json:"architectures,omitempty"`
	// Deprecated is the reason why the package is deprecated. It is empty if it is not.
	Deprecated     string `json:"deprecated,omitempty"`
	DefaultChannel string `json:"defaultChannel,omitempty"`
	// Version is the version at the head of the default channel.
	Version string `json:"version,omitempty"`
	// Refusal is why no version can be installed on this cluster. It is empty if one can, or if no cluster is known.
	Refusal string `json:"refusal,omitempty"`
	// OtherPlatform states that no node of this cluster has an architecture or operating system of the package. It is empty if
	// one has, or if the nodes are not known.
	OtherPlatform string `json:"otherPlatform,omitempty"`

	// minKubeVersions are the different minKubeVersions of the versions. An empty one means that a version has none.
	minKubeVersions []string
	// operatingSystems are those that the package supports.
	operatingSystems []string
	// tokenAuth are the clouds whose short-lived credentials the newest version supports.
	tokenAuth []string
}

// PackageDetails is all that is known about a package.
type PackageDetails struct {
	PackageSummary

	// Channels are sorted by name.
	Channels []ChannelSummary `json:"channels"`
	// Versions are sorted by version, the highest first.
	Versions []VersionSummary `json:"versions"`
	// Updates are the edges of the upgrade graph. It is empty if the catalog does not contain them.
	Updates []UpdateEdge `json:"updates,omitempty"`
	// OmittedUpdates is the number of further edges.
	OmittedUpdates int `json:"omittedUpdates,omitempty"`
	// Releases describe the versions at the heads of channels.
	Releases []ReleaseDetails `json:"releases"`
}

// ChannelSummary is a channel.
type ChannelSummary struct {
	Name string `json:"name"`
	// Head is the name of the newest version.
	Head       string `json:"head,omitempty"`
	Versions   int    `json:"versions"`
	Deprecated string `json:"deprecated,omitempty"`
}

// VersionSummary is a version of a package.
type VersionSummary struct {
	// Name is the name of the bundle.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Release string `json:"release,omitempty"`
	Image   string `json:"image,omitempty"`
	// Channels are the channels that contain the version.
	Channels []string `json:"channels,omitempty"`
	// Requires are the required kinds and packages.
	Requires       []string `json:"requires,omitempty"`
	InstallModes   []string `json:"installModes,omitempty"`
	MinKubeVersion string   `json:"minKubeVersion,omitempty"`
	Deprecated     string   `json:"deprecated,omitempty"`
}

// UpdateEdge is an update from one version to another.
type UpdateEdge struct {
	From     string            `json:"from"`
	To       string            `json:"to"`
	Kind     upgradegraph.Kind `json:"kind" enum:"replaces,skips,skipRange"`
	Channels []string          `json:"channels,omitempty"`
}

// ReleaseDetails describes a version for people, in the words of its author.
type ReleaseDetails struct {
	// Bundle is the name of the version.
	Bundle      string `json:"bundle"`
	DisplayName string `json:"displayName,omitempty"`
	// Description is Markdown. It is untrusted.
	Description string        `json:"description,omitempty"`
	Provider    PackageLink   `json:"provider"`
	Links       []PackageLink `json:"links,omitempty"`
	Maintainers []Maintainer  `json:"maintainers,omitempty"`
	Maturity    string        `json:"maturity,omitempty"`
	Capability  string        `json:"capability,omitempty"`
	Features    []string      `json:"features,omitempty"`
	// TokenAuth are the clouds whose short-lived credentials the version supports: aws, azure, gcp. Features has them only on
	// clusters that use them.
	TokenAuth []string `json:"tokenAuth,omitempty"`
	// Created is a time, or what the author wrote in its place.
	Created        string        `json:"created,omitempty"`
	Repository     string        `json:"repository,omitempty"`
	ContainerImage string        `json:"containerImage,omitempty"`
	Support        string        `json:"support,omitempty"`
	Provides       []ProvidedAPI `json:"provides,omitempty"`
	Requires       []ProvidedAPI `json:"requires,omitempty"`
	// Images are the images that it runs or refers to.
	Images []string `json:"images,omitempty"`
	// Examples are sample objects of the kinds that it provides.
	Examples []SampleObject `json:"examples,omitempty"`
	// SuggestedNamespace is the namespace that the author recommends.
	SuggestedNamespace string `json:"suggestedNamespace,omitempty"`
}

// PackageLink is a name with an address. The address is that of a web page or empty.
type PackageLink struct {
	Name string `json:"name,omitempty"`
	URL  string `json:"url,omitempty"`
}

// Maintainer maintains a package.
type Maintainer struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// ProvidedAPI is an API that a version provides or requires.
type ProvidedAPI struct {
	Group       string `json:"group"`
	Version     string `json:"version"`
	Kind        string `json:"kind"`
	DisplayName string `json:"displayName,omitempty"`
	Description string `json:"description,omitempty"`
}

// SampleObject is an object of a provided kind.
type SampleObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name,omitempty"`
	// YAML is the whole object.
	YAML string `json:"yaml"`
}
