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

// maxSignatures is how many signatures of one digest a store is asked for: what is called
// signature-10 is never looked at.
const maxSignatures = 9

// Store keeps signatures of release images. A store decides nothing: what it gives may be
// worthless.
type Store interface {
	// Signatures returns the signatures of a digest, each read when it is asked for. An error
	// stands for something that could not be read; what follows it may still be good. It
	// ends soon after the context does.
	Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error]
	// String names the store for people, without credentials.
	String() string
}

// Serial asks one store after the other, in their order.
func Serial(stores ...Store) Store { return serial(stores) }

type serial []Store

func (s serial) String() string { return names(s) }

func names(stores []Store) string {
	if len(stores) == 0 {
		return "no store"
	}

	texts := make([]string, len(stores))
	for i, store := range stores {
		texts[i] = store.String()
	}
	return strings.Join(texts, ", ")
}

func (s serial) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
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

// Parallel asks all stores at once, so that a slow one holds nobody up. The signatures come
// in no order.
func Parallel(stores ...Store) Store { return parallel(stores) }

type parallel []Store

func (p parallel) String() string { return names(p) }

func (p parallel) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // Those that still ask are told to stop.
		type item struct {
			signature []byte
			err       error
		}
		items := make(chan item)
		var asking sync.WaitGroup
		for _, store := range p {
			asking.Go(func() {
				for signature, err := range store.Signatures(ctx, digest) {
					select {
					case items <- item{signature, err}:
					case <-ctx.Done():
						return
					}
				}
			})
		}

		go func() {
			asking.Wait()
			close(items)
		}()
		for {
			select {
			case found, ok := <-items:
				if !ok || !yield(found.signature, found.err) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// Memory is a store of signatures by digest.
type Memory map[string][][]byte

// String says that it is memory.
func (Memory) String() string { return "signatures at hand" }

// Signatures returns what is kept for the digest.
func (m Memory) Signatures(_ context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, signature := range m[digest.String()] {
			if !yield(signature, nil) {
				return
			}
		}
	}
}

// numbered reads signature-1, signature-2 and so on, until there is no more: read tells so
// by fs.ErrNotExist. Another error than errTooLarge ends the store.
func numbered(ctx context.Context, store string, digest Digest, read func(name string) ([]byte, error)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := 1; i <= maxSignatures && ctx.Err() == nil; i++ {
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

// PathOf is where a store of files keeps a signature: <algorithm>=<hex>/signature-<number>,
// counted from 1.
func PathOf(digest Digest, number int) string {
	return fmt.Sprintf("%s=%s/signature-%d", digest.Algorithm, digest.Hex, number)
}

var errTooLarge = fmt.Errorf("it is larger than the %d bytes that a signature may have", MaxSignatureBytes)

// readSignature reads no more than a signature may have.
func readSignature(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSignatureBytes+1))
	if err == nil && len(data) > MaxSignatureBytes {
		return nil, errTooLarge
	}
	return data, err
}

// FolderStore is a folder that holds <algorithm>=<hex>/signature-<number>.
type FolderStore struct {
	// Name is what people know the folder by.
	Name string
	// Files are those in the folder.
	Files fs.FS
}

// String returns the name.
func (s FolderStore) String() string { return s.Name }

// Signatures reads the files of the digest.
func (s FolderStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return numbered(ctx, s.Name, digest, s.read)
}

func (s FolderStore) read(name string) ([]byte, error) {
	info, err := fs.Stat(s.Files, name)
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}

	file, err := s.Files.Open(name)
	if err != nil {
		return nil, bare(err)
	}

	defer func() { _ = file.Close() }() // It was only read.
	return readSignature(file)
}

// bare takes the operation and the path out of an error, which names the file already.
func bare(err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
