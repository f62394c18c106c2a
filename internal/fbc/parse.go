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

// parser reads the documents of a chunk. It is used for one chunk after the other.
type parser struct {
	limits Limits
	chunk  chunk
	scan   scanner
	// here is the position of the document that is read, or of what follows it.
	here position

	// What follows is used again for each document.
	scratch, loose []byte
	members        []jsontext.Member
	names          names
}

// reset goes to the start of a chunk.
func (p *parser) reset(c chunk) {
	p.chunk = c
	p.scan = scanner{text: c.text, lineStart: c.start.lineStart, final: true}
	p.here = c.start
}

// errUnsure says that a document is not JSON, and may be YAML that goes on after the
// chunk.
var errUnsure = errors.New("the document may be longer than its chunk")

// next reads the next document, and gives io.EOF after the last. The blob is valid up to
// the call after this one. After errUnsure the document is the one that begins here.
func (p *parser) next() (Meta, error) {
	kind := p.scan.begin()
	p.advance(0)
	if kind == noDocument {
		if p.chunk.cut {
			return Meta{}, &Error{File: p.chunk.file, Err: fmt.Errorf("has %d bytes on end without a blob", len(p.chunk.text))}
		}
		return Meta{}, io.EOF
	}

	place := Place{File: p.chunk.file, Document: p.here.documents + 1, Line: p.here.lines + 1, Offset: p.here.offset}
	size, err := p.document(kind)
	if errors.Is(err, errUnsure) {
		return Meta{}, err
	}

	meta := Meta{Blob: p.scratch, At: place}
	if err == nil {
		err = p.names.readHead(&meta, p.members)
	}
	if err != nil {
		return Meta{}, place.inside(err)
	}

	meta.At.Length = size
	p.scan.move(p.scan.at + size)
	p.advance(1)

	return meta, nil
}

// advance brings the position to where the scanner is, which is so many documents later.
func (p *parser) advance(documents int) {
	p.here = p.here.after(p.chunk.text[p.here.offset-p.chunk.start.offset:p.scan.at], documents)
}

// document reads the document that the scanner is at and gives its length. The blob and
// its members are left in p.
func (p *parser) document(kind kind) (int, error) {
	if kind == yamlDocument {
		return p.yaml(p.limits.YAMLBytes)
	}

	n, err := p.json()
	var syntax *insideError
	if !errors.As(err, &syntax) {
		return n, err
	}
	// A text that only looks like JSON, as YAML's {a: b}, is YAML up to the next separator.
	if !p.chunk.final {
		return 0, errUnsure
	}
	if n, yamlErr := p.yaml(min(lenientBytes, p.limits.YAMLBytes)); yamlErr == nil {
		return n, nil
	}

	return 0, err
}

// json reads a JSON object.
func (p *parser) json() (int, error) {
	text := p.chunk.text[p.scan.at:]
	whole := len(text) <= p.limits.BlobBytes
	if !whole {
		text = text[:p.limits.BlobBytes]
	}

	blob, n, members, err := jsontext.CompactObject(p.scratch[:0], text, p.limits.Depth, p.members[:0])
	p.scratch, p.members = blob, members
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
		return 0, &insideError{
			lines:  bytes.Count(text[:syntax.Offset], []byte{'\n'}),
			offset: int64(syntax.Offset),
			err:    fmt.Errorf("is not valid JSON: %w", syntax),
		}
	}

	return 0, err
}

// yaml reads a YAML document of at most limit bytes.
func (p *parser) yaml(limit int) (int, error) {
	text := p.chunk.text[p.scan.at:p.scan.yamlEnd()]
	if len(text) > limit {
		return 0, fmt.Errorf("is a YAML document larger than %d bytes: write it as JSON, or split it", limit)
	}

	blob, loose, err := convertYAML(p.scratch[:0], p.loose, text, p.limits)
	p.loose = loose
	if err != nil {
		return 0, insideYAML(text, err)
	}

	p.scratch, p.members = blob, p.members[:0]
	for key, value := range jsontext.Members(blob) {
		p.members = append(p.members, jsontext.Member{Key: key, Value: value})
	}

	return len(text), nil
}

// yamlLine is where the YAML parser says, in words, that an error is.
var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\byaml: line (\d+): `) })

// insideYAML returns an error of the YAML parser the place that it has in the document.
func insideYAML(document []byte, err error) error {
	found := yamlLine().FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}

	line, _ := strconv.Atoi(found[1]) // A number that is too large is bounded below.
	inside := &insideError{err: errors.New(strings.Replace(err.Error(), found[0], "", 1))}
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
