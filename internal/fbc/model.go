package fbc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Model is the view of a catalog that validation works on: its packages, their channels and the
// bundles in them. It holds the parts of bundles that are needed for many bundles, and the
// position of the rest.
type Model struct {
	// Packages are sorted by name.
	Packages []*ModelPackage
	// Findings are at most 100 findings, in the order of the catalog.
	Findings []Finding
}

// ModelPackage is a package with everything that the catalog states about it.
type ModelPackage struct {
	Name           string
	DefaultChannel string
	// Channels are sorted by name.
	Channels []*ModelChannel
	// Bundles are sorted by version and release, lowest first, and then by name.
	Bundles []*ModelBundle
	// Deprecation is the message of the package's deprecation, empty if it is not deprecated.
	Deprecation string
	// At is the position of the olm.package blob.
	At Place
}

// ModelChannel is a channel of a package.
type ModelChannel struct {
	Name string
	// Entries are in the order of the blob.
	Entries []ModelEntry
	// Head is the entry that no other replaces or skips. It is nil if there is not exactly one; a
	// valid channel has one.
	Head *ModelEntry
	// Deprecation is the message of the channel's deprecation, empty if it is not deprecated.
	Deprecation string
	// At is the position of the olm.channel blob.
	At Place
}

// ModelEntry is the entry of a bundle in a channel.
type ModelEntry struct {
	ChannelEntry
	// Bundle is the bundle of this name. It is nil if the catalog has none; a valid catalog has
	// it.
	Bundle *ModelBundle
}

// ModelBundle is a bundle of a package.
type ModelBundle struct {
	Name string
	// Image is the reference of the bundle image. It may be empty.
	Image string
	// Version and Release are those of the olm.package property. They are zero if they are
	// invalid.
	Version semver.Version
	Release Release
	// Provides and Requires are the values of the olm.gvk and olm.gvk.required properties.
	// RequiresPackages are those of olm.package.required. All keep the order of the blob.
	Provides, Requires []GVK
	RequiresPackages   []PackageRequired
	// DisplayName is the display name of the ClusterServiceVersion among the bundle's objects, or
	// else of its olm.csv.metadata. HasCSV is set if the objects include a ClusterServiceVersion.
	DisplayName string
	HasCSV      bool
	// InstallModes are the supported install modes of the olm.csv.metadata property, in its
	// order.
	InstallModes []string
	// Deprecation is the message of the bundle's deprecation, empty if it is not deprecated.
	Deprecation string
	// At is the position of the olm.bundle blob.
	At Place
}

// GVK is the value of an olm.gvk or olm.gvk.required property: the group, version and kind of an
// API.
type GVK struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

// PackageRequired is the value of an olm.package.required property: a package that must be
// installed with the bundle, in a version of a range.
type PackageRequired struct {
	PackageName string `json:"packageName"`
	// VersionRange is a range in the syntax of github.com/blang/semver.
	VersionRange string `json:"versionRange"`
}

// Package returns the package with the given name, or nil.
func (m *Model) Package(name string) *ModelPackage {
	i, ok := slices.BinarySearchFunc(m.Packages, name, func(p *ModelPackage, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil
	}
	return m.Packages[i]
}

// Channel returns the channel with the given name, or nil.
func (p *ModelPackage) Channel(name string) *ModelChannel {
	i, ok := slices.BinarySearchFunc(p.Channels, name, func(c *ModelChannel, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return nil
	}
	return p.Channels[i]
}

// Bundle returns the bundle with the given name, or nil.
func (p *ModelPackage) Bundle(name string) *ModelBundle {
	i := slices.IndexFunc(p.Bundles, func(b *ModelBundle) bool { return b.Name == name })
	if i < 0 {
		return nil
	}
	return p.Bundles[i]
}

// Entry returns the entry with the given name, or nil.
func (c *ModelChannel) Entry(name string) *ModelEntry {
	i := slices.IndexFunc(c.Entries, func(e ModelEntry) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Entries[i]
}

// VersionRelease returns the version and release, by which the bundles of a package are ordered.
func (b *ModelBundle) VersionRelease() VersionRelease {
	return VersionRelease{Version: b.Version, Release: b.Release}
}

// normalizedName returns the name that a bundle with a release must have.
func (b *ModelBundle) normalizedName(pkg string) string {
	return fmt.Sprintf("%s-v%s-%s", pkg, b.Version, b.Release)
}
