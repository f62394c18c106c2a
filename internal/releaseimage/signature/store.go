package signature

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"sync"
)

// maxNumberedSignatures is the maximum number of signatures that are read for a digest:
// signature-10 is never read.
const maxNumberedSignatures = 9

// Store contains signatures of release images. It does not verify them.
type Store interface {
	// Signatures returns the signatures of a digest, and reads each on demand. An error is about
	// one that could not be read; later ones may be valid. The sequence ends soon after the
	// context ends.
	Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error]
	// String returns the name of the store for messages, without credentials.
	String() string
}

// Serial returns a store that reads the given stores one after the other.
func Serial(stores ...Store) Store { return serialStore(stores) }

type serialStore []Store

func (s serialStore) String() string { return joinStoreNames(s) }

func joinStoreNames(stores []Store) string {
	if len(stores) == 0 {
		return "no store"
	}

	texts := make([]string, len(stores))
	for i, store := range stores {
		texts[i] = store.String()
	}
	return strings.Join(texts, ", ")
}

func (s serialStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, store := range s {
			for signature, err := range store.Signatures(ctx, digest) {
				if !yield(signature, err) {
					return
				}
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// Parallel returns a store that reads the given stores in parallel, so that a slow one does not
// block others. The order of signatures is undefined.
func Parallel(stores ...Store) Store { return parallelStore(stores) }

type parallelStore []Store

func (p parallelStore) String() string { return joinStoreNames(p) }

func (p parallelStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // Stop the remaining readers.

		results := p.startReaders(ctx, digest)
		for {
			select {
			case found, ok := <-results:
				if !ok || !yield(found.signature, found.err) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// storeResult is what a store yields: a signature or an error.
type storeResult struct {
	signature []byte
	err       error
}

// startReaders reads all stores until ctx ends. It returns a channel of their results, which is closed
// after the last one.
func (p parallelStore) startReaders(ctx context.Context, digest Digest) <-chan storeResult {
	results := make(chan storeResult)
	var readers sync.WaitGroup
	for _, store := range p {
		readers.Go(func() {
			for signature, err := range store.Signatures(ctx, digest) {
				select {
				case results <- storeResult{signature, err}:
				case <-ctx.Done():
					return
				}
			}
		})
	}

	go func() {
		readers.Wait()
		close(results)
	}()

	return results
}

// Memory is an in-memory store of signatures by digest.
type Memory map[string][][]byte

// String returns a fixed name.
func (Memory) String() string { return "signatures at hand" }

// Signatures returns the signatures of the digest.
func (m Memory) Signatures(_ context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, signature := range m[digest.String()] {
			if !yield(signature, nil) {
				return
			}
		}
	}
}

// readNumberedSignatures reads signature-1, signature-2 and so on, until read returns
// fs.ErrNotExist. Any error other than errTooLarge ends the sequence.
func readNumberedSignatures(ctx context.Context, store string, digest Digest, read func(name string) ([]byte, error)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := 1; i <= maxNumberedSignatures && ctx.Err() == nil; i++ {
			name := PathOf(digest, i)
			data, err := read(name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return
			case err != nil:
				proceed := yield(nil, fmt.Errorf("%s: read %s: %w", store, name, err))
				if !proceed || !errors.Is(err, errTooLarge) {
					return
				}
			case !yield(data, nil):
				return
			}
		}
	}
}

// PathOf returns the path of a signature in a store of files:
// <algorithm>=<hex>/signature-<number>, counted from 1.
func PathOf(digest Digest, number int) string {
	return fmt.Sprintf("%s=%s/signature-%d", digest.Algorithm, digest.Hex, number)
}

var errTooLarge = fmt.Errorf("it is larger than the %d bytes that a signature may have", MaxSignatureBytes)

// readSignature reads a signature up to the maximum size.
func readSignature(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSignatureBytes+1))
	if err == nil && len(data) > MaxSignatureBytes {
		return nil, errTooLarge
	}
	return data, err
}

// FolderStore is a directory with files <algorithm>=<hex>/signature-<number>.
type FolderStore struct {
	// Name is a name for messages.
	Name string
	// Files is the content of the directory.
	Files fs.FS
}

// String returns the name.
func (s FolderStore) String() string { return s.Name }

// Signatures reads the files of the digest.
func (s FolderStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return readNumberedSignatures(ctx, s.Name, digest, s.readSignatureFile)
}

func (s FolderStore) readSignatureFile(name string) ([]byte, error) {
	info, err := fs.Stat(s.Files, name)
	if err != nil {
		return nil, stripErrorPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}

	file, err := s.Files.Open(name)
	if err != nil {
		return nil, stripErrorPath(err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	return readSignature(file)
}

// stripErrorPath removes the operation and path from an error, because the caller adds the file name.
func stripErrorPath(err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
