package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// parser parses the documents of a chunk. It is reused for one chunk after the other.
type parser struct {
	limits  Limits
	chunk   chunk
	scanner scanner
	// current is the position of the current document, or of the text after it.
	current position

	// The following buffers are reused for each document.
	blobBuffer, yamlBuffer []byte
	members                []jsontext.Member
	interner               stringInterner
}

func (p *parser) startChunk(c chunk) {
	p.chunk = c
	p.scanner = scanner{text: c.text, lineStart: c.start.lineStart, final: true}
	p.current = c.start
}

// errMaybeIncomplete is the error for a document that is not JSON and may be YAML that continues
// after the chunk.
var errMaybeIncomplete = errors.New("the document may be longer than its chunk")

// parseNextBlob returns the next blob, or io.EOF after the last one. The blob is valid until the
// next call. If it returns errMaybeIncomplete, current is the position of the document.
func (p *parser) parseNextBlob() (Meta, error) {
	kind := p.scanner.skipToDocument()
	p.advancePosition(0)
	if kind == noDocument {
		if p.chunk.documentTooLarge {
			return Meta{}, &Error{File: p.chunk.file, Err: fmt.Errorf("has %d bytes on end without a blob", len(p.chunk.text))}
		}
		return Meta{}, io.EOF
	}

	place := Place{File: p.chunk.file, Document: p.current.documents + 1, Line: p.current.lines + 1, Offset: p.current.offset}
	size, err := p.parseDocument(kind)
	if errors.Is(err, errMaybeIncomplete) {
		return Meta{}, err
	}

	meta := Meta{Blob: p.blobBuffer, At: place}
	if err == nil {
		err = p.interner.readCommonFields(&meta, p.members)
	}
	if err != nil {
		return Meta{}, place.wrapWithPosition(err)
	}

	meta.At.Length = size
	p.scanner.moveToOffset(p.scanner.offset + size)
	p.advancePosition(1)

	return meta, nil
}

// advancePosition moves the current position to the scanner, which has passed the given number of
// documents.
func (p *parser) advancePosition(documents int) {
	p.current = p.current.advancedOverText(p.chunk.text[p.current.offset-p.chunk.start.offset:p.scanner.offset], documents)
}

// parseDocument parses the document at the scanner into blobBuffer and members. It returns the
// length of the document.
func (p *parser) parseDocument(kind documentKind) (int, error) {
	if kind == yamlDocument {
		return p.parseYAMLDocument(p.limits.YAMLBytes)
	}

	n, err := p.parseJSONObject()
	var syntax *positionError
	if !errors.As(err, &syntax) {
		return n, err
	}
	// Text that only looks like JSON, such as {a: b} of YAML, is YAML up to the next separator.
	if !p.chunk.final {
		return 0, errMaybeIncomplete
	}
	if n, yamlErr := p.parseYAMLDocument(min(maxYAMLFallbackBytes, p.limits.YAMLBytes)); yamlErr == nil {
		return n, nil
	}

	return 0, err
}

// parseJSONObject parses a JSON object and returns its length.
func (p *parser) parseJSONObject() (int, error) {
	text := p.chunk.text[p.scanner.offset:]
	whole := len(text) <= p.limits.BlobBytes
	if !whole {
		text = text[:p.limits.BlobBytes]
	}

	blob, n, members, err := jsontext.CompactObject(p.blobBuffer[:0], text, p.limits.Depth, p.members[:0])
	p.blobBuffer, p.members = blob, members
	var syntax *jsontext.SyntaxError
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, jsontext.ErrTruncated) && !whole:
		return 0, fmt.Errorf("is larger than %d bytes", p.limits.BlobBytes)
	case errors.Is(err, jsontext.ErrTruncated):
		return 0, errors.New("ends in the middle of a JSON object")
	case errors.Is(err, jsontext.ErrTooDeep):
		return 0, fmt.Errorf("is nested more than %d deep", p.limits.Depth)
	case errors.As(err, &syntax):
		return 0, &positionError{
			lines:  bytes.Count(text[:syntax.Offset], []byte{'\n'}),
			offset: int64(syntax.Offset),
			err:    fmt.Errorf("is not valid JSON: %w", syntax),
		}
	}

	return 0, err
}

// parseYAMLDocument parses a YAML document of at most limit bytes and returns its length.
func (p *parser) parseYAMLDocument(limit int) (int, error) {
	text := p.chunk.text[p.scanner.offset:p.scanner.findYAMLEnd()]
	if len(text) > limit {
		return 0, fmt.Errorf("is a YAML document larger than %d bytes: write it as JSON, or split it", limit)
	}

	blob, loose, err := convertYAMLToJSON(p.blobBuffer[:0], p.yamlBuffer, text, p.limits)
	p.yamlBuffer = loose
	if err != nil {
		return 0, locateYAMLError(text, err)
	}

	p.blobBuffer, p.members = blob, p.members[:0]
	for key, value := range jsontext.Members(blob) {
		p.members = append(p.members, jsontext.Member{Key: key, Value: value})
	}

	return len(text), nil
}

// yamlLinePattern matches the line number in the errors of the YAML parser.
var yamlLinePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\byaml: line (\d+): `) })

// locateYAMLError returns an error of the YAML parser with its position in the document.
func locateYAMLError(document []byte, err error) error {
	found := yamlLinePattern().FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}

	line, _ := strconv.Atoi(found[1]) // A number that is too large is bounded below.
	inside := &positionError{err: errors.New(strings.Replace(err.Error(), found[0], "", 1))}
	for rest := document; inside.lines < line-1; inside.lines++ {
		newline := bytes.IndexByte(rest, '\n')
		if newline < 0 {
			break
		}
		rest = rest[newline+1:]
		inside.offset += int64(newline + 1)
	}

	return inside
}
