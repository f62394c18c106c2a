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

// Unpack reads the catalog in a file system and stores it, see Put.
func (s *Store) Unpack(ctx context.Context, name string, source Source, fsys fs.FS) (Info, error) {
	return s.Put(ctx, name, source, fbc.Walk(fsys, s.limits.Walk))
}

// Put stores blobs in the place of what was stored under the name. A blob's bytes are not
// kept after the next one is asked for. On an error nothing has changed: an *fbc.Error
// says that the content is wrong and stays so, any other that reading or writing failed.
func (s *Store) Put(ctx context.Context, name string, source Source, metas iter.Seq2[fbc.Meta, error]) (Info, error) {
	if !validName(name) {
		return Info{}, fmt.Errorf("%q cannot be the name of a catalog", name)
	}

	slot := s.lockForWriting(name, true)
	defer slot.writing.Unlock()
	f, err := s.write(ctx, metas)
	if err != nil {
		return Info{}, explain("storing catalog "+name, err)
	}

	defer f.letGo()
	info, err := s.point(slot, source, f)
	if err != nil {
		_ = s.unclaim(f.content) // The next start removes what stays.
		return Info{}, explain("storing catalog "+name, err)
	}

	return info, nil
}

// point makes a content, which is claimed, that of a catalog.
func (s *Store) point(slot *slot, source Source, f *file) (Info, error) {
	slot.mu.Lock()
	before := slot.pointer
	slot.mu.Unlock()
	now := s.now().UTC()
	p := pointer{Source: source, Content: f.content, Unpacked: now, Confirmed: now, Modified: modified(source, now, before, f.content)}
	written, err := s.preparePointer(p)
	if err != nil {
		return Info{}, err
	}

	defer written.discard()
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.commitPointer(slot, written, p); err != nil {
		return Info{}, err
	}

	slot.use(f)
	slot.told = false
	_ = s.unclaim(before.Content) // The next start removes what stays.

	return slot.info(), nil
}

// modified is when content was modified that takes the place of another: that one's time
// when they are the same, and later when they are not, also within one second.
func modified(source Source, now time.Time, before pointer, content string) time.Time {
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

// write writes a content file, claims its content, and opens it. It is held for the
// caller.
func (s *Store) write(ctx context.Context, metas iter.Seq2[fbc.Meta, error]) (*file, error) {
	out, err := s.disk.create(s.contentDir())
	if err != nil {
		return nil, err
	}

	ix, err := s.writeContent(ctx, out, metas)
	if err == nil {
		err = out.sync()
	}
	if err != nil {
		out.discard()
		return nil, err
	}

	return s.adopt(out, ix)
}

func (s *Store) writeContent(ctx context.Context, out *newFile, metas iter.Seq2[fbc.Meta, error]) (*index, error) {
	buffered := bufio.NewWriterSize(&spaceWriter{Writer: out, store: s}, chunkBytes)
	build := newBuilder(s.limits)
	for meta, err := range metas {
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := build.add(meta); err != nil {
			return nil, err
		}
		if _, err := buffered.Write(meta.Blob); err != nil {
			return nil, err
		}
		if err := buffered.WriteByte('\n'); err != nil {
			return nil, err
		}
	}

	ix := build.index()
	if err := ix.writeTo(buffered); err != nil {
		return nil, err
	}

	return ix, buffered.Flush()
}

// adopt moves a complete file to its place, unless the content is there already.
func (s *Store) adopt(out *newFile, ix *index) (*file, error) {
	content := ix.sum() // Other catalogs do not wait for it.
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.files[content]; open != nil && open.intact() == nil {
		out.discard()
		s.claims[content]++
		open.hold()
		return open, nil
	}

	path := s.contentPath(content)
	if err := out.move(path); err != nil {
		out.discard()
		return nil, err
	}

	// Its bytes were summed when they were written.
	f, err := makeFile(out.File, path, ix, content)
	if err != nil {
		_ = out.Close() // What is wrong with it is known.
		return nil, err
	}

	f.verified = true
	s.claims[content]++
	f.hold()
	s.install(f)

	return f, nil
}

// preparePointer writes a pointer, but not in its place yet.
func (s *Store) preparePointer(p pointer) (*newFile, error) {
	text, err := p.encode()
	if err != nil {
		return nil, err
	}

	out, err := s.disk.create(filepath.Join(s.dir, catalogFolder))
	if err != nil {
		return nil, err
	}
	if _, err = out.Write(text); err == nil {
		err = out.sync()
	}
	if err != nil {
		out.discard()
		return nil, err
	}

	return out, nil
}

// commitPointer moves a pointer to its place. The slot's mu is held.
func (s *Store) commitPointer(slot *slot, written *newFile, p pointer) error {
	stat, err := written.Stat()
	if err != nil {
		return err
	}
	if err := written.move(s.pointerPath(slot.name)); err != nil {
		return err
	}

	slot.pointer, slot.stat, slot.problem = p, stat, nil
	return nil
}
