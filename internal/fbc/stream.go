package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

const (
	// chunkBytes is how much of a file is read at a time. A smaller file is not searched
	// for the ends of its documents before they are parsed; most files of a catalog are
	// smaller.
	chunkBytes = 512 << 10
	// minBuffer is the first size of a splitter's buffer.
	minBuffer = 64 << 10
)

// position is a place in a file and what is known of the text before it.
type position struct {
	offset int64
	// lines and documents are how many line breaks and documents stand before it.
	lines, documents int
	// lineStart says that a line begins there.
	lineStart bool
}

// chunk is a part of a file that holds whole documents.
type chunk struct {
	file  string
	start position
	text  []byte
	// final says that the file ends with the chunk, or that no more of it can be had.
	final bool
	// cut says that more of the file can be had, but that its next document is too large.
	cut bool
}

// splitter reads a file and splits it into chunks.
type splitter struct {
	src    io.Reader
	name   string
	limits Limits
	// size is how much is read at a time.
	size int

	// buf[r:w] is what was read and not given away; it begins at start.
	buf   []byte
	r, w  int
	start position
	// read is how many bytes of the file were read.
	read int64
	// err is why there is nothing more to be read.
	err error
}

func newSplitter(r io.Reader, name string, limits Limits, buffer []byte, start position) *splitter {
	return &splitter{src: r, name: name, limits: limits, size: chunkBytes, buf: buffer[:cap(buffer)], start: start, read: start.offset}
}

// begin is the position at the start of a file.
func begin() position { return position{lineStart: true} }

// next returns the next chunk, and io.EOF after the last. Its text is a part of the buffer.
// Documents that were read before the source fails are given before its error.
func (s *splitter) next() (chunk, error) {
	// Half a kilobyte more than a document may have is enough to see that it is too large.
	most := max(s.limits.BlobBytes, s.limits.YAMLBytes) + 512
	for want := s.size; ; want = min(2*want, most) {
		s.fill(want)
		c := chunk{file: s.name, start: s.start, text: s.buf[s.r:s.w]}
		if errors.Is(s.err, io.EOF) {
			if len(c.text) == 0 {
				return chunk{}, io.EOF
			}
			c.final = true
			s.take(s.w, 0)
			return c, nil
		}

		if n, documents := wholeDocuments(c.text, c.start.lineStart); n > 0 {
			c.text = c.text[:n]
			s.take(s.r+n, documents)
			return c, nil
		}

		switch {
		case s.err != nil:
			return chunk{}, s.err
		case len(c.text) >= most:
			c.final, c.cut = true, true
			s.take(s.w, 0)
			s.err = io.EOF
			return c, nil
		}
	}
}

// wholeDocuments returns the length of the part of a text that surely holds whole
// documents, and how many they are.
func wholeDocuments(text []byte, lineStart bool) (n, documents int) {
	for s := (scanner{text: text, lineStart: lineStart}); ; documents++ {
		end := -1
		switch s.begin() {
		case jsonObject:
			if size := jsontext.End(text[s.at:]); size > 0 {
				end = s.at + size
			}
		case yamlDocument:
			end = s.yamlEnd()
		}
		if end < 0 {
			return s.at, documents
		}
		s.move(end)
	}
}

// fill reads until there are so many bytes that were not given away, or no more.
func (s *splitter) fill(want int) {
	for s.err == nil && s.w-s.r < want {
		if s.w == len(s.buf) {
			s.makeRoom()
		}

		n, err := s.src.Read(s.buf[s.w:])
		s.w += n
		s.read += int64(n)
		switch {
		case s.read > s.limits.FileBytes:
			s.err = &Error{File: s.name, Err: fmt.Errorf("is larger than %d bytes", s.limits.FileBytes)}
		case errors.Is(err, io.EOF):
			s.err = io.EOF
			s.skipByteOrderMark()
		case err != nil:
			s.err = fmt.Errorf("reading %s: %w", s.name, err)
		case s.start.offset == 0 && s.w-s.r >= 3:
			s.skipByteOrderMark()
		}
	}
}

// makeRoom makes room at the end of the buffer.
func (s *splitter) makeRoom() {
	if s.r > 0 && s.w-s.r <= len(s.buf)/2 {
		copy(s.buf, s.buf[s.r:s.w])
	} else {
		grown := make([]byte, max(minBuffer, 2*len(s.buf)))
		copy(grown, s.buf[s.r:s.w])
		s.buf = grown
	}

	s.w -= s.r
	s.r = 0
}

// skipByteOrderMark skips that of UTF-8 and refuses those of UTF-16, at the start of the
// file.
func (s *splitter) skipByteOrderMark() {
	if s.start.offset > 0 {
		return
	}

	switch start := s.buf[s.r:s.w]; {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		s.r += 3
		s.start.offset = 3
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		s.err = &Error{File: s.name, Err: errors.New("is in UTF-16: save it as UTF-8")}
	}
}

// take returns away what stands before an index of the buffer.
func (s *splitter) take(to, documents int) {
	s.start = s.start.after(s.buf[s.r:to], documents)
	s.r = to
}

// after returns the position after a text with so many documents.
func (p position) after(text []byte, documents int) position {
	if len(text) == 0 {
		return p
	}
	return position{
		offset:    p.offset + int64(len(text)),
		lines:     p.lines + bytes.Count(text, []byte{'\n'}),
		documents: p.documents + documents,
		lineStart: endsLine(text),
	}
}

// detach goes on with another buffer, so that the chunks that were given are not
// overwritten.
func (s *splitter) detach(buffer []byte) {
	rest := s.buf[s.r:s.w]
	buffer = append(buffer[:0], rest...)
	s.buf = buffer[:cap(buffer)]
	s.r, s.w = 0, len(rest)
}

// ahead returns what follows a position in the last chunk, at least so many bytes of it if
// there are, without giving it away.
func (s *splitter) ahead(from position, want int) chunk {
	s.r -= int(s.start.offset - from.offset)
	s.start = from
	s.fill(want)
	return chunk{file: s.name, start: s.start, text: s.buf[s.r:s.w], final: true}
}

// skip returns away what stands before a position.
func (s *splitter) skip(to position) {
	s.r += int(to.offset - s.start.offset)
	s.start = to
}
