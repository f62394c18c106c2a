package content

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Content is the content of a catalog: the index, and an open file with all else. It does
// not change, whatever happens to the source and to the cache directory. It is safe for
// concurrent use until it is closed.
type Content struct {
	*index

	file *os.File
	// remove is a folder that goes with the content, empty when there is none.
	remove string
}

// Close closes the file, and removes it if nobody could use it again.
func (c *Content) Close() error {
	err := c.file.Close()
	if c.remove != "" {
		err = errors.Join(err, os.RemoveAll(c.remove)) //nolint:gosec // It was made by this program.
	}
	return err
}

// ReadError says that a part of the content cannot be read: the disk has failed, or the
// file was changed in place.
type ReadError struct{ Err error }

// Error says what failed.
func (e *ReadError) Error() string { return "reading the cached catalog: " + e.Err.Error() }

// Unwrap returns what failed.
func (e *ReadError) Unwrap() error { return e.Err }

// read reads a part of the file, into a buffer if it is large enough.
func (c *Content) read(s span, buffer []byte) ([]byte, error) {
	if cap(buffer) < int(s.length) {
		buffer = make([]byte, s.length)
	}

	buffer = buffer[:s.length]
	if _, err := c.file.ReadAt(buffer, int64(s.offset)); err != nil { //nolint:gosec // Spans are parts of the file.
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, &ReadError{Err: err}
	}

	return buffer, nil
}

// Summary returns the message of a bundle as it stands in a channel, without manifests.
//
// It is there to be sent: what it says of the bundle in any channel stands in it as it was
// encoded when the content was built, among the fields that are unknown. So a list of all
// bundles, which every client asks for often, costs the server little more than reading.
func (c *Content) Summary(p Place) (*registrypb.Bundle, error) {
	b := &c.bundles[p.Entry.bundle]
	encoded, err := c.read(b.summary, nil)
	if err != nil {
		return nil, err
	}

	m := &registrypb.Bundle{ChannelName: p.Channel.Name, SkipRange: p.Entry.SkipRange, Replaces: p.Entry.Replaces, Skips: p.Entry.Skips}
	if b.deprecation != "" {
		m.Deprecation = &registrypb.Deprecation{Message: b.deprecation}
	}

	m.ProtoReflect().SetUnknown(encoded)
	return m, nil
}

// Bundle returns the message of a bundle as it stands in a channel, with its manifests. It
// is there to be sent, see Summary.
func (c *Content) Bundle(p Place) (*registrypb.Bundle, error) {
	m, err := c.Summary(p)
	if err != nil {
		return nil, err
	}

	text, err := c.read(c.bundles[p.Entry.bundle].blob, nil)
	if err != nil {
		return nil, err
	}

	b, err := fbc.DecodeBundle(fbc.Meta{Schema: fbc.SchemaBundle, Package: p.Package.Name, Name: p.Entry.Name, Blob: text})
	if err != nil {
		return nil, &ReadError{Err: err}
	}

	pkg, err := c.read(p.Package.blob, nil)
	if err != nil {
		return nil, err
	}
	if m.CsvJson, m.Object, err = manifests(b, pkg); err != nil {
		return nil, fmt.Errorf("package %q, bundle %q: %w", p.Package.Name, p.Entry.Name, err)
	}

	return m, nil
}

// HasImage reports whether the bundle of an entry is an image, which has the manifests.
func (c *Content) HasImage(e *Entry) bool { return c.bundles[e.bundle].image }

// NameError says that nothing can be asked for by a name.
type NameError struct{ Err error }

// Error says which name, and the rule.
func (e *NameError) Error() string { return e.Err.Error() }

// Unwrap returns the same without the type.
func (e *NameError) Unwrap() error { return e.Err }

// Customs yields the blobs of a schema and a package, in the order of the catalog. A blob
// is valid until the next. An
// empty package stands for the blobs that have none. Schemas that OLM defines have no
// blobs here.
//
// A *NameError says that there can be none by such names, any other that reading failed.
// An error ends it.
func (c *Content) Customs(schema, pkg string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		if err := checkCustom(schema, pkg); err != nil {
			yield(nil, &NameError{Err: err})
			return
		}
		var buffer []byte
		for _, found := range c.customsOf(schema, pkg) {
			blob, err := c.read(found.blob, buffer)
			buffer = blob
			if !yield(blob, err) || err != nil {
				return
			}
		}
	}
}
