package catalogstore

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Encoding is a compression, by its name in HTTP.
type Encoding string

// The encodings that all blobs of a catalog are kept in.
const (
	Gzip Encoding = "gzip"
	Zstd Encoding = "zstd"
)

// Encodings are all of them, the better ones first.
var Encodings = []Encoding{Zstd, Gzip}

const (
	// keepFrom is the size, in bytes, from which a compressed form is kept: compressing
	// less takes a millisecond.
	keepFrom = 256 << 10
	// keepShare bounds the disk: a form that is not at least this many times smaller than
	// the blobs is not kept. Catalogs become six to ten times smaller.
	keepShare = 3
	// keepAgain is how long nothing is tried after a failure, as of a full disk.
	keepAgain = 10 * time.Minute
)

// A file of a compressed form has, after its content, a magic and the SHA-256 of the
// content.
const (
	compressedMagic   = "MAINZIP1"
	compressedTrailer = len(compressedMagic) + sha256.Size
)

// compressed is a compressed form of all blobs of a file, kept on disk.
type compressed struct {
	mu sync.Mutex
	// busy says that it is being made. again is when it may be tried to make it, once
	// that has failed; useless that it need not be.
	busy, useless bool
	again         time.Time
	// os is the file, nil until there is one, and stat how it was when it was opened.
	os    *os.File
	stat  os.FileInfo
	bytes int64
}

// Compressed returns every blob in a compressed form, which is made once, kept on disk, and
// read until the Content is closed. It is false while there is none: the first call begins
// to make it, on one core, and other calls do not wait for that.
func (c *Content) Compressed(encoding Encoding) (*io.SectionReader, bool) {
	kept := c.file.kept[encoding]
	if kept == nil || c.file.index.bytes < keepFrom {
		return nil, false
	}

	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.dropChanged()
	switch {
	case kept.os != nil:
		return io.NewSectionReader(kept.os, 0, kept.bytes), true
	case kept.busy, kept.useless, time.Now().Before(kept.again):
		return nil, false
	}

	kept.busy = true
	c.store.background(c.file, func() { c.store.keep(c.file, encoding, kept) })
	return nil, false
}

// keep opens a compressed form, or makes it.
func (s *Store) keep(f *file, encoding Encoding, kept *compressed) {
	opened, size, err := s.compressedForm(f, encoding)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.busy = false
	if err == nil {
		kept.stat, err = opened.Stat()
	}

	switch {
	case err == nil:
		kept.os, kept.bytes = opened, size
	case errors.Is(err, errNotWorthIt):
		kept.useless = true
	default:
		// Nothing is lost but time: who asks is answered without it.
		kept.again = time.Now().Add(keepAgain)
	}
}

// dropChanged closes the file if it was changed in place: it is made again.
func (c *compressed) dropChanged() {
	if c.os == nil {
		return
	}
	if now, err := c.os.Stat(); err != nil || !same(now, c.stat) {
		_ = c.os.Close() // It was only read.
		c.os = nil
	}
}

func (c *compressed) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.os != nil {
		_ = c.os.Close() // It was only read.
		c.os = nil
	}
	c.useless = true
}

var (
	errNotWorthIt = errors.New("the compressed form is hardly smaller")
	errStopped    = errors.New("the content was replaced")
)

// compressedForm opens or makes the compressed form of a file's blobs, one at a time in
// all of the store.
func (s *Store) compressedForm(f *file, encoding Encoding) (*os.File, int64, error) {
	select {
	case s.compressing <- struct{}{}:
		defer func() { <-s.compressing }()
	case <-f.stop:
		return nil, 0, errStopped
	}

	place := f.path + "." + string(encoding)
	if opened, size, err := openCompressed(place); err == nil {
		return opened, size, nil
	}

	out, err := s.disk.create(s.contentDir())
	if err != nil {
		return nil, 0, err
	}

	size, err := f.compress(&spaceWriter{Writer: out, store: s}, encoding)
	if err == nil {
		err = s.settle(f, out, place)
	}
	if err != nil {
		out.discard()
		return nil, 0, err
	}

	return out.File, size, nil
}

// settle moves a compressed form to its place, unless the content has gone meanwhile: its
// forms are removed with it.
func (s *Store) settle(f *file, out *newFile, place string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[f.content] != f {
		return errStopped
	}
	return out.move(place)
}

// compress writes all blobs of a file, compressed.
func (f *file) compress(out io.Writer, encoding Encoding) (int64, error) {
	sums := sha256.New()
	buffered := bufio.NewWriterSize(out, chunkBytes)
	bounded := &boundedWriter{w: io.MultiWriter(buffered, sums), left: f.index.bytes / keepShare}
	z, err := newCompressor(encoding, bounded)
	if err != nil {
		return 0, err
	}
	if err := f.feed(z); err != nil {
		_ = z.Close() // What it writes is discarded.
		return 0, err
	}
	if err := z.Close(); err != nil {
		return 0, err
	}
	if _, err := buffered.Write(append([]byte(compressedMagic), sums.Sum(nil)...)); err != nil {
		return 0, err
	}

	return f.index.bytes/keepShare - bounded.left, buffered.Flush()
}

// feed writes all blobs, until the file is retired.
func (f *file) feed(w io.Writer) error {
	in := Selection{Bytes: f.index.bytes, file: f, spans: []span{{length: f.index.bytes}}}.Reader()
	buffer := make([]byte, chunkBytes)
	for {
		select {
		case <-f.stop:
			return errStopped
		default:
		}

		n, err := in.Read(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(buffer[:n]); err != nil {
			return err
		}
	}
}

// newCompressor makes one that takes its time, as its work is kept.
func newCompressor(encoding Encoding, w io.Writer) (io.WriteCloser, error) {
	if encoding == Gzip {
		// Level 6 takes 0.2 s for 67 MB; 9 takes 0.7 s to save one percent more.
		return gzip.NewWriterLevel(w, 6)
	}
	// A window of 1 MiB has the blobs of several versions of a package, which is where
	// catalogs repeat themselves, and bounds the memory here, to 8 MB, and at the client.
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
}

// boundedWriter refuses to write more than what is left.
type boundedWriter struct {
	w    io.Writer
	left int64
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, errNotWorthIt
	}
	b.left -= int64(len(p))
	return b.w.Write(p)
}

// openCompressed opens a compressed form that an earlier process left, and checks it.
func openCompressed(path string) (*os.File, int64, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}

	size, err := checkCompressed(opened)
	if err != nil {
		_ = opened.Close() // It was only read.
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}

	return opened, size, nil
}

func checkCompressed(opened *os.File) (int64, error) {
	stat, err := opened.Stat()
	if err != nil {
		return 0, err
	}

	size := stat.Size() - int64(compressedTrailer)
	if size < 0 {
		return 0, errFormat
	}

	sums := sha256.New()
	if _, err := io.CopyBuffer(sums, io.NewSectionReader(opened, 0, size), make([]byte, chunkBytes)); err != nil {
		return 0, err
	}

	end := make([]byte, compressedTrailer)
	if _, err := opened.ReadAt(end, size); err != nil {
		return 0, err
	}
	if string(end) != compressedMagic+string(sums.Sum(nil)) {
		return 0, errChecksum
	}

	return size, nil
}
