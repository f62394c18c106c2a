package serve

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipFrom is the size from which a body is compressed, in bytes: a smaller one fits
// into one packet of 1,500 bytes with its headers anyway.
const gzipFrom = 1400

// gzipPool keeps compressors for further use: one takes about 600 KiB.
type gzipPool struct{ pool sync.Pool }

func newGzipPool() *gzipPool {
	return &gzipPool{pool: sync.Pool{New: func() any {
		// The fastest level halves the time of the default one and adds a tenth to the
		// size of catalogs. The constant is valid, so that there is no error.
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
		return z
	}}}
}

func (p *gzipPool) get(w io.Writer) *gzip.Writer {
	z := p.pool.Get().(*gzip.Writer)
	z.Reset(w)
	return z
}

func (p *gzipPool) put(z *gzip.Writer) {
	z.Reset(io.Discard)
	p.pool.Put(z)
}
