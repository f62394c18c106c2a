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

// Checksums detect accidental changes of files: another catalog, a truncated copy, a broken
// disk. They do not protect against an attacker who can write the files and the checksums.
//
// A file is hashed in pieces, and the checksums of the pieces are hashed again, so that one
// large file uses all processors.
const (
	// pieceBytes is the size of a piece. Hashing a piece takes about 0.2 ms: long compared to
	// scheduling a goroutine, short compared to the whole file.
	pieceBytes = 1 << 20
	// readBytes is the size of one read. It fits into the cache of a processor.
	readBytes = 128 << 10
)

// parallelHasher computes checksums of files in parallel.
type parallelHasher struct {
	group       *errgroup.Group
	ctx         context.Context
	idleBuffers chan []byte
}

func newParallelHasher(ctx context.Context) *parallelHasher {
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	group.SetLimit(workers)
	return &parallelHasher{group: group, ctx: ctx, idleBuffers: make(chan []byte, workers)}
}

// hashFileInPieces starts hashing the first size bytes of a file. open opens the file for one
// piece and returns a function that closes it. The returned checksums are valid after wait has
// returned.
func (s *parallelHasher) hashFileInPieces(size int64, open func() (io.ReaderAt, func() error, error)) []uint64 {
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
			sums[i], err = s.hashPiece(io.NewSectionReader(r, offset, min(pieceBytes, size-offset)))
			if releaseErr := release(); err == nil {
				err = releaseErr
			}

			return err
		})
	}

	return sums
}

// hashPiece returns the checksum of one piece.
func (s *parallelHasher) hashPiece(r *io.SectionReader) (uint64, error) {
	var buffer []byte
	select {
	case buffer = <-s.idleBuffers:
	default:
		buffer = make([]byte, readBytes)
	}
	defer func() { s.idleBuffers <- buffer }() // The channel has room for one buffer of each worker.
	sum := xxhash.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{r}, buffer)
	if err == nil && n != r.Size() {
		err = fmt.Errorf("has become shorter while it was read: %w", io.ErrUnexpectedEOF)
	}

	return sum.Sum64(), err
}

// waitForPieces waits for all pieces and returns the first error.
func (s *parallelHasher) waitForPieces() error { return s.group.Wait() }

// pieceHasher computes the checksum of what is written to it. The result equals that of
// parallelHasher.hashFileInPieces for a file with the same bytes.
type pieceHasher struct {
	sums  []uint64
	piece xxhash.Digest
	// size is the number of bytes in the current piece.
	size int
}

func (w *pieceHasher) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if w.size == 0 {
			w.piece.Reset()
		}

		n := min(len(rest), pieceBytes-w.size)
		_, _ = w.piece.Write(rest[:n]) // It cannot fail.
		rest = rest[n:]
		if w.size += n; w.size == pieceBytes {
			w.finishCurrentPiece()
		}
	}

	return len(p), nil
}

// finishCurrentPiece adds the checksum of the current piece, if it has any bytes.
func (w *pieceHasher) finishCurrentPiece() {
	if w.size > 0 {
		w.sums = append(w.sums, w.piece.Sum64())
		w.size = 0
	}
}

// checksum returns the checksum of everything that was written. Nothing may be written afterwards.
func (w *pieceHasher) checksum() uint64 {
	w.finishCurrentPiece()
	return combineChecksums(w.sums)
}

// combineChecksums returns the checksum of checksums.
func combineChecksums(sums []uint64) uint64 {
	all := make([]byte, 0, 8*len(sums))
	for _, sum := range sums {
		all = binary.LittleEndian.AppendUint64(all, sum)
	}
	return xxhash.Sum64(all)
}
