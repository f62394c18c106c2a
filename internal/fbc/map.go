package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
)

// Map yields what a function makes of each blob of a catalog, in the order of Walk. The
// function is called on all processors at once, for some blobs ahead of the one that was
// yielded last, and for some that never are.
//
// The first error ends it, with a zero value: one of Walk's or of the function. When it
// ends, by itself or by the consumer, no call of the function is under way. A panic of the
// function comes up in the consumer.
//
// Memory grows with the largest blob and with what the function gives for a few hundred
// kilobytes of the catalog for each processor, not with the catalog.
func Map[T any](fsys fs.FS, limits Limits, f func(Meta) (T, error)) iter.Seq2[T, error] {
	return (&mapping[T]{fsys: fsys, limits: limits.withDefaults(), size: chunkBytes, f: owned(f)}).all
}

// owned makes a function that is given blobs that are only valid during its call from one
// that may keep them.
func owned[T any](f func(Meta) (T, error)) func(Meta) (T, error) {
	return func(m Meta) (T, error) {
		m.Blob = bytes.Clone(m.Blob)
		return f(m)
	}
}

// mapping is a Map: files are read and cut into chunks in one goroutine; for each chunk
// another parses the documents and calls the function.
type mapping[T any] struct {
	fsys   fs.FS
	limits Limits
	// size is how much of a file is read at a time.
	size int
	// f is called for each blob, which is valid during the call.
	f func(Meta) (T, error)
	// opened, if there is one, is called for each file that has blobs before they are
	// yielded.
	opened func(name string, info fs.FileInfo)

	// free are the slots that are not in use.
	free     chan *slot
	sequence *sequence[outcome[T]]
}

// slot is what is needed to read and parse one chunk.
type slot struct {
	buffer []byte
	parser parser
}

// outcome is what became of a chunk.
type outcome[T any] struct {
	file   string
	info   fs.FileInfo
	values []T
	err    error
	// unsure is the position of a document that may be longer than the chunk.
	unsure *position
}

func (m *mapping[T]) all(yield func(T, error) bool) {
	// One chunk is read while the others are worked on.
	slots := runtime.GOMAXPROCS(0) + 1
	m.free = make(chan *slot, slots)
	for range slots {
		m.free <- &slot{parser: parser{limits: m.limits}}
	}

	c := &consumer[T]{mapping: m, yield: yield}
	err := inOrder(slots, m.walk, c.take)
	if err != nil && !errors.Is(err, errStopped) {
		var zero T
		yield(zero, err)
	}
}

// walk reads the files and has their chunks worked on.
func (m *mapping[T]) walk(s *sequence[outcome[T]]) error {
	m.sequence = s
	return (&walker{fsys: m.fsys, limits: m.limits, visit: m.file}).folder(".", 0, nil)
}

// file reads one file.
func (m *mapping[T]) file(name string) error {
	file, info, err := openFile(m.fsys, name)
	if err != nil {
		return err
	}

	defer func() { _ = file.Close() }() // It was only read.
	var s *splitter
	for {
		var slot *slot
		select {
		case slot = <-m.free:
		case <-m.sequence.stop:
			return errStopped
		}

		if s == nil {
			s = newSplitter(file, name, m.limits, slot.buffer, begin())
			s.size = m.size
		} else {
			s.detach(slot.buffer)
		}

		chunk, err := s.next()
		slot.buffer = s.buf
		if err != nil {
			m.free <- slot
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}

		err = m.sequence.submit(func() outcome[T] {
			defer m.release(slot)
			out := m.work(chunk, &slot.parser)
			out.file, out.info = name, info
			return out
		})
		if err != nil {
			return err
		}
	}
}

// openFile opens a file to be read.
func openFile(fsys fs.FS, name string) (fs.File, fs.FileInfo, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", name, err)
	}

	info, err := file.Stat()
	if err != nil {
		_ = file.Close() // It was not used.
		return nil, nil, fmt.Errorf("opening %s: %w", name, err)
	}

	return file, info, nil
}

// keptBuffer is the largest buffer that is used again: one of a larger blob is not.
const keptBuffer = 4 * chunkBytes

// release returns a slot back.
func (m *mapping[T]) release(s *slot) {
	s.buffer = kept(s.buffer)
	s.parser.scratch = kept(s.parser.scratch)
	s.parser.loose = kept(s.parser.loose)
	m.free <- s
}

// work parses a chunk and calls the function for each blob.
func (m *mapping[T]) work(c chunk, p *parser) (out outcome[T]) {
	p.reset(c)
	for !m.sequence.stopped() {
		meta, err := p.next()
		switch {
		case errors.Is(err, io.EOF):
			return out
		case errors.Is(err, errUnsure):
			here := p.here
			out.unsure = &here
			return out
		}

		var value T
		if err == nil {
			value, err = m.f(meta)
		}
		if err != nil {
			out.err = err
			return out
		}

		out.values = append(out.values, value)
	}

	out.err = errStopped
	return out
}

// consumer yields what the chunks give.
type consumer[T any] struct {
	*mapping[T]
	yield func(T, error) bool
	// file is the one that was yielded last.
	file string
	// done says that it was read to its end apart from its chunks.
	done bool
}

func (c *consumer[T]) take(out outcome[T]) error {
	if out.file == c.file && c.done {
		return nil
	}

	if out.file != c.file {
		c.file, c.done = out.file, false
		if c.opened != nil {
			c.opened(out.file, out.info)
		}
	}

	for _, value := range out.values {
		if !c.yield(value, nil) {
			return errStopped
		}
	}

	if out.unsure != nil {
		c.done = true
		return c.rest(*out.unsure)
	}

	return out.err
}

// rest reads the file from a position on.
func (c *consumer[T]) rest(from position) error {
	file, _, err := openFile(c.fsys, c.file)
	if err != nil {
		return err
	}

	defer func() { _ = file.Close() }() // It was only read.
	if err := seek(file, from.offset); err != nil {
		return fmt.Errorf("reading %s: %w", c.file, err)
	}

	s := newSplitter(file, c.file, c.limits, nil, from)
	s.size = c.size
	return readBlobs(s, func(meta Meta) error {
		value, err := c.f(meta)
		if err == nil && !c.yield(value, nil) {
			err = errStopped
		}
		return err
	})
}

// seek goes to an offset of a file that was just opened.
func seek(file fs.File, offset int64) error {
	if seeker, ok := file.(io.Seeker); ok {
		_, err := seeker.Seek(offset, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, file, offset)
	return err
}
