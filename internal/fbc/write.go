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

// Format is the output format of a catalog.
type Format int

const (
	// FormatJSON writes concatenated JSON objects, indented by four blanks. The fields of
	// the schemas that OLM defines are in the order of opm; all other keys are sorted.
	FormatJSON Format = iota
	// FormatYAML writes YAML documents with sorted keys, each after a line "---".
	FormatYAML
)

// WriteOptions are the options of Write and WriteFiles.
type WriteOptions struct {
	Format Format
	// Bundle, if set, is called for each bundle before it is written and may modify it. It must
	// be safe for concurrent use. The values of properties are only valid during the call. Values
	// that Bundle sets must be compact JSON.
	Bundle func(*Bundle) error
}

// Write writes the blobs of an index, package by package in the order of their names. Within a
// package the order is: the package, the channels by name, the bundles by name, blobs of other
// schemas by schema, and the deprecations. Blobs of other schemas without a package come last.
// Blobs that are equal in this order keep the order of the index. Of the schemas that OLM
// defines, only the defined fields are written.
//
// Blobs of the defined schemas without a package are invalid in a catalog. They are not written
// but returned.
//
// If there is an error, parts of the catalog may have been written. Write returns the errors of
// Index.Blob, of the writer and of the Bundle function.
func Write(w io.Writer, ix *Index, opts WriteOptions) (dropped []Entry, err error) {
	plan := planCatalogWriting(ix)
	var batches []batch
	for _, p := range plan.packages {
		batches = appendEntryBatches(batches, "", p.entries)
	}

	batches = appendEntryBatches(batches, "", plan.others)
	return plan.dropped, encodeAndWriteBatches(ix, opts, batches, func(_ string, text []byte) error {
		_, err := w.Write(text)
		return err
	})
}

// writePlan is the order in which the blobs of an index are written.
type writePlan struct {
	packages []packagePlan
	// others are the blobs of other schemas without a package.
	others  []Entry
	dropped []Entry
}

type packagePlan struct {
	name    string
	entries []Entry
}

// planCatalogWriting sorts the blobs of an index into the order in which they are written.
func planCatalogWriting(ix *Index) writePlan {
	var p writePlan
	byName := map[string]int{}
	for _, e := range ix.entries {
		name := e.PackageName()
		switch i, ok := byName[name]; {
		case name == "" && rankOfSchema(e.Schema) == rankOfCustomSchema:
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

// rankOfCustomSchema is the rank of schemas that OLM does not define.
const rankOfCustomSchema = 3

// rankOfSchema returns the rank of a schema in the order of a package.
func rankOfSchema(schema string) int {
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

	return rankOfCustomSchema
}

func compareEntries(a, b Entry) int {
	switch r := rankOfSchema(a.Schema); {
	case r != rankOfSchema(b.Schema):
		return r - rankOfSchema(b.Schema)
	case r == rankOfCustomSchema:
		return strings.Compare(a.Schema, b.Schema)
	case r == rankOfSchema(SchemaChannel), r == rankOfSchema(SchemaBundle):
		return strings.Compare(a.Name, b.Name)
	}

	return 0
}

// batch is a part of the output: some blobs of a file.
type batch struct {
	file    string
	entries []Entry
}

// minBatchBytes is the minimum size of the blobs in a batch, except for the last one of a file.
const minBatchBytes = 256 << 10

// appendEntryBatches appends the batches of a file, or of a part of it.
func appendEntryBatches(batches []batch, file string, entries []Entry) []batch {
	for len(entries) > 0 {
		n, size := 0, 0
		for n < len(entries) && size < minBatchBytes {
			size += int(entries[n].length)
			n++
		}
		batches = append(batches, batch{file, entries[:n]})
		entries = entries[n:]
	}

	return batches
}

// encodedBatch is a batch as text, which is in the buffer of the encoder.
type encodedBatch struct {
	file    string
	encoder *encoder
	err     error
}

// encodeAndWriteBatches encodes batches on all processors and calls write for their texts in order.
func encodeAndWriteBatches(ix *Index, opts WriteOptions, batches []batch, write func(file string, text []byte) error) error {
	// One batch is written while the others are encoded.
	encoders := make([]encoder, runtime.GOMAXPROCS(0)+1)
	free := make(chan *encoder, len(encoders))
	for i := range encoders {
		encoders[i] = encoder{opts: opts, reader: ix.newIndexReader()}
		defer encoders[i].reader.closeCurrentFile()
		free <- &encoders[i]
	}
	return runTasksInOrder(len(encoders), func(s *orderedRunner[encodedBatch]) error {
		for _, b := range batches {
			var e *encoder
			select {
			case e = <-free:
			case <-s.stop:
				return errStopped
			}
			if err := s.submitTask(func() encodedBatch { return encodedBatch{b.file, e, e.encodeIndexEntries(b.entries)} }); err != nil {
				return err
			}
		}
		return nil
	}, func(w encodedBatch) error {
		if w.err != nil {
			return w.err
		}
		err := write(w.file, w.encoder.out)
		free <- w.encoder
		return err
	})
}

type encoder struct {
	opts   WriteOptions
	reader *indexReader
	// out is the text. compact and sorted are intermediate forms of a blob. All are reused.
	out, compact, sorted []byte
}

// encodeIndexEntries encodes blobs into out.
func (e *encoder) encodeIndexEntries(entries []Entry) error {
	e.out = resetReusedBuffer(e.out)
	e.compact = resetReusedBuffer(e.compact)
	e.sorted = resetReusedBuffer(e.sorted)
	for _, entry := range entries {
		m, err := e.reader.readIndexedBlob(entry)
		if err != nil {
			return err
		}

		value, err := e.encodeBlobCompact(m)
		if err != nil {
			return err
		}

		if e.opts.Format == FormatYAML {
			err = e.appendYAMLDocument(m, value)
		} else {
			e.out = append(jsontext.Indent(e.out, value, "", "    "), '\n')
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// resetReusedBuffer empties a buffer for reuse. It drops a buffer that has become too large.
func resetReusedBuffer(buffer []byte) []byte {
	if cap(buffer) > maxReusedBuffer {
		return nil
	}
	return buffer[:0]
}

// encodeBlobCompact returns the written form of a blob as compact JSON.
func (e *encoder) encodeBlobCompact(m Meta) ([]byte, error) {
	var value interface{ AppendJSON([]byte) []byte }
	var err error
	switch m.Schema {
	case SchemaPackage:
		value, err = DecodePackage(m)
	case SchemaChannel:
		value, err = DecodeChannel(m)
	case SchemaBundle:
		value, err = e.decodeAndModifyBundle(m)
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

func (e *encoder) decodeAndModifyBundle(m Meta) (*Bundle, error) {
	b, err := DecodeBundle(m)
	if err == nil && e.opts.Bundle != nil {
		err = e.opts.Bundle(b)
	}
	return b, err
}

// appendYAMLDocument appends a blob to out as a YAML document.
func (e *encoder) appendYAMLDocument(m Meta, value []byte) error {
	sorted, _, err := jsontext.Compact(e.sorted[:0], value, 0)
	if err != nil {
		return m.At.Wrap(fmt.Errorf("%s cannot be written: %w", m, err))
	}
	e.sorted = sorted
	e.out = yamltext.Append(append(e.out, "---\n"...), sorted)
	return nil
}

// Tidy sorts the parts of a bundle as opm does: properties with manifests come last, and related
// images are sorted by image.
func (b *Bundle) Tidy() {
	slices.SortStableFunc(b.Properties, func(x, y Property) int { return rankOfManifest(x) - rankOfManifest(y) })
	slices.SortStableFunc(b.RelatedImages, func(x, y RelatedImage) int { return strings.Compare(x.Image, y.Image) })
}

func rankOfManifest(p Property) int {
	if p.Type == PropertyBundleObject || p.Type == PropertyCSVMetadata {
		return 1
	}
	return 0
}
