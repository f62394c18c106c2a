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

// Map yields the result of f for each blob of a catalog, in the order of Walk. It calls f
// concurrently on all processors. f runs ahead of the consumer, so some of its results may never
// be yielded.
//
// Map stops at the first error, of Walk or of f, and yields it with a zero value. When the
// iteration ends, by itself or by the consumer, no call of f is running. A panic of f is raised
// in the consumer.
//
// For each processor, Map holds a few hundred kilobytes of the catalog and the results of f for
// them. Memory does not grow with the catalog, only with the largest blob.
func Map[T any](fsys fs.FS, limits Limits, f func(Meta) (T, error)) iter.Seq2[T, error] {
	return (&blobMapper[T]{fsys: fsys, limits: limits.withDefaults(), readSize: chunkBytes, mapBlob: cloneBlobFor(f)}).yieldAllResults
}

// cloneBlobFor wraps a function that may keep the blob. The wrapper may be called with a blob
// that is only valid during the call.
func cloneBlobFor[T any](f func(Meta) (T, error)) func(Meta) (T, error) {
	return func(m Meta) (T, error) {
		m.Blob = bytes.Clone(m.Blob)
		return f(m)
	}
}

// blobMapper implements Map. One goroutine reads files and splits them into chunks. Each chunk is
// parsed in its own goroutine, which calls mapBlob for each blob.
type blobMapper[T any] struct {
	fsys   fs.FS
	limits Limits
	// readSize is the number of bytes that are read from a file at a time.
	readSize int
	// mapBlob is called for each blob, which is valid during the call.
	mapBlob func(Meta) (T, error)
	// onFileOpened, if set, is called for each file with blobs before they are yielded.
	onFileOpened func(name string, info fs.FileInfo)

	// freeSlots are the slots that are not in use.
	freeSlots chan *parseSlot
	runner    *orderedRunner[chunkResult[T]]
}

// parseSlot holds the resources for reading and parsing one chunk.
type parseSlot struct {
	buffer []byte
	parser parser
}

// chunkResult is the result of parsing a chunk.
type chunkResult[T any] struct {
	file   string
	info   fs.FileInfo
	values []T
	err    error
	// incompleteAt is the position of a document that may be longer than the chunk.
	incompleteAt *position
}

func (m *blobMapper[T]) yieldAllResults(yield func(T, error) bool) {
	// One chunk is read while the others are parsed.
	slots := runtime.GOMAXPROCS(0) + 1
	m.freeSlots = make(chan *parseSlot, slots)
	for range slots {
		m.freeSlots <- &parseSlot{parser: parser{limits: m.limits}}
	}

	c := &resultConsumer[T]{blobMapper: m, yield: yield}
	err := runTasksInOrder(slots, m.walkCatalogFiles, c.yieldChunkResult)
	if err != nil && !errors.Is(err, errStopped) {
		var zero T
		yield(zero, err)
	}
}

// walkCatalogFiles reads all files and submits their chunks.
func (m *blobMapper[T]) walkCatalogFiles(runner *orderedRunner[chunkResult[T]]) error {
	m.runner = runner
	return (&walker{fsys: m.fsys, limits: m.limits, visit: m.submitFileChunks}).walkFolder(".", 0, nil)
}

// submitFileChunks reads one file and submits its chunks.
func (m *blobMapper[T]) submitFileChunks(name string) error {
	file, info, err := openCatalogFile(m.fsys, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // It was only read.
	var s *chunkSplitter
	for {
		var slot *parseSlot
		select {
		case slot = <-m.freeSlots:
		case <-m.runner.stop:
			return errStopped
		}

		if s == nil {
			s = newChunkSplitter(file, name, m.limits, slot.buffer, startOfFile())
			s.readSize = m.readSize
		} else {
			s.switchBuffer(slot.buffer)
		}

		chunk, err := s.readNextChunk()
		slot.buffer = s.buf
		if err != nil {
			m.freeSlots <- slot
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}

		err = m.runner.submitTask(func() chunkResult[T] {
			defer m.releaseParseSlot(slot)
			out := m.parseChunkBlobs(chunk, &slot.parser)
			out.file, out.info = name, info
			return out
		})
		if err != nil {
			return err
		}
	}
}

// openCatalogFile opens a file for reading and returns its file info.
func openCatalogFile(fsys fs.FS, name string) (fs.File, fs.FileInfo, error) {
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

// maxReusedBuffer is the maximum size of a buffer that is reused. Larger ones, for large blobs,
// are dropped.
const maxReusedBuffer = 4 * chunkBytes

// releaseParseSlot makes a slot available again.
func (m *blobMapper[T]) releaseParseSlot(s *parseSlot) {
	s.buffer = resetReusedBuffer(s.buffer)
	s.parser.blobBuffer = resetReusedBuffer(s.parser.blobBuffer)
	s.parser.yamlBuffer = resetReusedBuffer(s.parser.yamlBuffer)
	m.freeSlots <- s
}

// parseChunkBlobs parses a chunk and calls mapBlob for each blob.
func (m *blobMapper[T]) parseChunkBlobs(c chunk, p *parser) (out chunkResult[T]) {
	p.startChunk(c)
	for !m.runner.isConsumerStopped() {
		meta, err := p.parseNextBlob()
		switch {
		case errors.Is(err, io.EOF):
			return out
		case errors.Is(err, errMaybeIncomplete):
			here := p.current
			out.incompleteAt = &here
			return out
		}

		var value T
		if err == nil {
			value, err = m.mapBlob(meta)
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

// resultConsumer yields the results of the chunks.
type resultConsumer[T any] struct {
	*blobMapper[T]
	yield func(T, error) bool
	// file is the file of the last result.
	file string
	// readToEnd is set if the rest of the file was read without using its chunks.
	readToEnd bool
}

func (c *resultConsumer[T]) yieldChunkResult(out chunkResult[T]) error {
	if out.file == c.file && c.readToEnd {
		return nil
	}

	if out.file != c.file {
		c.file, c.readToEnd = out.file, false
		if c.onFileOpened != nil {
			c.onFileOpened(out.file, out.info)
		}
	}

	for _, value := range out.values {
		if !c.yield(value, nil) {
			return errStopped
		}
	}

	if out.incompleteAt != nil {
		c.readToEnd = true
		return c.readRemainder(*out.incompleteAt)
	}

	return out.err
}

// readRemainder reads the file from a position to its end.
func (c *resultConsumer[T]) readRemainder(from position) error {
	file, _, err := openCatalogFile(c.fsys, c.file)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // It was only read.
	if err := seekFromStart(file, from.offset); err != nil {
		return fmt.Errorf("reading %s: %w", c.file, err)
	}

	s := newChunkSplitter(file, c.file, c.limits, nil, from)
	s.readSize = c.readSize
	return readBlobsOfFile(s, func(meta Meta) error {
		value, err := c.mapBlob(meta)
		if err == nil && !c.yield(value, nil) {
			err = errStopped
		}
		return err
	})
}

// seekFromStart moves to an offset of a file that was just opened.
func seekFromStart(file fs.File, offset int64) error {
	if seeker, ok := file.(io.Seeker); ok {
		_, err := seeker.Seek(offset, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, file, offset)
	return err
}
