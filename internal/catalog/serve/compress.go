package serve

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// compressFrom is the size from which a body is compressed, in bytes: a smaller one fits
// into one packet of 1,500 bytes with its headers anyway.
const compressFrom = 1400

// compressor compresses one body after the other.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// compressors keep compressors for further use, by encoding: one takes about a megabyte.
var compressors = map[string]*sync.Pool{
	// The levels are those that are as fast as the network. The options are valid, so that
	// there are no errors.
	encodingGzip: {New: func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, 3)
		return z
	}},
	encodingZstd: {New: func() any {
		z, _ := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10))
		return z
	}},
}

// compressing returns a writer that writes compressed, and a function that writes the end
// and releases it.
func compressing(w io.Writer, encoding string) (io.Writer, func() error) {
	pool := compressors[encoding]
	z := pool.Get().(compressor)
	z.Reset(w)
	return z, func() error {
		err := z.Close()
		z.Reset(io.Discard)
		pool.Put(z)
		return err
	}
}
