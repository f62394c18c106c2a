package catalogstore

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// catalogSlot is the state of one catalog in the store.
type catalogSlot struct {
	name  string
	files *contentFiles
	lost  *lossHandlers
	// writing is locked while content is stored or deleted.
	writing sync.Mutex

	// mu guards the fields below.
	mu sync.Mutex
	// pointer is the metadata of the content; its Content is empty if there is none. stat is the state
	// of the pointer file when it was last read or written, and problem the error of reading it.
	pointer pointer
	stat    os.FileInfo
	problem error
	// file is the open content file that is served. It is nil if there is no content, or if the content
	// was not requested yet.
	file *contentFile
	// lossReported is set after the loss of the content was reported.
	lossReported bool
}

// describeContent returns the Info of a slot with an open file. The caller holds the mu of the slot.
func (s *catalogSlot) describeContent() Info {
	return Info{
		Source: s.pointer.Source, Unpacked: s.pointer.Unpacked, Confirmed: s.pointer.Confirmed, Modified: s.pointer.Modified,
		Sum: s.pointer.Content, Bytes: s.file.index.bytes, Blobs: len(s.file.index.records),
	}
}

// refreshContent ensures that the pointer of the slot and the content file that it names are intact on disk
// and that the file is open. After an error, the file of the slot is older content that can still be
// read, or nil. The first error reports the loss to the OnLost handlers. The caller holds the mu of the
// slot.
func (s *catalogSlot) refreshContent() error {
	err := s.reopenFile()
	if err == nil {
		s.lossReported = false
		return nil
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, errClosed) {
		return err
	}
	if !s.lossReported {
		s.lossReported = true
		s.lost.notifyHandlers(s.name)
	}

	return &DamagedError{Catalog: s.name, Err: err}
}

func (s *catalogSlot) reopenFile() error {
	if s.file != nil {
		if err := s.file.checkUsable(); err != nil {
			// The open file is damaged as well.
			s.replaceFile(nil)
			s.files.markDamaged(s.pointer.Content, err)
		}
	}

	if err := s.refreshPointer(); err != nil {
		return err
	}
	if s.file != nil && s.file.checkIntact() == nil {
		return nil
	}

	f, err := s.files.acquireFile(s.pointer.Content)
	if err != nil {
		return err
	}

	s.replaceFile(f)
	f.releaseReference()
	return nil
}

// replaceFile sets the file of the slot, and moves the reference from the old file to the new one. The
// caller holds the mu of the slot.
func (s *catalogSlot) replaceFile(f *contentFile) {
	if f != nil {
		f.addReference()
	}
	if s.file != nil {
		s.file.releaseReference()
	}
	s.file = f
}

// refreshPointer reads the pointer of the slot again if its file was changed. It returns ErrNotFound if
// the slot has never had content.
func (s *catalogSlot) refreshPointer() error {
	info, err := os.Stat(s.files.volume.pointerPath(s.name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.pointer.Content == "" && s.problem == nil:
		return ErrNotFound
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("its file does not exist")
	case err != nil:
		return err
	case s.stat == nil || !isSameFile(info, s.stat):
		s.loadPointer(s.files.volume.pointerPath(s.name))
	}

	return s.problem
}

// loadPointer reads the pointer of the slot from a file. If the file cannot be read or names other
// content, it sets problem and keeps the known pointer.
func (s *catalogSlot) loadPointer(path string) {
	var read pointer
	read, s.stat, s.problem = readPointerFile(path)
	switch {
	case s.problem != nil:
	case s.pointer.Content == "" || s.pointer.Content == read.Content:
		s.pointer = read
	default:
		s.problem = errors.New("its file was replaced")
	}
}

func readPointerFile(path string) (pointer, os.FileInfo, error) {
	opened, err := os.Open(path)
	if err != nil {
		return pointer{}, nil, err
	}
	defer func() { _ = opened.Close() }() // The file is only read.
	stat, err := opened.Stat()
	if err != nil {
		return pointer{}, nil, err
	}

	var text bytes.Buffer
	if _, err := io.Copy(&text, io.LimitReader(opened, maxPointerSize)); err != nil {
		return pointer{}, stat, err
	}

	p, err := decodePointer(text.Bytes())
	return p, stat, err
}

// commitPointer renames a pointer file to its final path and updates the slot. The caller holds the mu of
// the slot.
func (s *catalogSlot) commitPointer(written *pendingFile, p pointer) error {
	stat, err := written.Stat()
	if err != nil {
		return err
	}
	if err := written.renameTo(s.files.volume.pointerPath(s.name)); err != nil {
		return err
	}

	s.pointer, s.stat, s.problem = p, stat, nil
	return nil
}

// lossHandlers are the handlers of Store.OnLost.
type lossHandlers struct {
	mu       sync.Mutex
	handlers []func(name string)
}

func (h *lossHandlers) addHandler(f func(name string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handlers = append(h.handlers, f)
}

// notifyHandlers calls the handlers for a catalog, unless a partition has it.
func (h *lossHandlers) notifyHandlers(name string) {
	if isPartitioned(name) {
		return
	}

	h.mu.Lock()
	lost := h.handlers
	h.mu.Unlock()
	for _, f := range lost {
		f(name)
	}
}

// slotTable has the slots of the catalogs by name. It is safe for concurrent use.
type slotTable struct {
	files *contentFiles
	lost  *lossHandlers

	// mu guards slots. Lock order: the mu of a slot before this one.
	mu    sync.Mutex
	slots map[string]*catalogSlot
}

// loadPointers creates the slots of the catalogs that are stored on disk, and claims their contents.
func (t *slotTable) loadPointers() error {
	list, err := listDirectory(filepath.Join(t.files.volume.dir, catalogFolder))
	if err != nil {
		return err
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	for _, entry := range list {
		if !isValidName(entry.Name()) {
			continue
		}

		slot := t.addSlotLocked(entry.Name())
		slot.loadPointer(t.files.volume.pointerPath(slot.name))
		t.files.addClaim(slot.pointer.Content)
	}

	return nil
}

func (t *slotTable) addSlotLocked(name string) *catalogSlot {
	slot := &catalogSlot{name: name, files: t.files, lost: t.lost}
	t.slots[name] = slot
	return slot
}

// listNames returns the sorted names of the catalogs.
func (t *slotTable) listNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.slots))
}

// listSlots returns the slots in any order.
func (t *slotTable) listSlots() []*catalogSlot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.slots))
}

// removeSlot removes the slot of a catalog, whose writing is locked.
func (t *slotTable) removeSlot(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.slots, name)
}

// findSlot returns the slot of a catalog, or nil if there is none.
func (t *slotTable) findSlot(name string) *catalogSlot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slots[name]
}

// lockForWriting returns the slot of a catalog with writing locked. If there is no slot, it creates one if
// create is set, and returns nil otherwise.
func (t *slotTable) lockForWriting(name string, create bool) *catalogSlot {
	for {
		t.mu.Lock()
		found := t.slots[name]
		if found == nil && create {
			found = t.addSlotLocked(name)
		}

		t.mu.Unlock()
		if found == nil {
			return nil
		}

		found.writing.Lock()
		// The slot can have been deleted while waiting for the lock.
		if t.findSlot(name) == found {
			return found
		}

		found.writing.Unlock()
	}
}
