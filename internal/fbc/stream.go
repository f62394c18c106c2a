package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

const (
	// chunkBytes is the number of bytes that are read from a file at a time. Most files of a
	// catalog are smaller; they are parsed without searching for document boundaries first.
	chunkBytes = 512 << 10
	// minBufferBytes is the initial size of a splitter's buffer.
	minBufferBytes = 64 << 10
)

// position is an offset in a file with the state of the text before it.
type position struct {
	offset int64
	// lines and documents are the numbers of line breaks and documents before it.
	lines, documents int
	// lineStart is set if the offset is the start of a line.
	lineStart bool
}

// chunk is a part of a file with whole documents.
type chunk struct {
	file  string
	start position
	text  []byte
	// final is set if the file ends with the chunk, or if no more of it can be read.
	final bool
	// documentTooLarge is set if the file continues but its next document is too large.
	documentTooLarge bool
}

// chunkSplitter reads a file and splits it into chunks.
type chunkSplitter struct {
	reader io.Reader
	name   string
	limits Limits
	// readSize is the number of bytes that are read at a time.
	readSize int

	// buf[r:w] was read and not consumed yet. Its first byte is at start.
	buf   []byte
	r, w  int
	start position
	// bytesRead is the number of bytes of the file that were read.
	bytesRead int64
	// err is the reason why nothing more can be read.
	err error
}

func newChunkSplitter(r io.Reader, name string, limits Limits, buffer []byte, start position) *chunkSplitter {
	return &chunkSplitter{reader: r, name: name, limits: limits, readSize: chunkBytes, buf: buffer[:cap(buffer)], start: start, bytesRead: start.offset}
}

// startOfFile returns the position at the start of a file.
func startOfFile() position { return position{lineStart: true} }

// readNextChunk returns the next chunk, or io.EOF after the last one. The text of the chunk shares
// the buffer. Documents that were read before a read error are returned before that error.
func (s *chunkSplitter) readNextChunk() (chunk, error) {
	// Half a kilobyte above the limit is enough to detect a document that is too large.
	most := max(s.limits.BlobBytes, s.limits.YAMLBytes) + 512
	for want := s.readSize; ; want = min(2*want, most) {
		s.fillBuffer(want)
		c := chunk{file: s.name, start: s.start, text: s.buf[s.r:s.w]}
		if errors.Is(s.err, io.EOF) {
			if len(c.text) == 0 {
				return chunk{}, io.EOF
			}
			c.final = true
			s.consumeUntil(s.w, 0)
			return c, nil
		}

		if n, documents := measureWholeDocuments(c.text, c.start.lineStart); n > 0 {
			c.text = c.text[:n]
			s.consumeUntil(s.r+n, documents)
			return c, nil
		}

		switch {
		case s.err != nil:
			return chunk{}, s.err
		case len(c.text) >= most:
			c.final, c.documentTooLarge = true, true
			s.consumeUntil(s.w, 0)
			s.err = io.EOF
			return c, nil
		}
	}
}

// measureWholeDocuments returns the length of the text's prefix that certainly consists of whole
// documents, and the number of these documents.
func measureWholeDocuments(text []byte, lineStart bool) (n, documents int) {
	for s := (scanner{text: text, lineStart: lineStart}); ; documents++ {
		end := -1
		switch s.skipToDocument() {
		case jsonObject:
			if size := jsontext.End(text[s.offset:]); size > 0 {
				end = s.offset + size
			}
		case yamlDocument:
			end = s.findYAMLEnd()
		}
		if end < 0 {
			return s.offset, documents
		}
		s.moveToOffset(end)
	}
}

// fillBuffer reads until want bytes are unconsumed, or until nothing more can be read.
func (s *chunkSplitter) fillBuffer(want int) {
	for s.err == nil && s.w-s.r < want {
		if s.w == len(s.buf) {
			s.growBuffer()
		}

		n, err := s.reader.Read(s.buf[s.w:])
		s.w += n
		s.bytesRead += int64(n)
		switch {
		case s.bytesRead > s.limits.FileBytes:
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

// growBuffer makes room at the end of the buffer. It moves the unconsumed bytes or grows the
// buffer.
func (s *chunkSplitter) growBuffer() {
	if s.r > 0 && s.w-s.r <= len(s.buf)/2 {
		copy(s.buf, s.buf[s.r:s.w])
	} else {
		grown := make([]byte, max(minBufferBytes, 2*len(s.buf)))
		copy(grown, s.buf[s.r:s.w])
		s.buf = grown
	}

	s.w -= s.r
	s.r = 0
}

// skipByteOrderMark skips the byte order mark of UTF-8 at the start of the file. It fails for
// those of UTF-16, whose text has no documents.
func (s *chunkSplitter) skipByteOrderMark() {
	if s.start.offset > 0 {
		return
	}

	switch start := s.buf[s.r:s.w]; {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		s.r += 3
		s.start.offset = 3
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		s.err = &Error{File: s.name, Err: errors.New("is in UTF-16: save it as UTF-8")}
		s.w = s.r
	}
}

// consumeUntil marks the buffer up to an index as consumed.
func (s *chunkSplitter) consumeUntil(to, documents int) {
	s.start = s.start.advancedOverText(s.buf[s.r:to], documents)
	s.r = to
}

// advancedOverText returns the position after a text with the given number of documents.
func (p position) advancedOverText(text []byte, documents int) position {
	if len(text) == 0 {
		return p
	}
	return position{
		offset:    p.offset + int64(len(text)),
		lines:     p.lines + bytes.Count(text, []byte{'\n'}),
		documents: p.documents + documents,
		lineStart: endsWithLineBreak(text),
	}
}

// switchBuffer continues with another buffer, so that the text of earlier chunks is not
// overwritten.
func (s *chunkSplitter) switchBuffer(buffer []byte) {
	rest := s.buf[s.r:s.w]
	buffer = append(buffer[:0], rest...)
	s.buf = buffer[:cap(buffer)]
	s.r, s.w = 0, len(rest)
}

// peekFromPosition returns the text from a position within the last chunk, at least want bytes if
// the file has them. It does not consume them.
func (s *chunkSplitter) peekFromPosition(from position, want int) chunk {
	s.r -= int(s.start.offset - from.offset)
	s.start = from
	s.fillBuffer(want)
	return chunk{file: s.name, start: s.start, text: s.buf[s.r:s.w], final: true}
}

// skipToPosition consumes everything before a position.
func (s *chunkSplitter) skipToPosition(to position) {
	s.r += int(to.offset - s.start.offset)
	s.start = to
}
