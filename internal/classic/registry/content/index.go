package content

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Package is what the index knows of a package.
type Package struct {
	Name           string
	DefaultChannel string
	// Deprecation is the message of its deprecation, empty when it is not deprecated.
	Deprecation string
	// Channels are sorted by name.
	Channels []Channel

	// blob is the olm.package blob.
	blob span
	// first and end bound the indexes of its bundles.
	first, end uint32
}

// Channel is what the index knows of a channel.
type Channel struct {
	Name string
	// Deprecation is the message of its deprecation, empty when it is not deprecated.
	Deprecation string
	// Entries are sorted by name.
	Entries []Entry

	// head is the index of the entry that no other replaces or skips, -1 when there is
	// none.
	head int
}

// Head is the entry that no other of the channel replaces or skips. It is nil when there
// is none, which only a catalog that was not validated can have.
func (c *Channel) Head() *Entry {
	if c.head < 0 {
		return nil
	}
	return &c.Entries[c.head]
}

// Entry finds an entry by the name of its bundle, nil when there is none.
func (c *Channel) Entry(name string) *Entry {
	i, found := slices.BinarySearchFunc(c.Entries, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
	if !found {
		return nil
	}
	return &c.Entries[i]
}

// Entry places a bundle in a channel.
type Entry struct {
	// Name of the bundle.
	Name      string
	Replaces  string
	Skips     []string
	SkipRange string

	// bundle is the index of the bundle.
	bundle uint32
}

// Updates reports whether the entry is an update of a bundle by its name: whether it
// replaces or skips it. The range of versions that it skips does not count.
func (e *Entry) Updates(name string) bool {
	return e.Replaces == name || slices.Contains(e.Skips, name)
}

// Place is an entry and where it stands.
type Place struct {
	Package *Package
	Channel *Channel
	Entry   *Entry
}

// index is what is held in memory of a catalog.
type index struct {
	// packages are sorted by name.
	packages []Package
	// bundles of a package stand together, sorted by name, in the order of packages.
	bundles []bundle
	// apis are sorted by GVK.
	apis []api
	// customs are sorted by schema and package, and then in the order of the catalog.
	customs []custom
}

// span is a part of the content file.
type span struct {
	offset uint64
	length uint32
}

// bundle is what the index knows of a bundle.
type bundle struct {
	// deprecation is the message of its deprecation.
	deprecation string
	// blob is the olm.bundle blob.
	blob span
	// summary is the part of the protocol's message that is the same in all channels.
	summary span
	// image says that the bundle has an image, so that lists leave its manifests out.
	image bool
}

// api is an API and the bundles that provide it, sorted.
type api struct {
	gvk     fbc.GVK
	bundles []uint32
}

func compareGVKs(a, b fbc.GVK) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Version, b.Version))
}

// custom is a blob of a schema that OLM does not define.
type custom struct {
	schema, pkg string
	blob        span
}

func (c custom) compare(other custom) int {
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

// Package finds a package, nil when there is none of the name.
func (ix *index) Package(name string) *Package {
	i, found := slices.BinarySearchFunc(ix.packages, name, func(p Package, name string) int { return strings.Compare(p.Name, name) })
	if !found {
		return nil
	}
	return &ix.packages[i]
}

// Channel finds a channel of a package, nil when there is none of the name.
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
				if !p.Channels[c].places(p, yield) {
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
			if !r.channel.places(r.pkg, yield) {
				return
			}
		}
	}
}

func (c *Channel) places(p *Package, yield func(Place) bool) bool {
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
		i, found := slices.BinarySearchFunc(ix.apis, gvk, func(a api, gvk fbc.GVK) int { return compareGVKs(a.gvk, gvk) })
		if !found {
			return
		}
		providers := ix.apis[i].bundles
		for place := range ix.placesOf(providers) {
			if _, provides := slices.BinarySearch(providers, place.Entry.bundle); provides && !yield(place) {
				return
			}
		}
	}
}

// placesOf yields every entry of the packages that have one of the bundles, which are
// sorted.
func (ix *index) placesOf(bundles []uint32) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for len(bundles) > 0 {
			p := ix.packageOf(bundles[0])
			for c := range p.Channels {
				if !p.Channels[c].places(p, yield) {
					return
				}
			}
			for len(bundles) > 0 && bundles[0] < p.end {
				bundles = bundles[1:]
			}
		}
	}
}

// packageOf finds the package of a bundle.
func (ix *index) packageOf(bundle uint32) *Package {
	i, _ := slices.BinarySearchFunc(ix.packages, bundle, func(p Package, bundle uint32) int {
		if p.end <= bundle {
			return -1
		}
		return 1
	})
	return &ix.packages[i]
}

// customsOf are the blobs of a schema that OLM does not define and a package, in the
// order of the catalog.
func (ix *index) customsOf(schema, pkg string) []custom {
	wanted := custom{schema: schema, pkg: pkg}
	start, _ := slices.BinarySearchFunc(ix.customs, wanted, custom.compare)
	end := start
	for end < len(ix.customs) && ix.customs[end].compare(wanted) == 0 {
		end++
	}
	return ix.customs[start:end]
}
