package fbc

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
	"github.com/mainstay-dev/mainstay/internal/fbc/yamltext"
)

// Format is how a catalog is written.
type Format int

const (
	// FormatJSON writes one JSON object after the other, indented by four blanks. The
	// fields of the schemas that OLM defines stand in the order of the field's tools; all
	// other keys are sorted.
	FormatJSON Format = iota
	// FormatYAML writes YAML documents, each after a line "---", with sorted keys.
	FormatYAML
)

// WriteOptions say how a catalog is written.
type WriteOptions struct {
	Format Format
	// Bundle, if there is one, is called for each bundle before it is written, and may
	// change it. It is called by several goroutines at once. The values of properties are
	// only valid during the call, and those that it sets have to be compact JSON.
	Bundle func(*Bundle) error
}

// Write writes the blobs of an index: package by package in the order of their names, and
// in each of them the package, the channels and the bundles by name, other blobs by their
// schema, and the deprecations; at the end the blobs of other schemas that belong to no
// package. Blobs that are alike in this stay in the order of the index. Of the schemas
// that OLM defines, the fields that it defines are written.
//
// Blobs of these schemas that name no package have no place in a catalog. They are not
// written but given back.
//
// What was written before an error stays written. For errors see Index.Blob; others are
// those of the writer and of the Bundle function.
func Write(w io.Writer, ix *Index, opts WriteOptions) (dropped []Entry, err error) {
	plan := arrange(ix)
	var batches []batch
	for _, p := range plan.packages {
		batches = appendBatches(batches, "", p.entries)
	}

	batches = appendBatches(batches, "", plan.others)
	return plan.dropped, writeBatches(ix, opts, batches, func(_ string, text []byte) error {
		_, err := w.Write(text)
		return err
	})
}

// plan is the order in which the blobs of an index are written.
type plan struct {
	packages []packagePlan
	// others are the blobs of other schemas that belong to no package.
	others  []Entry
	dropped []Entry
}

type packagePlan struct {
	name    string
	entries []Entry
}

// arrange brings the blobs of an index into the order in which they are written.
func arrange(ix *Index) plan {
	var p plan
	byName := map[string]int{}
	for _, e := range ix.entries {
		name := e.PackageName()
		switch i, ok := byName[name]; {
		case name == "" && rank(e.Schema) == rankOther:
			p.others = append(p.others, e)
		case name == "":
			p.dropped = append(p.dropped, e)
		case ok:
			p.packages[i].entries = append(p.packages[i].entries, e)
		default:
			byName[name] = len(p.packages)
			p.packages = append(p.packages, packagePlan{name, []Entry{e}})
		}
	}

	slices.SortFunc(p.packages, func(a, b packagePlan) int { return strings.Compare(a.name, b.name) })
	for _, pkg := range p.packages {
		slices.SortStableFunc(pkg.entries, compareEntries)
	}

	return p
}

// rankOther is the place of a schema that OLM does not define among those of a package.
const rankOther = 3

// rank is the place of a schema among those of a package.
func rank(schema string) int {
	switch schema {
	case SchemaPackage:
		return 0
	case SchemaChannel:
		return 1
	case SchemaBundle:
		return 2
	case SchemaDeprecations:
		return 4
	}

	return rankOther
}

func compareEntries(a, b Entry) int {
	switch r := rank(a.Schema); {
	case r != rank(b.Schema):
		return r - rank(b.Schema)
	case r == rankOther:
		return strings.Compare(a.Schema, b.Schema)
	case r == rank(SchemaChannel), r == rank(SchemaBundle):
		return strings.Compare(a.Name, b.Name)
	}

	return 0
}

// batch is a part of what is written: some blobs of a file.
type batch struct {
	file    string
	entries []Entry
}

// batchBytes is the least size of the blobs in a batch that is not the last of its file.
const batchBytes = 256 << 10

// appendBatches appends the batches of a file, or of a part of it.
func appendBatches(batches []batch, file string, entries []Entry) []batch {
	for len(entries) > 0 {
		n, size := 0, 0
		for n < len(entries) && size < batchBytes {
			size += int(entries[n].length)
			n++
		}
		batches = append(batches, batch{file, entries[:n]})
		entries = entries[n:]
	}

	return batches
}

// written is a batch as text. It stands in the encoder's buffer.
type written struct {
	file    string
	encoder *encoder
	err     error
}

// writeBatches turns batches into text, on all processors, and passes the texts to a
// function one after the other.
func writeBatches(ix *Index, opts WriteOptions, batches []batch, write func(file string, text []byte) error) error {
	// One text is written while the others are made.
	encoders := make([]encoder, runtime.GOMAXPROCS(0)+1)
	free := make(chan *encoder, len(encoders))
	for i := range encoders {
		encoders[i] = encoder{opts: opts, reader: ix.reader()}
		defer encoders[i].reader.close()
		free <- &encoders[i]
	}
	return inOrder(len(encoders), func(s *sequence[written]) error {
		for _, b := range batches {
			var e *encoder
			select {
			case e = <-free:
			case <-s.stop:
				return errStopped
			}
			if err := s.submit(func() written { return written{b.file, e, e.encode(b.entries)} }); err != nil {
				return err
			}
		}
		return nil
	}, func(w written) error {
		if w.err != nil {
			return w.err
		}
		err := write(w.file, w.encoder.out)
		free <- w.encoder
		return err
	})
}

// encoder turns blobs into text.
type encoder struct {
	opts   WriteOptions
	reader *indexReader
	// out is the text, compact a blob on its way there. They are used again.
	out, compact, sorted []byte
}

// encode turns blobs into text, which is then in out.
func (e *encoder) encode(entries []Entry) error {
	e.out = kept(e.out)
	e.compact = kept(e.compact)
	e.sorted = kept(e.sorted)
	for _, entry := range entries {
		m, err := e.reader.blob(entry)
		if err != nil {
			return err
		}

		value, err := e.value(m)
		if err != nil {
			return err
		}

		if e.opts.Format == FormatYAML {
			err = e.yaml(m, value)
		} else {
			e.out = append(jsontext.Indent(e.out, value, "", "    "), '\n')
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// kept empties a buffer that is used again, and lets go of one that has become large.
func kept(buffer []byte) []byte {
	if cap(buffer) > keptBuffer {
		return nil
	}
	return buffer[:0]
}

// value returns what is to be written of a blob as compact JSON.
func (e *encoder) value(m Meta) ([]byte, error) {
	var value interface{ AppendJSON([]byte) []byte }
	var err error
	switch m.Schema {
	case SchemaPackage:
		value, err = DecodePackage(m)
	case SchemaChannel:
		value, err = DecodeChannel(m)
	case SchemaBundle:
		value, err = e.bundle(m)
	case SchemaDeprecations:
		value, err = DecodeDeprecations(m)
	default:
		return m.Blob, nil
	}

	if err != nil {
		return nil, err
	}

	e.compact = value.AppendJSON(e.compact[:0])
	return e.compact, nil
}

func (e *encoder) bundle(m Meta) (*Bundle, error) {
	b, err := DecodeBundle(m)
	if err == nil && e.opts.Bundle != nil {
		err = e.opts.Bundle(b)
	}
	return b, err
}

// yaml writes a blob as a YAML document.
func (e *encoder) yaml(m Meta, value []byte) error {
	sorted, _, err := jsontext.Compact(e.sorted[:0], value, 0)
	if err != nil {
		return m.At.Wrap(fmt.Errorf("%s cannot be written: %w", m, err))
	}
	e.sorted = sorted
	e.out = yamltext.Append(append(e.out, "---\n"...), sorted)
	return nil
}

// Tidy brings a bundle into the order in which the field's tools write it: the properties
// that hold manifests come last, and the related images are sorted by image.
func (b *Bundle) Tidy() {
	slices.SortStableFunc(b.Properties, func(x, y Property) int { return objectsLast(x) - objectsLast(y) })
	slices.SortStableFunc(b.RelatedImages, func(x, y RelatedImage) int { return strings.Compare(x.Image, y.Image) })
}

func objectsLast(p Property) int {
	if p.Type == PropertyBundleObject || p.Type == PropertyCSVMetadata {
		return 1
	}
	return 0
}
