package content

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Package is the index entry of a package.
type Package struct {
	Name           string
	DefaultChannel string
	// Deprecation is the deprecation message, or "" if the package is not deprecated.
	Deprecation string
	// Channels are sorted by name.
	Channels []Channel

	// blob is the olm.package blob.
	blob span
	// firstBundle and endBundle bound the indexes of its bundles.
	firstBundle, endBundle uint32
}

// Channel is the index entry of a channel.
type Channel struct {
	Name string
	// Deprecation is the deprecation message, or "" if the channel is not deprecated.
	Deprecation string
	// Entries are sorted by name.
	Entries []Entry

	// head is the index of the entry that no other entry replaces or skips, or -1.
	head int
}

// Head returns the entry that no other entry of the channel replaces or skips. It returns nil
// if there is none, which is possible only in a catalog that was not validated.
func (c *Channel) Head() *Entry {
	if c.head < 0 {
		return nil
	}
	return &c.Entries[c.head]
}

// Entry returns the entry of a bundle by its name, or nil.
func (c *Channel) Entry(name string) *Entry {
	i, found := slices.BinarySearchFunc(c.Entries, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
	if !found {
		return nil
	}
	return &c.Entries[i]
}

// Entry is a bundle's entry in a channel.
type Entry struct {
	// Name is the name of the bundle.
	Name      string
	Replaces  string
	Skips     []string
	SkipRange string

	// bundle is the index of the bundle.
	bundle uint32
}

// Updates reports whether the entry replaces or skips the named bundle. It does not consider
// the skip range.
func (e *Entry) Updates(name string) bool {
	return e.Replaces == name || slices.Contains(e.Skips, name)
}

// Place is an entry with its channel and package.
type Place struct {
	Package *Package
	Channel *Channel
	Entry   *Entry
}

// index is the part of a catalog that is held in memory.
type index struct {
	// packages are sorted by name.
	packages []Package
	// bundles are sorted by package and name.
	bundles []bundle
	// providedAPIs are sorted by GVK.
	providedAPIs []apiProviders
	// customBlobs are sorted by schema and package, and then in the order of the catalog.
	customBlobs []customBlob
}

// span is a part of the content file.
type span struct {
	offset uint64
	length uint32
}

// bundle is the index entry of a bundle.
type bundle struct {
	// deprecation is the deprecation message, or "".
	deprecation string
	// blob is the olm.bundle blob.
	blob span
	// summary is the part of the protocol message that is the same in all channels.
	summary span
	// hasImage reports whether the bundle has an image. Lists leave its manifests out.
	hasImage bool
}

// apiProviders is an API with the sorted indexes of the bundles that provide it.
type apiProviders struct {
	gvk     fbc.GVK
	bundles []uint32
}

func compareGVKs(a, b fbc.GVK) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Version, b.Version))
}

// customBlob is a blob of a schema that OLM does not define.
type customBlob struct {
	schema, pkg string
	blob        span
}

func (c customBlob) compare(other customBlob) int {
	return cmp.Or(strings.Compare(c.schema, other.schema), strings.Compare(c.pkg, other.pkg))
}

// Packages yields the packages, sorted by name.
func (ix *index) Packages() iter.Seq[*Package] {
	return func(yield func(*Package) bool) {
		for i := range ix.packages {
			if !yield(&ix.packages[i]) {
				return
			}
		}
	}
}

// Package returns a package by its name, or nil.
func (ix *index) Package(name string) *Package {
	i, found := slices.BinarySearchFunc(ix.packages, name, func(p Package, name string) int { return strings.Compare(p.Name, name) })
	if !found {
		return nil
	}
	return &ix.packages[i]
}

// Channel returns a channel of the package by its name, or nil.
func (p *Package) Channel(name string) *Channel {
	i, found := slices.BinarySearchFunc(p.Channels, name, func(c Channel, name string) int { return strings.Compare(c.Name, name) })
	if !found {
		return nil
	}
	return &p.Channels[i]
}

// Places yields every entry of every channel, sorted by package, channel and bundle.
func (ix *index) Places() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for p := range ix.Packages() {
			for c := range p.Channels {
				if !p.Channels[c].yieldPlaces(p, yield) {
					return
				}
			}
		}
	}
}

// PlacesByChannel yields every entry of every channel, sorted by channel, package and
// bundle.
func (ix *index) PlacesByChannel() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		type ref struct {
			pkg     *Package
			channel *Channel
		}
		var channels []ref
		for p := range ix.Packages() {
			for c := range p.Channels {
				channels = append(channels, ref{p, &p.Channels[c]})
			}
		}

		slices.SortStableFunc(channels, func(a, b ref) int { return strings.Compare(a.channel.Name, b.channel.Name) })
		for _, r := range channels {
			if !r.channel.yieldPlaces(r.pkg, yield) {
				return
			}
		}
	}
}

// yieldPlaces yields every entry of the channel. It reports whether the iteration continues.
func (c *Channel) yieldPlaces(p *Package, yield func(Place) bool) bool {
	for e := range c.Entries {
		if !yield(Place{p, c, &c.Entries[e]}) {
			return false
		}
	}
	return true
}

// Providers yields every entry whose bundle provides an API, sorted by package, channel
// and bundle.
func (ix *index) Providers(gvk fbc.GVK) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		i, found := slices.BinarySearchFunc(ix.providedAPIs, gvk, func(a apiProviders, gvk fbc.GVK) int { return compareGVKs(a.gvk, gvk) })
		if !found {
			return
		}
		providers := ix.providedAPIs[i].bundles
		for place := range ix.placesOfBundles(providers) {
			if _, provides := slices.BinarySearch(providers, place.Entry.bundle); provides && !yield(place) {
				return
			}
		}
	}
}

// placesOfBundles yields every entry of the packages that contain one of the bundles. The
// bundles must be sorted.
func (ix *index) placesOfBundles(bundles []uint32) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for len(bundles) > 0 {
			p := ix.packageOfBundle(bundles[0])
			for c := range p.Channels {
				if !p.Channels[c].yieldPlaces(p, yield) {
					return
				}
			}
			for len(bundles) > 0 && bundles[0] < p.endBundle {
				bundles = bundles[1:]
			}
		}
	}
}

// packageOfBundle returns the package that contains a bundle.
func (ix *index) packageOfBundle(bundle uint32) *Package {
	i, _ := slices.BinarySearchFunc(ix.packages, bundle, func(p Package, bundle uint32) int {
		if p.endBundle <= bundle {
			return -1
		}
		return 1
	})
	return &ix.packages[i]
}

// findCustomBlobs returns the blobs of a custom schema and a package, in the order of the
// catalog.
func (ix *index) findCustomBlobs(schema, pkg string) []customBlob {
	wanted := customBlob{schema: schema, pkg: pkg}
	start, _ := slices.BinarySearchFunc(ix.customBlobs, wanted, customBlob.compare)
	end := start
	for end < len(ix.customBlobs) && ix.customBlobs[end].compare(wanted) == 0 {
		end++
	}
	return ix.customBlobs[start:end]
}
