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
// where a number is a uvarint, a name or message is the number of a string, and a span is
// its offset and its length.

// encoder writes an index.
type encoder struct {
	body    []byte
	strings []byte
	ids     map[string]uint64
}

// encode returns the encoded form of an index.
func (ix *index) encode() []byte {
	e := &encoder{ids: map[string]uint64{}}
	e.count(len(ix.packages))
	for i := range ix.packages {
		e.pkg(&ix.packages[i])
	}

	e.count(len(ix.bundles))
	for _, b := range ix.bundles {
		e.string(b.deprecation)
		e.span(b.blob)
		e.span(b.summary)
		if b.image {
			e.number(1)
		} else {
			e.number(0)
		}
	}

	e.count(len(ix.apis))
	for _, a := range ix.apis {
		e.string(a.gvk.Group)
		e.string(a.gvk.Kind)
		e.string(a.gvk.Version)
		e.count(len(a.bundles))
		var before uint32
		for _, b := range a.bundles {
			e.number(uint64(b - before))
			before = b
		}
	}

	e.count(len(ix.customs))
	for _, c := range ix.customs {
		e.string(c.schema)
		e.string(c.pkg)
		e.span(c.blob)
	}

	out := binary.AppendUvarint(make([]byte, 0, len(e.strings)+len(e.body)+binary.MaxVarintLen64), uint64(len(e.ids)))
	return append(append(out, e.strings...), e.body...)
}

func (e *encoder) pkg(p *Package) {
	e.string(p.Name)
	e.string(p.DefaultChannel)
	e.string(p.Deprecation)
	e.span(p.blob)
	e.number(uint64(p.end - p.first))
	e.count(len(p.Channels))
	for i := range p.Channels {
		c := &p.Channels[i]
		e.string(c.Name)
		e.string(c.Deprecation)
		e.count(c.head + 1)
		e.count(len(c.Entries))
		for _, entry := range c.Entries {
			e.string(entry.Name)
			e.string(entry.Replaces)
			e.string(entry.SkipRange)
			e.count(len(entry.Skips))
			for _, skip := range entry.Skips {
				e.string(skip)
			}

			e.number(uint64(entry.bundle - p.first))
		}
	}
}

func (e *encoder) number(n uint64) { e.body = binary.AppendUvarint(e.body, n) }

func (e *encoder) count(n int) {
	e.number(uint64(n)) //nolint:gosec // The lengths of slices, and a head + 1, are not negative.
}

func (e *encoder) span(s span) {
	e.number(s.offset)
	e.number(uint64(s.length))
}

func (e *encoder) string(text string) {
	id, ok := e.ids[text]
	if !ok {
		id = uint64(len(e.ids))
		e.ids[text] = id
		e.strings = append(binary.AppendUvarint(e.strings, uint64(len(text))), text...)
	}
	e.number(id)
}

// errIndex says that an index cannot be read.
var errIndex = errors.New("its index cannot be read")

// decoder reads an index. After a failure it gives zero values.
type decoder struct {
	rest    []byte
	strings []string
	// data is the length of what spans are parts of.
	data   uint64
	failed bool
}

// decodeIndex reads what encode wrote. data is the length of the blobs and summaries.
//
// The bytes have passed a checksum, so that an error means that another program wrote
// them. All that later code relies on is checked all the same: the order of what is
// searched, and that what is named is there.
func decodeIndex(text []byte, data uint64) (*index, error) {
	d := &decoder{rest: text, data: data}
	d.readStrings()
	ix := &index{packages: make([]Package, d.count(8))}
	var bundles uint32
	for i := range ix.packages {
		p := &ix.packages[i]
		d.pkg(p, bundles)
		bundles = p.end
		d.require(i == 0 || ix.packages[i-1].Name < p.Name)
	}

	ix.bundles = make([]bundle, d.count(6))
	d.require(len(ix.bundles) == int(bundles))
	for i := range ix.bundles {
		ix.bundles[i] = bundle{deprecation: d.string(), blob: d.span(), summary: d.span(), image: d.number(1) == 1}
	}

	ix.apis = make([]api, d.count(4))
	for i := range ix.apis {
		d.api(&ix.apis[i], bundles)
		d.require(i == 0 || compareGVKs(ix.apis[i-1].gvk, ix.apis[i].gvk) < 0)
	}

	ix.customs = make([]custom, d.count(4))
	for i := range ix.customs {
		ix.customs[i] = custom{schema: d.string(), pkg: d.string(), blob: d.span()}
		d.require(i == 0 || ix.customs[i-1].compare(ix.customs[i]) <= 0)
	}

	if d.failed || len(d.rest) > 0 {
		return nil, errIndex
	}

	return ix, nil
}

// readStrings reads the table of strings. One copy holds all of them; each is a part.
func (d *decoder) readStrings() {
	n := d.count(1)
	all := string(d.rest)
	d.strings = make([]string, 0, n)
	for range n {
		length := d.number(uint64(len(d.rest)))
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

func (d *decoder) pkg(p *Package, first uint32) {
	p.Name, p.DefaultChannel, p.Deprecation, p.blob = d.string(), d.string(), d.string(), d.span()
	p.first = first
	p.end = first + uint32(d.number(uint64(math.MaxUint32-first))) //nolint:gosec // It is at most what is left up to the largest.
	p.Channels = make([]Channel, d.count(4))
	for i := range p.Channels {
		d.channel(&p.Channels[i], p)
		d.require(i == 0 || p.Channels[i-1].Name < p.Channels[i].Name)
	}
}

func (d *decoder) channel(c *Channel, p *Package) {
	c.Name, c.Deprecation = d.string(), d.string()
	head := d.number(math.MaxInt32)
	c.Entries = make([]Entry, d.count(5))
	d.require(head <= uint64(len(c.Entries)))
	c.head = int(head) - 1 //nolint:gosec // It is at most the largest int32.
	for i := range c.Entries {
		e := &c.Entries[i]
		e.Name, e.Replaces, e.SkipRange = d.string(), d.string(), d.string()
		if n := d.count(1); n > 0 {
			e.Skips = make([]string, n)
		}

		for s := range e.Skips {
			e.Skips[s] = d.string()
		}

		e.bundle = p.first + uint32(d.number(math.MaxUint32)) //nolint:gosec // It is at most the largest; too large a sum is refused below.
		d.require(e.bundle >= p.first && e.bundle < p.end)
		d.require(i == 0 || c.Entries[i-1].Name < e.Name)
	}
}

func (d *decoder) api(a *api, bundles uint32) {
	a.gvk = fbc.GVK{Group: d.string(), Kind: d.string(), Version: d.string()}
	a.bundles = make([]uint32, d.count(1))
	var before uint64
	for i := range a.bundles {
		distance := d.number(math.MaxUint32)
		before += distance
		d.require(before < uint64(bundles) && (i == 0 || distance > 0))
		a.bundles[i] = uint32(before) //nolint:gosec // It is less than the number of bundles.
	}
}

// require fails when what has to hold does not.
func (d *decoder) require(holds bool) {
	if !holds {
		d.failed = true
		d.rest = nil
	}
}

// number reads a number that is at most a limit.
func (d *decoder) number(limit uint64) uint64 {
	n, size := binary.Uvarint(d.rest)
	if d.require(size > 0 && n <= limit); d.failed {
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count reads the number of things that take at least so many bytes each.
func (d *decoder) count(bytes int) int {
	return int(d.number(uint64(len(d.rest) / bytes))) //nolint:gosec // It is at most the length of a slice.
}

func (d *decoder) string() string {
	id := d.number(math.MaxUint32)
	if d.require(id < uint64(len(d.strings))); d.failed {
		return ""
	}
	return d.strings[id]
}

func (d *decoder) span() span {
	s := span{offset: d.number(d.data), length: uint32(d.number(math.MaxUint32))} //nolint:gosec // It is at most the largest.
	d.require(s.offset+uint64(s.length) <= d.data)
	return s
}
