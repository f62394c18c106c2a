package catalogstore

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
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

	slot := s.lockForWriting(name, true)
	defer slot.writing.Unlock()
	f, err := s.writeContentFile(ctx, metas)
	if err != nil {
		return Info{}, explainDiskError("storing catalog "+name, err)
	}
	defer f.releaseReference()
	info, err := s.assignContent(slot, source, f)
	if err != nil {
		_ = s.releaseClaim(f.contentSum) // A leftover is removed at the next start.
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
	if err := s.commitPointer(slot, written, p); err != nil {
		return Info{}, err
	}

	slot.replaceFile(f)
	slot.lossReported = false
	_ = s.releaseClaim(before.Content) // A leftover is removed at the next start.

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
	out, err := s.disk.createPendingFile(s.contentDir())
	if err != nil {
		return nil, err
	}

	ix, err := s.writeBlobsAndIndex(ctx, out, metas)
	if err == nil {
		err = out.syncToDisk()
	}
	if err != nil {
		out.closeAndDiscard()
		return nil, err
	}

	return s.commitContentFile(out, ix)
}

func (s *Store) writeBlobsAndIndex(ctx context.Context, out *pendingFile, metas iter.Seq2[fbc.Meta, error]) (*index, error) {
	buffered := bufio.NewWriterSize(&spaceWriter{Writer: out, store: s}, readBufferSize)
	build := newIndexBuilder(s.limits)
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

// commitContentFile renames a complete content file to its final path, or discards it if the content is
// stored already. It returns the open file with a claim and a reference for the caller.
func (s *Store) commitContentFile(out *pendingFile, ix *index) (*contentFile, error) {
	content := ix.contentSum() // Computed without holding mu, so that other catalogs are not blocked.
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.files[content]; open != nil && open.checkIntact() == nil {
		out.closeAndDiscard()
		s.claims[content]++
		open.addReference()
		return open, nil
	}

	path := s.contentPath(content)
	if err := out.renameTo(path); err != nil {
		out.closeAndDiscard()
		return nil, err
	}

	// The checksums were computed from the written bytes.
	f, err := newContentFile(out.File, path, ix, content)
	if err != nil {
		_ = out.Close() // The first error is returned.
		return nil, err
	}

	f.verified = true
	s.claims[content]++
	f.addReference()
	s.installFileLocked(f)

	return f, nil
}

// writePendingPointer writes a pointer to a temporary file.
func (s *Store) writePendingPointer(p pointer) (*pendingFile, error) {
	text, err := p.encode()
	if err != nil {
		return nil, err
	}

	out, err := s.disk.createPendingFile(filepath.Join(s.dir, catalogFolder))
	if err != nil {
		return nil, err
	}
	if _, err = out.Write(text); err == nil {
		err = out.syncToDisk()
	}
	if err != nil {
		out.closeAndDiscard()
		return nil, err
	}

	return out, nil
}

// commitPointer renames a pointer file to its final path and updates the slot. The caller holds the mu of
// the slot.
func (s *Store) commitPointer(slot *catalogSlot, written *pendingFile, p pointer) error {
	stat, err := written.Stat()
	if err != nil {
		return err
	}
	if err := written.renameTo(s.pointerPath(slot.name)); err != nil {
		return err
	}

	slot.pointer, slot.stat, slot.problem = p, stat, nil
	return nil
}
