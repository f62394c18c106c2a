// Package fbc reads, checks and writes file-based catalogs: it walks a file system of JSON
// and YAML files, yields their blobs one by one, decodes the schemas that OLM defines,
// remembers where each blob stands (Index), and writes catalogs in a stable order.
//
// It is pure: it reads an fs.FS or a reader and gives back values, and holds no more
// than a few blobs at a time. Storing and serving a catalog is internal/catalog's job,
// choosing from it internal/resolve's.
package fbc

import "encoding/json"

// Schemas that OLM defines. Blobs of other schemas are kept as they are.
const (
	SchemaPackage      = "olm.package"
	SchemaChannel      = "olm.channel"
	SchemaBundle       = "olm.bundle"
	SchemaDeprecations = "olm.deprecations"
)

// Types of bundle properties that OLM defines.
const (
	PropertyPackage         = "olm.package"
	PropertyPackageRequired = "olm.package.required"
	PropertyGVK             = "olm.gvk"
	PropertyGVKRequired     = "olm.gvk.required"
	PropertyConstraint      = "olm.constraint"
	PropertyCSVMetadata     = "olm.csv.metadata"
	PropertyBundleObject    = "olm.bundle.object"
)

// Meta is one blob of a catalog: what every schema has in common, and the blob.
type Meta struct {
	// Schema is the blob's schema. Never empty.
	Schema string
	// Package is the package that the blob belongs to. For an olm.package blob it is
	// empty: such a blob carries its name in Name.
	Package string
	// Name is the blob's name, unique within its schema and package. It may be empty.
	Name string
	// Blob is the whole blob as JSON in the canonical form of jsontext.Compact, on one
	// line, without a newline.
	Blob json.RawMessage
	// At is where the blob was read.
	At Place
}

// Package is an olm.package blob.
type Package struct {
	Schema         string     `json:"schema"`
	Name           string     `json:"name"`
	DefaultChannel string     `json:"defaultChannel"`
	Icon           *Icon      `json:"icon,omitempty"`
	Description    string     `json:"description,omitempty"`
	Properties     []Property `json:"properties,omitempty"`
}

// Icon is a package's picture.
type Icon struct {
	// Data is the picture itself; it stands as base64 in the blob.
	Data      []byte `json:"base64data"`
	MediaType string `json:"mediatype"`
}

// Channel is an olm.channel blob: a stream of bundles and the edges between them.
type Channel struct {
	Schema     string         `json:"schema"`
	Name       string         `json:"name"`
	Package    string         `json:"package"`
	Entries    []ChannelEntry `json:"entries"`
	Properties []Property     `json:"properties,omitempty"`
}

// ChannelEntry places a bundle in a channel.
type ChannelEntry struct {
	// Name of the bundle.
	Name string `json:"name"`
	// Replaces names the bundle that this one is an update of. It need not be in the
	// channel or the catalog.
	Replaces string `json:"replaces,omitempty"`
	// Skips names further bundles that this one is an update of.
	Skips []string `json:"skips,omitempty"`
	// SkipRange is a range of versions (github.com/blang/semver syntax); every bundle
	// whose version lies in it can be updated to this one.
	SkipRange string `json:"skipRange,omitempty"`
}

// Bundle is an olm.bundle blob: one version of a package.
type Bundle struct {
	Schema        string         `json:"schema"`
	Name          string         `json:"name,omitempty"`
	Package       string         `json:"package,omitempty"`
	Image         string         `json:"image"`
	Properties    []Property     `json:"properties,omitempty"`
	RelatedImages []RelatedImage `json:"relatedImages,omitempty"`
}

// Property is a typed statement about a package, channel or bundle.
type Property struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// RelatedImage is an image that a bundle needs at run time.
type RelatedImage struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// Deprecations is an olm.deprecations blob: what of a package is deprecated.
type Deprecations struct {
	Schema  string             `json:"schema"`
	Package string             `json:"package"`
	Entries []DeprecationEntry `json:"entries"`
}

// DeprecationEntry deprecates a package, a channel or a bundle.
type DeprecationEntry struct {
	Reference DeprecationReference `json:"reference"`
	Message   string               `json:"message"`
}

// DeprecationReference names what is deprecated: Name is empty for olm.package.
type DeprecationReference struct {
	Schema string `json:"schema"`
	Name   string `json:"name,omitempty"`
}

// PackageProperty is the value of an olm.package property: the bundle's place among
// the versions of its package.
type PackageProperty struct {
	PackageName string `json:"packageName"`
	Version     string `json:"version"`
	Release     string `json:"release,omitempty"`
}

// Content is all that a catalog says of one package.
type Content struct {
	// Package is nil when the catalog has no olm.package blob of the name.
	Package      *Package
	Channels     []Channel
	Bundles      []Bundle
	Deprecations *Deprecations
}
