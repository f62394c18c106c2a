package content

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"
)

// Sums find out whether files have changed by accident: another catalog, a cut-off copy,
// a broken disk. They are no protection against whoever means harm, who could as well
// write a new sum; such a one must not be able to write the files.
//
// A file is summed in pieces, and the sums of the pieces are summed again, so that all
// processors take part also when there is one large file.
const (
	// pieceBytes is the size of a piece. A piece takes about 0.2 ms: long beside what
	// handing it to a processor takes, short beside the whole.
	pieceBytes = 1 << 20
	// readBytes is how much is read at once: it stays in a processor's cache.
	readBytes = 128 << 10
)

// summer sums files side by side.
type summer struct {
	group *errgroup.Group
	ctx   context.Context
	idle  chan []byte
}

func newSummer(ctx context.Context) *summer {
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	group.SetLimit(workers)
	return &summer{group: group, ctx: ctx, idle: make(chan []byte, workers)}
}

// file sums so many bytes of a file, which open gives again for each piece. The sums of
// the pieces are there when wait has returned.
func (s *summer) file(size int64, open func() (io.ReaderAt, func() error, error)) []uint64 {
	sums := make([]uint64, (size+pieceBytes-1)/pieceBytes)
	for i := range sums {
		s.group.Go(func() error {
			if err := s.ctx.Err(); err != nil {
				return err
			}

			r, release, err := open()
			if err != nil {
				return err
			}

			offset := int64(i) * pieceBytes
			sums[i], err = s.piece(io.NewSectionReader(r, offset, min(pieceBytes, size-offset)))
			if releaseErr := release(); err == nil {
				err = releaseErr
			}

			return err
		})
	}

	return sums
}

// piece sums one piece.
func (s *summer) piece(r *io.SectionReader) (uint64, error) {
	var buffer []byte
	select {
	case buffer = <-s.idle:
	default:
		buffer = make([]byte, readBytes)
	}

	defer func() { s.idle <- buffer }() // There is room for one of each worker.
	sum := xxhash.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{r}, buffer)
	if err == nil && n != r.Size() {
		err = fmt.Errorf("has become shorter while it was read: %w", io.ErrUnexpectedEOF)
	}

	return sum.Sum64(), err
}

func (s *summer) wait() error { return s.group.Wait() }

// pieceWriter sums what is written to it as summer.file sums it in a file.
type pieceWriter struct {
	sums  []uint64
	piece xxhash.Digest
	// size is how much of the piece was written.
	size int
}

func (w *pieceWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if w.size == 0 {
			w.piece.Reset()
		}

		n := min(len(rest), pieceBytes-w.size)
		_, _ = w.piece.Write(rest[:n]) // It cannot fail.
		rest = rest[n:]
		if w.size += n; w.size == pieceBytes {
			w.flush()
		}
	}

	return len(p), nil
}

func (w *pieceWriter) flush() {
	if w.size > 0 {
		w.sums = append(w.sums, w.piece.Sum64())
		w.size = 0
	}
}

// sum is that of all that was written. Nothing can be written afterwards.
func (w *pieceWriter) sum() uint64 {
	w.flush()
	return sumOf(w.sums)
}

// sumOf sums sums.
func sumOf(sums []uint64) uint64 {
	all := make([]byte, 0, 8*len(sums))
	for _, sum := range sums {
		all = binary.LittleEndian.AppendUint64(all, sum)
	}
	return xxhash.Sum64(all)
}
