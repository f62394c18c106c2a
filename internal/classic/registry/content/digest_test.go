package content

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestPieceHasherMatchesParallelHasher(t *testing.T) {
	pattern := bytes.Repeat([]byte("0123456789abcde"), 3*pieceBytes/15)
	for _, size := range []int{0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 2 * pieceBytes, 2*pieceBytes + 7} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, pattern[:size], 0o600); err != nil {
			t.Fatal(err)
		}

		read, err := FileSum(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}

		for _, step := range []int{1 << 10, 100_003, pieceBytes, 3 * pieceBytes} {
			w := &pieceHasher{}
			for rest := pattern[:size]; len(rest) > 0; rest = rest[min(step, len(rest)):] {
				_, _ = w.Write(rest[:min(step, len(rest))])
			}
			if got := w.checksum(); got != read {
				t.Errorf("%d bytes written %d at a time have the sum %x, read %x", size, step, got, read)
			}
		}
	}
}

func TestChecksumDependsOnEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	data := bytes.Repeat([]byte{1}, 2*pieceBytes+100)
	seen := map[uint64]int{}
	for _, at := range []int{0, 1, pieceBytes - 1, pieceBytes, 2*pieceBytes - 1, 2 * pieceBytes, len(data) - 1} {
		data[at]++
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}

		sum, err := FileSum(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[sum]; twice {
			t.Errorf("a change at %d has the same sum as one at %d", at, other)
		}

		seen[sum] = at
		data[at]--
	}
}

func TestHashingErrors(t *testing.T) {
	if _, err := FileSum(t.Context(), filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v", err)
	}

	short := newParallelHasher(t.Context())
	short.hashFileInPieces(100, func() (io.ReaderAt, func() error, error) {
		return bytes.NewReader(make([]byte, 99)), func() error { return nil }, nil
	})
	if err := short.waitForPieces(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("hashing a file that became shorter: got error %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := newParallelHasher(ctx)
	ended.hashFileInPieces(100, func() (io.ReaderAt, func() error, error) {
		return bytes.NewReader(make([]byte, 100)), func() error { return nil }, nil
	})
	if err := ended.waitForPieces(); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: got error %v", err)
	}

	release := errors.New("cannot be closed")
	closing := newParallelHasher(t.Context())
	closing.hashFileInPieces(1, func() (io.ReaderAt, func() error, error) {
		return bytes.NewReader(make([]byte, 1)), func() error { return release }, nil
	})
	if err := closing.waitForPieces(); !errors.Is(err, release) {
		t.Errorf("got error %v, want %v", err, release)
	}
}
