package serve

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// minCompressedSize is the size above which a body is compressed, in bytes. A smaller body fits into one
// packet of 1,500 bytes together with its headers.
const minCompressedSize = 1400

// compressor is a compressing writer that can be reused.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// compressorPools contain the idle compressors of each encoding. A compressor takes about a megabyte.
var compressorPools = map[string]*sync.Pool{
	// The levels are chosen to be as fast as the network. The options are valid, so the errors are nil.
	encodingGzip: {New: func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, 3)
		return z
	}},
	encodingZstd: {New: func() any {
		z, _ := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10))
		return z
	}},
}

// newPooledCompressor returns a compressing writer from the pool, and a function that closes the writer
// and returns it to the pool.
func newPooledCompressor(w io.Writer, encoding string) (io.Writer, func() error) {
	pool := compressorPools[encoding]
	z := pool.Get().(compressor)
	z.Reset(w)
	return z, func() error {
		err := z.Close()
		z.Reset(io.Discard)
		pool.Put(z)
		return err
	}
}
