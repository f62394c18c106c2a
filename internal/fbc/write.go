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
	plan := planWriting(ix)
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

// planWriting sorts the blobs of an index into the order in which they are written.
func planWriting(ix *Index) writePlan {
	var p writePlan
	byName := map[string]int{}
	for _, e := range ix.entries {
		name := e.PackageName()
		switch i, ok := byName[name]; {
		case name == "" && schemaRank(e.Schema) == customSchemaRank:
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

// customSchemaRank is the rank of schemas that OLM does not define.
const customSchemaRank = 3

// schemaRank returns the rank of a schema in the order of a package.
func schemaRank(schema string) int {
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

	return customSchemaRank
}

func compareEntries(a, b Entry) int {
	switch r := schemaRank(a.Schema); {
	case r != schemaRank(b.Schema):
		return r - schemaRank(b.Schema)
	case r == customSchemaRank:
		return strings.Compare(a.Schema, b.Schema)
	case r == schemaRank(SchemaChannel), r == schemaRank(SchemaBundle):
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

// appendBatches appends the batches of a file, or of a part of it.
func appendBatches(batches []batch, file string, entries []Entry) []batch {
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

// writeBatches encodes batches on all processors and calls write for their texts in order.
func writeBatches(ix *Index, opts WriteOptions, batches []batch, write func(file string, text []byte) error) error {
	// One batch is written while the others are encoded.
	encoders := make([]encoder, runtime.GOMAXPROCS(0)+1)
	free := make(chan *encoder, len(encoders))
	for i := range encoders {
		encoders[i] = encoder{opts: opts, reader: ix.newReader()}
		defer encoders[i].reader.closeFile()
		free <- &encoders[i]
	}
	return runInOrder(len(encoders), func(s *orderedRunner[encodedBatch]) error {
		for _, b := range batches {
			var e *encoder
			select {
			case e = <-free:
			case <-s.stop:
				return errStopped
			}
			if err := s.submitTask(func() encodedBatch { return encodedBatch{b.file, e, e.encodeEntries(b.entries)} }); err != nil {
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

// encoder encodes blobs as text.
type encoder struct {
	opts   WriteOptions
	reader *indexReader
	// out is the text. compact and sorted are intermediate forms of a blob. All are reused.
	out, compact, sorted []byte
}

// encodeEntries encodes blobs into out.
func (e *encoder) encodeEntries(entries []Entry) error {
	e.out = resetBuffer(e.out)
	e.compact = resetBuffer(e.compact)
	e.sorted = resetBuffer(e.sorted)
	for _, entry := range entries {
		m, err := e.reader.readBlob(entry)
		if err != nil {
			return err
		}

		value, err := e.encodeCompact(m)
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

// resetBuffer empties a buffer for reuse. It drops a buffer that has become too large.
func resetBuffer(buffer []byte) []byte {
	if cap(buffer) > maxReusedBuffer {
		return nil
	}
	return buffer[:0]
}

// encodeCompact returns the written form of a blob as compact JSON.
func (e *encoder) encodeCompact(m Meta) ([]byte, error) {
	var value interface{ AppendJSON([]byte) []byte }
	var err error
	switch m.Schema {
	case SchemaPackage:
		value, err = DecodePackage(m)
	case SchemaChannel:
		value, err = DecodeChannel(m)
	case SchemaBundle:
		value, err = e.decodeBundle(m)
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

func (e *encoder) decodeBundle(m Meta) (*Bundle, error) {
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
	slices.SortStableFunc(b.Properties, func(x, y Property) int { return manifestRank(x) - manifestRank(y) })
	slices.SortStableFunc(b.RelatedImages, func(x, y RelatedImage) int { return strings.Compare(x.Image, y.Image) })
}

func manifestRank(p Property) int {
	if p.Type == PropertyBundleObject || p.Type == PropertyCSVMetadata {
		return 1
	}
	return 0
}
