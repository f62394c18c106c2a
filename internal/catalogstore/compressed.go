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

// Encoding is the name of a compression as an HTTP content coding.
type Encoding string

// Encodings of the compressed forms of a catalog.
const (
	Gzip Encoding = "gzip"
	Zstd Encoding = "zstd"
)

// Encodings lists all encodings, the one with the better compression first.
var Encodings = []Encoding{Zstd, Gzip}

const (
	// minCompressibleSize is the minimum size, in bytes, of content with a stored compressed form.
	// Compressing smaller content takes about a millisecond.
	minCompressibleSize = 256 << 10
	// minCompressionRatio is the minimum ratio of uncompressed to compressed size. A form with a lower
	// ratio is not kept, which bounds the use of disk space. Typical catalogs have a ratio of 6 to 10.
	minCompressionRatio = 3
	// compressionRetryInterval is the time between attempts after a failure, such as a full disk.
	compressionRetryInterval = 10 * time.Minute
)

// The file of a compressed form ends with a trailer: a magic and the SHA-256 of the compressed
// content.
const (
	compressedMagic   = "MAINZIP1"
	compressedTrailer = len(compressedMagic) + sha256.Size
)

// compressedForm is a compressed form of all blobs of a content file, stored on disk.
type compressedForm struct {
	mu sync.Mutex
	// inProgress is set while the form is being opened or created. abandoned is set if no further
	// attempt is made. After a failure, the next attempt is not made before retryAfter.
	inProgress, abandoned bool
	retryAfter            time.Time
	// handle is the open file, or nil if there is none. stat is its state when it was opened.
	handle *os.File
	stat   os.FileInfo
	size   int64
}

// Compressed returns all blobs in a compressed form, which can be read until the Content is closed. The
// form is created once and stored on disk. The first call starts its creation in the background, on one
// core. Compressed returns false while there is no compressed form.
func (c *Content) Compressed(encoding Encoding) (*io.SectionReader, bool) {
	kept := c.file.compressedForms[encoding]
	if kept == nil || c.file.index.bytes < minCompressibleSize {
		return nil, false
	}

	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.closeIfChanged()
	switch {
	case kept.handle != nil:
		return io.NewSectionReader(kept.handle, 0, kept.size), true
	case kept.inProgress, kept.abandoned, time.Now().Before(kept.retryAfter):
		return nil, false
	}

	kept.inProgress = true
	c.compressor.files.runInBackground(c.file, func() { c.compressor.loadForm(c.file, encoding, kept) })
	return nil, false
}

// compressor creates compressed forms of content files, one at a time.
type compressor struct {
	files *contentFiles
	// turn is a semaphore of one.
	turn chan struct{}
}

// loadForm opens or creates a compressed form, and stores the result in kept.
func (c *compressor) loadForm(f *contentFile, encoding Encoding, kept *compressedForm) {
	opened, size, err := c.openOrCompress(f, encoding)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.inProgress = false
	if err == nil {
		kept.stat, err = opened.Stat()
	}

	switch {
	case err == nil:
		kept.handle, kept.size = opened, size
	case errors.Is(err, errPoorCompression):
		kept.abandoned = true
	default:
		// Responses are compressed on request until the next attempt.
		kept.retryAfter = time.Now().Add(compressionRetryInterval)
	}
}

// closeIfChanged closes the file if it was changed in place, so that it is created again.
func (c *compressedForm) closeIfChanged() {
	if c.handle == nil {
		return
	}
	if now, err := c.handle.Stat(); err != nil || !isSameFile(now, c.stat) {
		_ = c.handle.Close() // The file was only read.
		c.handle = nil
	}
}

func (c *compressedForm) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle != nil {
		_ = c.handle.Close() // The file was only read.
		c.handle = nil
	}
	c.abandoned = true
}

var (
	errPoorCompression = errors.New("the compression ratio is too low")
	errContentReplaced = errors.New("the content was replaced")
)

// openOrCompress opens or creates the compressed form of the blobs of a file and returns its size in
// bytes. The compressor processes one form at a time.
func (c *compressor) openOrCompress(f *contentFile, encoding Encoding) (*os.File, int64, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-f.stop:
		return nil, 0, errContentReplaced
	}

	path := f.path + "." + string(encoding)
	if opened, size, err := openCompressed(path); err == nil {
		return opened, size, nil
	}

	out, err := c.files.volume.createContent()
	if err != nil {
		return nil, 0, err
	}

	size, err := f.writeCompressed(&spaceWriter{Writer: out, volume: c.files.volume}, encoding)
	if err == nil {
		err = c.files.renameCompressedForm(f, out, path)
	}
	if err != nil {
		out.closeAndDiscard()
		return nil, 0, err
	}

	return out.File, size, nil
}

// writeCompressed writes all blobs of a file in compressed form with the trailer, and returns the
// compressed size without the trailer.
func (f *contentFile) writeCompressed(out io.Writer, encoding Encoding) (int64, error) {
	sums := sha256.New()
	buffered := bufio.NewWriterSize(out, readBufferSize)
	bounded := &boundedWriter{w: io.MultiWriter(buffered, sums), remaining: f.index.bytes / minCompressionRatio}
	z, err := newCompressor(encoding, bounded)
	if err != nil {
		return 0, err
	}
	if err := f.copyBlobsTo(z); err != nil {
		_ = z.Close() // Its output is discarded.
		return 0, err
	}
	if err := z.Close(); err != nil {
		return 0, err
	}
	if _, err := buffered.Write(append([]byte(compressedMagic), sums.Sum(nil)...)); err != nil {
		return 0, err
	}

	return f.index.bytes/minCompressionRatio - bounded.remaining, buffered.Flush()
}

// copyBlobsTo writes all blobs to w. It returns errContentReplaced if the file is retired.
func (f *contentFile) copyBlobsTo(w io.Writer) error {
	in := Selection{Bytes: f.index.bytes, file: f, spans: []span{{length: f.index.bytes}}}.Reader()
	buffer := make([]byte, readBufferSize)
	for {
		select {
		case <-f.stop:
			return errContentReplaced
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

// newCompressor returns a compressor that favors ratio over speed, because its output is stored.
func newCompressor(encoding Encoding, w io.Writer) (io.WriteCloser, error) {
	if encoding == Gzip {
		// Level 6 takes 0.2 s for 67 MB. Level 9 takes 0.7 s and saves one percent more.
		return gzip.NewWriterLevel(w, 6)
	}
	// A window of 1 MiB covers the blobs of several versions of a package, which contain most of the
	// repetitions of a catalog. It limits memory to 8 MB, and bounds the memory of the client.
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
}

// boundedWriter returns errPoorCompression for a write beyond the remaining bytes.
type boundedWriter struct {
	w         io.Writer
	remaining int64
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > b.remaining {
		return 0, errPoorCompression
	}
	b.remaining -= int64(len(p))
	return b.w.Write(p)
}

// openCompressed opens a compressed form of an earlier process and verifies its checksum. It returns
// the file and the size of its content in bytes.
func openCompressed(path string) (*os.File, int64, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}

	size, err := verifyCompressed(opened)
	if err != nil {
		_ = opened.Close() // The file was only read.
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}

	return opened, size, nil
}

func verifyCompressed(opened *os.File) (int64, error) {
	stat, err := opened.Stat()
	if err != nil {
		return 0, err
	}

	size := stat.Size() - int64(compressedTrailer)
	if size < 0 {
		return 0, errFormat
	}

	sums := sha256.New()
	if _, err := io.CopyBuffer(sums, io.NewSectionReader(opened, 0, size), make([]byte, readBufferSize)); err != nil {
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
