package content

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Content is the content of a catalog: the index in memory, and an open file with the blobs. It
// is immutable: later changes to the source or the cache directory do not affect it. It is safe
// for concurrent use until it is closed.
type Content struct {
	*index

	file *os.File
	// readStored reads a blob by its position in the source. It is nil if the blobs are in the file.
	readStored func(number uint32) ([]byte, error)
	// closeStored closes the source. It may be nil.
	closeStored func()
	// temporaryDir is the folder that Close removes, or "".
	temporaryDir string
}

// Close closes the file and removes the temporary folder, if there is one.
func (c *Content) Close() error {
	err := c.file.Close()
	if c.closeStored != nil {
		c.closeStored()
	}
	if c.temporaryDir != "" {
		err = errors.Join(err, os.RemoveAll(c.temporaryDir)) //nolint:gosec // It was made by this program.
	}
	return err
}

// ReadError reports that a part of the content cannot be read: the disk has failed, or the file
// was changed in place.
type ReadError struct{ Err error }

// Error implements error.
func (e *ReadError) Error() string { return "reading the cached catalog: " + e.Err.Error() }

// Unwrap returns the underlying error.
func (e *ReadError) Unwrap() error { return e.Err }

// readSpan reads a part of the file. It uses buffer if that is large enough.
func (c *Content) readSpan(s span, buffer []byte) ([]byte, error) {
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

// positionBytes is the size of the position of a blob in a Stored source.
const positionBytes = 4

// readBlob reads a blob. It uses buffer if that is large enough.
func (c *Content) readBlob(s span, buffer []byte) ([]byte, error) {
	found, err := c.readSpan(s, buffer)
	if err != nil || c.readStored == nil {
		return found, err
	}
	if len(found) != positionBytes {
		return nil, &ReadError{Err: errUnknownFormat}
	}

	blob, err := c.readStored(binary.LittleEndian.Uint32(found))
	if err != nil {
		return nil, &ReadError{Err: err}
	}
	return blob, nil
}

// Summary returns the protocol message of a bundle in a channel, without manifests.
//
// The message is meant to be sent, not read: the fields that are the same in all channels are
// in its unknown fields, as they were encoded when the content was built. Clients list all
// bundles often, and this makes a list cost little more than reading the file.
func (c *Content) Summary(p Place) (*registrypb.Bundle, error) {
	b := &c.bundles[p.Entry.bundle]
	encoded, err := c.readSpan(b.summary, nil)
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

// Bundle returns the protocol message of a bundle in a channel, with its manifests. Like that
// of Summary, it is meant to be sent, not read.
func (c *Content) Bundle(p Place) (*registrypb.Bundle, error) {
	m, err := c.Summary(p)
	if err != nil {
		return nil, err
	}

	text, err := c.readBlob(c.bundles[p.Entry.bundle].blob, nil)
	if err != nil {
		return nil, err
	}

	b, err := fbc.DecodeBundle(fbc.Meta{Schema: fbc.SchemaBundle, Package: p.Package.Name, Name: p.Entry.Name, Blob: text})
	if err != nil {
		return nil, &ReadError{Err: err}
	}

	pkg, err := c.readBlob(p.Package.blob, nil)
	if err != nil {
		return nil, err
	}
	if m.CsvJson, m.Object, err = bundleManifests(b, pkg); err != nil {
		return nil, fmt.Errorf("package %q, bundle %q: %w", p.Package.Name, p.Entry.Name, err)
	}

	return m, nil
}

// HasImage reports whether the bundle of an entry has an image, which holds its manifests.
func (c *Content) HasImage(e *Entry) bool { return c.bundles[e.bundle].hasImage }

// NameError reports that a name cannot be used in a query.
type NameError struct{ Err error }

// Error implements error.
func (e *NameError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *NameError) Unwrap() error { return e.Err }

// CustomBlobs yields the blobs of a custom schema and a package, in the order of the catalog. A
// blob is valid until the next iteration. An empty package selects the blobs without a package.
// Schemas that OLM defines have no blobs here.
//
// It yields a *NameError if the names are invalid, and another error if reading fails. The
// iteration ends after an error.
func (c *Content) CustomBlobs(schema, pkg string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		if err := validateCustomNames(schema, pkg); err != nil {
			yield(nil, &NameError{Err: err})
			return
		}
		var buffer []byte
		for _, found := range c.findCustomBlobs(schema, pkg) {
			blob, err := c.readBlob(found.blob, buffer)
			buffer = blob
			if !yield(blob, err) || err != nil {
				return
			}
		}
	}
}
