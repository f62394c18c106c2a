package content

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// The index is encoded as
//
//	strings   count, then each as length and bytes
//	packages  count, then each: name, default channel, deprecation, blob, number of
//	          bundles, channels: count, then each: name, deprecation, head + 1,
//	          entries: count, then each: name, replaces, skip range,
//	          skips: count, then each; bundle, counted from the first of the package
//	bundles   count, then each: deprecation, blob, summary, 1 when it has an image
//	APIs      count, then each: group, kind, version,
//	          bundles: count, then each as the distance from the one before
//	customs   count, then each: schema, package, blob
//
// Numbers are uvarints. A name or message is the number of a string in the table. A span is its
// offset and its length.

// encoder encodes an index.
type encoder struct {
	body    []byte
	strings []byte
	ids     map[string]uint64
}

// encode returns the encoded form of an index.
func (ix *index) encode() []byte {
	e := &encoder{ids: map[string]uint64{}}
	e.appendCount(len(ix.packages))
	for i := range ix.packages {
		e.appendPackage(&ix.packages[i])
	}

	e.appendCount(len(ix.bundles))
	for _, b := range ix.bundles {
		e.appendStringReference(b.deprecation)
		e.appendSpan(b.blob)
		e.appendSpan(b.summary)
		if b.hasImage {
			e.appendUvarint(1)
		} else {
			e.appendUvarint(0)
		}
	}

	e.appendCount(len(ix.providedAPIs))
	for _, a := range ix.providedAPIs {
		e.appendStringReference(a.gvk.Group)
		e.appendStringReference(a.gvk.Kind)
		e.appendStringReference(a.gvk.Version)
		e.appendCount(len(a.bundles))
		var before uint32
		for _, b := range a.bundles {
			e.appendUvarint(uint64(b - before))
			before = b
		}
	}

	e.appendCount(len(ix.customBlobs))
	for _, c := range ix.customBlobs {
		e.appendStringReference(c.schema)
		e.appendStringReference(c.pkg)
		e.appendSpan(c.blob)
	}

	out := binary.AppendUvarint(make([]byte, 0, len(e.strings)+len(e.body)+binary.MaxVarintLen64), uint64(len(e.ids)))
	return append(append(out, e.strings...), e.body...)
}

func (e *encoder) appendPackage(p *Package) {
	e.appendStringReference(p.Name)
	e.appendStringReference(p.DefaultChannel)
	e.appendStringReference(p.Deprecation)
	e.appendSpan(p.blob)
	e.appendUvarint(uint64(p.endBundle - p.firstBundle))
	e.appendCount(len(p.Channels))
	for i := range p.Channels {
		c := &p.Channels[i]
		e.appendStringReference(c.Name)
		e.appendStringReference(c.Deprecation)
		e.appendCount(c.head + 1)
		e.appendCount(len(c.Entries))
		for _, entry := range c.Entries {
			e.appendStringReference(entry.Name)
			e.appendStringReference(entry.Replaces)
			e.appendStringReference(entry.SkipRange)
			e.appendCount(len(entry.Skips))
			for _, skip := range entry.Skips {
				e.appendStringReference(skip)
			}

			e.appendUvarint(uint64(entry.bundle - p.firstBundle))
		}
	}
}

func (e *encoder) appendUvarint(n uint64) { e.body = binary.AppendUvarint(e.body, n) }

func (e *encoder) appendCount(n int) {
	e.appendUvarint(uint64(n)) //nolint:gosec // The lengths of slices, and a head + 1, are not negative.
}

func (e *encoder) appendSpan(s span) {
	e.appendUvarint(s.offset)
	e.appendUvarint(uint64(s.length))
}

func (e *encoder) appendStringReference(text string) {
	id, ok := e.ids[text]
	if !ok {
		id = uint64(len(e.ids))
		e.ids[text] = id
		e.strings = append(binary.AppendUvarint(e.strings, uint64(len(text))), text...)
	}
	e.appendUvarint(id)
}

// errInvalidIndex is returned for an index that cannot be decoded.
var errInvalidIndex = errors.New("its index cannot be read")

// decoder decodes an index. After a failure its methods return zero values.
type decoder struct {
	rest    []byte
	strings []string
	// dataLength is the length of the data that spans refer to.
	dataLength uint64
	failed     bool
}

// decodeIndex decodes what index.encode returned. dataLength is the length of the blobs and
// summaries.
//
// The bytes have passed a checksum, so an invalid index was written by another program. The
// invariants that later code relies on are checked nevertheless: lists that are searched must
// be sorted, and references must be in range.
func decodeIndex(text []byte, dataLength uint64) (*index, error) {
	d := &decoder{rest: text, dataLength: dataLength}
	d.decodeStringTable()
	ix := &index{packages: make([]Package, d.decodeCount(8))}
	var bundles uint32
	for i := range ix.packages {
		p := &ix.packages[i]
		d.decodePackage(p, bundles)
		bundles = p.endBundle
		d.requireValid(i == 0 || ix.packages[i-1].Name < p.Name)
	}

	ix.bundles = make([]bundle, d.decodeCount(6))
	d.requireValid(len(ix.bundles) == int(bundles))
	for i := range ix.bundles {
		ix.bundles[i] = bundle{deprecation: d.decodeStringReference(), blob: d.decodeSpan(), summary: d.decodeSpan(), hasImage: d.decodeUvarint(1) == 1}
	}

	ix.providedAPIs = make([]apiProviders, d.decodeCount(4))
	for i := range ix.providedAPIs {
		d.decodeAPI(&ix.providedAPIs[i], bundles)
		d.requireValid(i == 0 || compareGVKs(ix.providedAPIs[i-1].gvk, ix.providedAPIs[i].gvk) < 0)
	}

	ix.customBlobs = make([]customBlob, d.decodeCount(4))
	for i := range ix.customBlobs {
		ix.customBlobs[i] = customBlob{schema: d.decodeStringReference(), pkg: d.decodeStringReference(), blob: d.decodeSpan()}
		d.requireValid(i == 0 || ix.customBlobs[i-1].compare(ix.customBlobs[i]) <= 0)
	}

	if d.failed || len(d.rest) > 0 {
		return nil, errInvalidIndex
	}

	return ix, nil
}

// decodeStringTable decodes the table of strings. All strings share the memory of one copy.
func (d *decoder) decodeStringTable() {
	n := d.decodeCount(1)
	all := string(d.rest)
	d.strings = make([]string, 0, n)
	for range n {
		length := d.decodeUvarint(uint64(len(d.rest)))
		if uint64(len(d.rest)) < length {
			d.failed = true
		}
		if d.failed {
			return
		}

		start := len(all) - len(d.rest)
		d.rest = d.rest[length:]
		d.strings = append(d.strings, all[start:len(all)-len(d.rest)])
	}
}

func (d *decoder) decodePackage(p *Package, first uint32) {
	p.Name, p.DefaultChannel, p.Deprecation, p.blob = d.decodeStringReference(), d.decodeStringReference(), d.decodeStringReference(), d.decodeSpan()
	p.firstBundle = first
	p.endBundle = first + uint32(d.decodeUvarint(uint64(math.MaxUint32-first))) //nolint:gosec // It is at most what is left up to the largest.
	p.Channels = make([]Channel, d.decodeCount(4))
	for i := range p.Channels {
		d.decodeChannel(&p.Channels[i], p)
		d.requireValid(i == 0 || p.Channels[i-1].Name < p.Channels[i].Name)
	}
}

func (d *decoder) decodeChannel(c *Channel, p *Package) {
	c.Name, c.Deprecation = d.decodeStringReference(), d.decodeStringReference()
	head := d.decodeUvarint(math.MaxInt32)
	c.Entries = make([]Entry, d.decodeCount(5))
	d.requireValid(head <= uint64(len(c.Entries)))
	c.head = int(head) - 1 //nolint:gosec // It is at most the largest int32.
	for i := range c.Entries {
		e := &c.Entries[i]
		e.Name, e.Replaces, e.SkipRange = d.decodeStringReference(), d.decodeStringReference(), d.decodeStringReference()
		if n := d.decodeCount(1); n > 0 {
			e.Skips = make([]string, n)
		}

		for s := range e.Skips {
			e.Skips[s] = d.decodeStringReference()
		}

		e.bundle = p.firstBundle + uint32(d.decodeUvarint(math.MaxUint32)) //nolint:gosec // It is at most the largest; too large a sum is refused below.
		d.requireValid(e.bundle >= p.firstBundle && e.bundle < p.endBundle)
		d.requireValid(i == 0 || c.Entries[i-1].Name < e.Name)
	}
}

func (d *decoder) decodeAPI(a *apiProviders, bundles uint32) {
	a.gvk = fbc.GVK{Group: d.decodeStringReference(), Kind: d.decodeStringReference(), Version: d.decodeStringReference()}
	a.bundles = make([]uint32, d.decodeCount(1))
	var before uint64
	for i := range a.bundles {
		distance := d.decodeUvarint(math.MaxUint32)
		before += distance
		d.requireValid(before < uint64(bundles) && (i == 0 || distance > 0))
		a.bundles[i] = uint32(before) //nolint:gosec // It is less than the number of bundles.
	}
}

// requireValid marks the index as invalid unless a condition holds.
func (d *decoder) requireValid(holds bool) {
	if !holds {
		d.failed = true
		d.rest = nil
	}
}

// decodeUvarint decodes a number that must not exceed a limit.
func (d *decoder) decodeUvarint(limit uint64) uint64 {
	n, size := binary.Uvarint(d.rest)
	if d.requireValid(size > 0 && n <= limit); d.failed {
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// decodeCount decodes the number of elements of a list. Each element takes at least
// bytesPerElement bytes, which bounds the number.
func (d *decoder) decodeCount(bytesPerElement int) int {
	return int(d.decodeUvarint(uint64(len(d.rest) / bytesPerElement))) //nolint:gosec // It is at most the length of a slice.
}

func (d *decoder) decodeStringReference() string {
	id := d.decodeUvarint(math.MaxUint32)
	if d.requireValid(id < uint64(len(d.strings))); d.failed {
		return ""
	}
	return d.strings[id]
}

func (d *decoder) decodeSpan() span {
	s := span{offset: d.decodeUvarint(d.dataLength), length: uint32(d.decodeUvarint(math.MaxUint32))} //nolint:gosec // It is at most the largest.
	d.requireValid(s.offset+uint64(s.length) <= d.dataLength)
	return s
}
