package fbc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// stream splits one file into its blobs. A file is a sequence of JSON objects and YAML
// documents, with "---" lines between those that need it.
type stream struct {
	src    io.Reader
	name   string
	limits Limits

	// buf[r:w] is what was read and not consumed.
	buf  []byte
	r, w int
	// consumed and lines are the bytes and line breaks before buf[r].
	consumed int64
	lines    int
	// lineStart says that the last consumed byte ended a line, or that there is none.
	lineStart bool
	// read is how many bytes the source has given.
	read int64
	eof  bool
	// documents counts the blobs that were begun.
	documents int
	// compact is used again for each blob.
	compact bytes.Buffer
}

// minBuffer is the first size of a stream's buffer: most blobs without bundle objects
// fit in.
const minBuffer = 64 << 10

func newStream(r io.Reader, name string, limits Limits) *stream {
	return &stream{src: r, name: name, limits: limits, lineStart: true}
}

// next gives the next blob, and io.EOF after the last.
func (s *stream) next() (Meta, error) {
	isJSON, err := s.skipBlank()
	if err != nil {
		return Meta{}, err
	}
	s.documents++
	var blob []byte
	begin := place{file: s.name, document: s.documents, lines: s.lines, offset: s.consumed}
	if isJSON {
		blob, err = s.json()
	} else {
		blob, err = s.yaml(s.limits.YAMLBytes)
	}
	if err != nil {
		return Meta{}, begin.at(err)
	}
	meta, err := headOf(blob)
	if err != nil {
		return Meta{}, begin.at(err)
	}
	return meta, nil
}

// place is where a document begins.
type place struct {
	file     string
	document int
	lines    int
	offset   int64
}

// at makes an error about the document, or a place within it when that is known.
// Errors that are not about the document stay as they are.
func (p place) at(err error) error {
	var read *readError
	var whole *Error
	if errors.As(err, &read) || errors.As(err, &whole) {
		return err
	}
	e := &Error{File: p.file, Document: p.document, Line: p.lines + 1, Offset: p.offset, Err: err}
	var inside *insideError
	if errors.As(err, &inside) {
		e.Line += inside.lines
		e.Offset += inside.offset
		e.Err = inside.err
	}
	return e
}

// readError is a failure of the source, not of the content.
type readError struct {
	name string
	err  error
}

func (e *readError) Error() string { return fmt.Sprintf("reading %s: %v", e.name, e.err) }
func (e *readError) Unwrap() error { return e.err }

// insideError is an error at a place within a document.
type insideError struct {
	lines  int
	offset int64
	err    error
}

func (e *insideError) Error() string { return e.err.Error() }

// fill reads more into the buffer. It gives io.EOF at the end of the source.
func (s *stream) fill() error {
	if s.eof {
		return io.EOF
	}
	if s.r > 0 {
		copy(s.buf, s.buf[s.r:s.w])
		s.w -= s.r
		s.r = 0
	}
	if s.w == len(s.buf) {
		grown := make([]byte, max(minBuffer, 2*len(s.buf)))
		copy(grown, s.buf[:s.w])
		s.buf = grown
	}
	n, err := io.ReadAtLeast(s.src, s.buf[s.w:], 1)
	s.w += n
	s.read += int64(n)
	if s.read > s.limits.FileBytes {
		return &Error{File: s.name, Err: fmt.Errorf("is larger than %d bytes", s.limits.FileBytes)}
	}
	switch {
	case errors.Is(err, io.EOF):
		s.eof = true
		return io.EOF
	case err != nil:
		return &readError{name: s.name, err: err}
	}
	return nil
}

// window is what was read and not consumed.
func (s *stream) window() []byte { return s.buf[s.r:s.w] }

// ensure reads until the window has n bytes; it is not ok when the source ends before.
func (s *stream) ensure(n int) (bool, error) {
	for s.w-s.r < n {
		if err := s.fill(); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// consume drops n bytes of the window.
func (s *stream) consume(n int) {
	if n == 0 {
		return
	}
	gone := s.buf[s.r : s.r+n]
	s.lines += bytes.Count(gone, []byte{'\n'})
	s.lineStart = gone[n-1] == '\n'
	s.consumed += int64(n)
	s.r += n
}

// skipBlank consumes what stands between documents: blank lines, comments, directives
// and separators. It tells whether JSON follows; if not, a YAML document begins, whose
// first line keeps its indentation. It gives io.EOF when nothing follows.
func (s *stream) skipBlank() (isJSON bool, err error) {
	if s.consumed == 0 {
		if err := s.skipByteOrderMark(); err != nil {
			return false, err
		}
	}
	for at := 0; ; {
		if ok, err := s.ensure(at + 1); err != nil {
			return false, err
		} else if !ok {
			return false, io.EOF
		}
		switch c := s.window()[at]; {
		case c == '\n':
			s.consume(at + 1)
			at = 0
		case c == ' ' || c == '\t' || c == '\r':
			if at++; at > s.limits.YAMLBytes {
				s.consume(at)
				at = 0
			}
		case c == '#' && (at > 0 || s.lineStart), c == '%' && at == 0 && s.lineStart:
			s.consume(at)
			at = 0
			if err := s.skipLine(); err != nil {
				return false, err
			}
		case c == '{':
			s.consume(at)
			return true, nil
		default:
			if at > 0 || !s.lineStart {
				return false, nil
			}
			n, err := s.separator()
			if n == 0 || err != nil {
				return false, err
			}
			s.consume(n)
		}
	}
}

// skipLine consumes the rest of a line.
func (s *stream) skipLine() error {
	for {
		if end := bytes.IndexByte(s.window(), '\n'); end >= 0 {
			s.consume(end + 1)
			return nil
		}
		s.consume(s.w - s.r)
		if err := s.fill(); err != nil {
			return err
		}
	}
}

// skipByteOrderMark consumes that of UTF-8 and refuses those of UTF-16.
func (s *stream) skipByteOrderMark() error {
	if _, err := s.ensure(3); err != nil {
		return err
	}
	start := s.window()
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		s.consume(3)
		s.lineStart = true
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return &Error{File: s.name, Err: errors.New("is in UTF-16: save it as UTF-8")}
	}
	return nil
}

// separator gives the length of the document marker at the start of the window, which
// is the start of a line, or 0.
func (s *stream) separator() (int, error) {
	if _, err := s.ensure(4); err != nil {
		return 0, err
	}
	if isSeparator(s.window()) {
		return 3, nil
	}
	return 0, nil
}

// isSeparator tells whether a line starts with "---" or "..." as a word of its own.
func isSeparator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}

// json consumes a JSON object and gives it in compact form. A text that only looks
// like JSON, as YAML's {a: b}, is read as YAML up to the next separator.
func (s *stream) json() ([]byte, error) {
	n, err := s.object()
	if err == nil {
		var blob []byte
		if blob, err = compactJSON(&s.compact, s.window()[:n]); err == nil {
			s.consume(n)
			return blob, nil
		}
		err = syntaxError(s.window()[:n], err)
	}
	var syntax *insideError
	if !errors.As(err, &syntax) {
		return nil, err
	}
	if blob, yerr := s.yaml(min(lenientBytes, s.limits.YAMLBytes)); yerr == nil {
		return blob, nil
	}
	return nil, err
}

// object gives the length of the JSON object at the start of the window, once the
// window holds all of it.
func (s *stream) object() (int, error) {
	b := bounds{limit: s.limits.Depth}
	for {
		n, err := b.scan(s.window())
		switch {
		case err != nil:
			return 0, err
		case n > s.limits.BlobBytes, n == 0 && len(s.window()) > s.limits.BlobBytes:
			return 0, s.unfinished(fmt.Errorf("is larger than %d bytes", s.limits.BlobBytes))
		case n > 0:
			return n, nil
		}
		if err := s.fill(); errors.Is(err, io.EOF) {
			return 0, s.unfinished(errors.New("ends in the middle of a JSON object"))
		} else if err != nil {
			return 0, err
		}
	}
}

// unfinished gives the reason why no end of an object was found: the syntax error in
// what there is of it, or else the one given.
func (s *stream) unfinished(otherwise error) error {
	text := s.window()[:min(len(s.window()), s.limits.BlobBytes)]
	err := syntaxError(text, otherwise)
	var syntax *insideError
	if errors.As(err, &syntax) && syntax.offset >= int64(len(text))-1 {
		// The text is right as far as it goes.
		return otherwise
	}
	return err
}

// syntaxError gives the place and kind of the first syntax error in a text that is not
// valid JSON, and the given error when there is none.
func syntaxError(text []byte, otherwise error) error {
	var value json.RawMessage
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal(text, &value), &syntax) {
		return otherwise
	}
	// The offset of a syntax error is that after the wrong character.
	before := text[:min(max(syntax.Offset-1, 0), int64(len(text)))]
	return &insideError{
		lines:  bytes.Count(before, []byte{'\n'}),
		offset: int64(len(before)),
		err:    fmt.Errorf("is not valid JSON: %w", syntax),
	}
}

// yaml consumes a YAML document of at most limit bytes and gives it as JSON.
func (s *stream) yaml(limit int) ([]byte, error) {
	n, err := s.document(limit)
	if err != nil {
		return nil, err
	}
	blob, err := yamlToJSON(s.window()[:n], s.limits)
	if err != nil {
		return nil, insideYAML(s.window()[:n], err)
	}
	s.consume(n)
	return blob, nil
}

// yamlLine is where the YAML parser says, in words, that an error is.
var yamlLine = regexp.MustCompile(`\byaml: line (\d+): `)

// insideYAML gives an error of the YAML parser the place that it has in the document.
func insideYAML(document []byte, err error) error {
	found := yamlLine.FindStringSubmatch(err.Error())
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

// document gives the length of the YAML document at the start of the window, once
// the window holds all of it.
func (s *stream) document(limit int) (int, error) {
	for at := 0; ; {
		if at > limit {
			return 0, tooLong(limit)
		}
		window := s.window()
		newline := bytes.IndexByte(window[at:], '\n')
		// The marker and the byte after it have to be there to be seen.
		if newline >= 0 && (s.eof || at+newline+5 <= len(window)) {
			at += newline + 1
			if isSeparator(window[at:]) {
				return at, nil
			}
			continue
		}
		if newline < 0 {
			at = len(window)
		}
		if err := s.fill(); errors.Is(err, io.EOF) {
			if newline >= 0 {
				continue
			}
			if at > limit {
				return 0, tooLong(limit)
			}
			return at, nil
		} else if err != nil {
			return 0, err
		}
	}
}

func tooLong(limit int) error {
	return fmt.Errorf("is a YAML document larger than %d bytes: write it as JSON, or split it", limit)
}
