package catalogstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Unpack reads the catalog in a file system and stores it like Put.
func (s *Store) Unpack(ctx context.Context, name string, source Source, fsys fs.FS) (Info, error) {
	return s.Put(ctx, name, source, fbc.Walk(fsys, s.limits.Walk))
}

// Put stores blobs as the content of a catalog and replaces its previous content. The bytes of a blob are
// not used after the next one is requested. If Put returns an error, the stored content is unchanged. An
// *fbc.Error means that the content is invalid; any other error means that reading or writing failed.
func (s *Store) Put(ctx context.Context, name string, source Source, metas iter.Seq2[fbc.Meta, error]) (Info, error) {
	if !isValidName(name) {
		return Info{}, fmt.Errorf("%q is not a valid catalog name", name)
	}

	slot := s.slots.lockForWriting(name, true)
	defer slot.writing.Unlock()
	f, err := s.writeContentFile(ctx, metas)
	if err != nil {
		return Info{}, explainDiskError("storing catalog "+name, err)
	}
	defer f.releaseReference()
	info, err := s.assignContent(slot, source, f)
	if err != nil {
		_ = s.files.releaseClaim(f.contentSum) // A leftover is removed at the next start.
		return Info{}, explainDiskError("storing catalog "+name, err)
	}

	return info, nil
}

// assignContent makes f the content of a catalog. The claim on the content is taken by the caller.
func (s *Store) assignContent(slot *catalogSlot, source Source, f *contentFile) (Info, error) {
	slot.mu.Lock()
	before := slot.pointer
	slot.mu.Unlock()
	now := s.now().UTC()
	p := pointer{Source: source, Content: f.contentSum, Unpacked: now, Confirmed: now, Modified: modificationTime(source, now, before, f.contentSum)}
	written, err := s.writePendingPointer(p)
	if err != nil {
		return Info{}, err
	}
	defer written.closeAndDiscard()
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := slot.commitPointer(written, p); err != nil {
		return Info{}, err
	}

	slot.replaceFile(f)
	slot.lossReported = false
	_ = s.files.releaseClaim(before.Content) // A leftover is removed at the next start.

	return slot.describeContent(), nil
}

// modificationTime returns the modification time of content that replaces other content. It is the time
// of the previous content if both are equal, and at least a second later otherwise.
func modificationTime(source Source, now time.Time, before pointer, content string) time.Time {
	if !source.Since.IsZero() {
		now = source.Since.UTC()
	}

	now = now.Truncate(time.Second)
	switch {
	case before.Content == content:
		return before.Modified
	case !now.After(before.Modified):
		return before.Modified.Add(time.Second)
	}

	return now
}

// writeContentFile writes a content file, adds a claim on its content, and returns the open file with a
// reference for the caller.
func (s *Store) writeContentFile(ctx context.Context, metas iter.Seq2[fbc.Meta, error]) (*contentFile, error) {
	out, err := s.createContent()
	if err != nil {
		return nil, err
	}

	ix, err := writeBlobsAndIndex(ctx, &spaceWriter{Writer: out, volume: s.volume}, s.limits, metas)
	if err == nil {
		err = out.syncToDisk()
	}
	if err != nil {
		out.closeAndDiscard()
		return nil, err
	}

	return s.files.commitContentFile(out, ix)
}

// writeBlobsAndIndex writes a content file and returns its index.
func writeBlobsAndIndex(ctx context.Context, out io.Writer, limits Limits, metas iter.Seq2[fbc.Meta, error]) (*index, error) {
	buffered := bufio.NewWriterSize(out, readBufferSize)
	build := newIndexBuilder(limits)
	for meta, err := range metas {
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := build.addBlob(meta); err != nil {
			return nil, err
		}
		if _, err := buffered.Write(meta.Blob); err != nil {
			return nil, err
		}
		if err := buffered.WriteByte('\n'); err != nil {
			return nil, err
		}
	}

	ix := build.buildIndex()
	if err := ix.writeTo(buffered); err != nil {
		return nil, err
	}

	return ix, buffered.Flush()
}
