// Package fbc reads, validates and writes file-based catalogs. It walks a file system of JSON and
// YAML files, yields their blobs one by one, and decodes the schemas that OLM defines. An Index
// records the position of each blob. Catalogs are written in a stable order.
//
// The package only reads an fs.FS or an io.Reader, has no other side effects, and holds only a
// few blobs at a time. Package internal/catalog stores and serves catalogs; internal/resolve
// selects bundles from them.
package fbc

import "encoding/json"

// Schemas that OLM defines. Blobs of other schemas are kept unchanged.
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

// Meta is one blob of a catalog with the fields that all schemas share.
type Meta struct {
	// Schema is the schema of the blob. It is never empty.
	Schema string
	// Package is the package that the blob belongs to. It is empty for an olm.package blob, whose
	// package is its Name.
	Package string
	// Name is the name of the blob, unique within its schema and package. It may be empty.
	Name string
	// Blob is the whole blob as JSON in the canonical form of jsontext.Compact, without a
	// newline.
	Blob json.RawMessage
	// At is the position at which the blob was read.
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

// Icon is the icon of a package.
type Icon struct {
	// Data is the image. It is base64 in the blob.
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

// ChannelEntry adds a bundle to a channel.
type ChannelEntry struct {
	// Name is the name of the bundle.
	Name string `json:"name"`
	// Replaces is the name of the bundle that this one updates. It need not exist in the channel
	// or the catalog.
	Replaces string `json:"replaces,omitempty"`
	// Skips are the names of further bundles that this one updates.
	Skips []string `json:"skips,omitempty"`
	// SkipRange is a version range in the syntax of github.com/blang/semver. Every bundle whose
	// version is in the range can be updated to this one.
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

// Deprecations is an olm.deprecations blob: the deprecated parts of a package.
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

// DeprecationReference refers to the deprecated object. Name is empty for olm.package.
type DeprecationReference struct {
	Schema string `json:"schema"`
	Name   string `json:"name,omitempty"`
}

// PackageProperty is the value of an olm.package property: the package and version of a bundle.
type PackageProperty struct {
	PackageName string `json:"packageName"`
	Version     string `json:"version"`
	Release     string `json:"release,omitempty"`
}

// Content has all blobs of one package.
type Content struct {
	// Package is nil if the catalog has no olm.package blob of this name.
	Package      *Package
	Channels     []Channel
	Bundles      []Bundle
	Deprecations *Deprecations
}
