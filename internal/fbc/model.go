package fbc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Model is a catalog as the rules see it: its packages, their channels and the bundles in
// them. It has of a bundle what is asked for of many bundles, and says where the rest is.
type Model struct {
	// Packages by name.
	Packages []*ModelPackage
}

// ModelPackage is a package with all that the catalog says of it.
type ModelPackage struct {
	Name           string
	DefaultChannel string
	// Channels by name.
	Channels []*ModelChannel
	// Bundles by version and release, lowest first, and by name where these are equal.
	Bundles []*ModelBundle
	// Deprecation says why the package is deprecated; empty when it is not.
	Deprecation string
	// At is where the olm.package blob stands.
	At Place
}

// ModelChannel is a channel of a package.
type ModelChannel struct {
	Name string
	// Entries in the order in which they stand in the blob.
	Entries []ModelEntry
	// Head is the entry that no other replaces or skips; nil when there is not exactly
	// one, which a valid channel has.
	Head *ModelEntry
	// Deprecation says why the channel is deprecated; empty when it is not.
	Deprecation string
	// At is where the olm.channel blob stands.
	At Place
}

// ModelEntry is a bundle's place in a channel.
type ModelEntry struct {
	ChannelEntry
	// Bundle of the name. It is nil when the catalog has none, which a valid one has.
	Bundle *ModelBundle
}

// ModelBundle is a bundle of a package.
type ModelBundle struct {
	Name string
	// Image is the reference of the bundle's image. It may be empty.
	Image string
	// Version and Release as the olm.package property has them. They are zero when they
	// could not be read.
	Version semver.Version
	Release Release
	// Provides and Requires are the kinds of the olm.gvk and olm.gvk.required properties,
	// RequiresPackages those of olm.package.required, in their order.
	Provides, Requires []GVK
	RequiresPackages   []PackageRequired
	// DisplayName is for people: that of the ClusterServiceVersion among the bundle's
	// objects or else of its olm.csv.metadata. HasCSV says that there is the first.
	DisplayName string
	HasCSV      bool
	// InstallModes that the olm.csv.metadata lists as supported, in its order.
	InstallModes []string
	// Deprecation says why the bundle is deprecated; empty when it is not.
	Deprecation string
	// At is where the olm.bundle blob stands.
	At Place
}

// GVK is the value of an olm.gvk or olm.gvk.required property: a kind of an API.
type GVK struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

// PackageRequired is the value of an olm.package.required property: a package that must
// be there for the bundle to be installed, in a version of a range.
type PackageRequired struct {
	PackageName string `json:"packageName"`
	// VersionRange in the syntax of github.com/blang/semver.
	VersionRange string `json:"versionRange"`
}

// Package returns the package of a name, or nil.
func (m *Model) Package(name string) *ModelPackage {
	i, ok := slices.BinarySearchFunc(m.Packages, name, func(p *ModelPackage, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil
	}
	return m.Packages[i]
}

// Channel returns the channel of a name, or nil.
func (p *ModelPackage) Channel(name string) *ModelChannel {
	i, ok := slices.BinarySearchFunc(p.Channels, name, func(c *ModelChannel, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return nil
	}
	return p.Channels[i]
}

// Bundle returns the bundle of a name, or nil.
func (p *ModelPackage) Bundle(name string) *ModelBundle {
	i := slices.IndexFunc(p.Bundles, func(b *ModelBundle) bool { return b.Name == name })
	if i < 0 {
		return nil
	}
	return p.Bundles[i]
}

// Entry returns the entry of a name, or nil.
func (c *ModelChannel) Entry(name string) *ModelEntry {
	i := slices.IndexFunc(c.Entries, func(e ModelEntry) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Entries[i]
}

// VersionRelease is what the bundles of a package are ordered by.
func (b *ModelBundle) VersionRelease() VersionRelease {
	return VersionRelease{Version: b.Version, Release: b.Release}
}

// normalizedName is the name that a bundle with a release must have.
func (b *ModelBundle) normalizedName(pkg string) string {
	return fmt.Sprintf("%s-v%s-%s", pkg, b.Version, b.Release)
}
