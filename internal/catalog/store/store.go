package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// ErrNotFound says that nothing is stored for a catalog.
var ErrNotFound = errors.New("the catalog has no stored content")

// DamagedError says that the stored content of a catalog cannot be used: it has to be
// unpacked again.
type DamagedError struct {
	// Catalog is the catalog's name.
	Catalog string
	// Err is what is wrong with the file.
	Err error
}

// Error names the catalog and what is wrong.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("the stored content of catalog %q is damaged and has to be unpacked again: %v", e.Catalog, e.Err)
}

// Unwrap gives what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// Limits bound what one catalog may take. A zero field means its default.
type Limits struct {
	// Walk bounds the reading of the catalog's files.
	Walk fbc.Limits
	// Bytes is the size of all blobs of a catalog as JSON lines. Default 4 GiB: forty
	// times the largest public catalog, and what 1 GiB of YAML can become.
	Bytes int64
	// IndexBytes is the size of a catalog's index, which is kept in memory. Default
	// 64 MiB: at 100 bytes a blob 640,000 blobs; the largest public catalog has 30,000.
	IndexBytes int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 4 << 30
	}
	if l.IndexBytes <= 0 {
		l.IndexBytes = 64 << 20
	}
	return l
}

// Source says where content comes from.
type Source struct {
	// Ref is the reference that was asked for, as the catalog's spec has it.
	Ref string `json:"ref"`
	// Resolved is the reference with the digest that was unpacked.
	Resolved string `json:"resolved"`
}

// Info describes stored content.
type Info struct {
	Source
	// Unpacked is when the content was stored.
	Unpacked time.Time
	// Confirmed is when the source was last known to give this content.
	Confirmed time.Time
	// Modified is when the content last differed from what was stored before, in whole
	// seconds. It always grows when the content changes.
	Modified time.Time
	// Bytes is the size of all blobs as JSON lines.
	Bytes int64
	// Blobs is their number.
	Blobs int
}

// Store keeps the content of catalogs below one folder. It is safe for concurrent use
// within one process; two processes need two folders.
type Store struct {
	dir    string
	limits Limits
	now    func() time.Time

	mu    sync.Mutex
	slots map[string]*slot
	// lost are told the names of catalogs whose file has gone or is damaged.
	lost []func(name string)
}

// slot is the place of one catalog.
type slot struct {
	// writing is held while content is unpacked or deleted.
	writing sync.Mutex
	// mu guards current.
	mu sync.Mutex
	// current is the content that is served. Nil when there is none.
	current *handle
	// told says that the loss of the file was reported.
	told bool
	// bad is a file that was found damaged, and why, so that not every request reads all
	// of it again.
	bad    os.FileInfo
	badErr error
}

// scratchDir is where images are unpacked, within the store's folder. No catalog is
// called so.
const scratchDir = ".scratch"

// contentFile is the name of a catalog's file in its folder.
const contentFile = "content"

// Open makes a store of a folder, which is created when it is missing. What a process
// that ended left unfinished is removed. Stored content is looked at when it is needed.
func Open(dir string, limits Limits) (*Store, error) {
	s := &Store{dir: dir, limits: limits.withDefaults(), now: time.Now, slots: map[string]*slot{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the catalog store: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, scratchDir)); err != nil {
		return nil, fmt.Errorf("removing unfinished work from the catalog store: %w", err)
	}
	leftovers, err := filepath.Glob(filepath.Join(dir, "*", temporaryPattern))
	if err != nil {
		return nil, err
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing unfinished work from the catalog store: %w", err)
		}
	}
	return s, nil
}

// OnLost adds a function that is told the name of each catalog whose file is found to be
// gone or damaged, once for each loss. It is called from whatever finds it, and must
// neither block nor call the store.
func (s *Store) OnLost(f func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, f)
}

// Scratch makes an empty folder on the store's volume, for an image to be unpacked
// into. The caller removes it.
func (s *Store) Scratch() (string, error) {
	parent := filepath.Join(s.dir, scratchDir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", s.explain("making a folder to unpack into", err)
	}
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return "", s.explain("making a folder to unpack into", err)
	}
	return dir, nil
}

// Names lists the catalogs that have a folder in the store, whether its content is
// good or not.
func (s *Store) Names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the catalog store: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && validName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Stored describes the content that is on disk and has passed its checksums. It gives
// ErrNotFound or a *DamagedError when there is none to rely on; older content may still
// be served then.
func (s *Store) Stored(name string) (Info, error) {
	slot := s.slot(name)
	if slot == nil {
		return Info{}, ErrNotFound
	}
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.refresh(name, slot); err != nil {
		return Info{}, err
	}
	return slot.current.info, nil
}

// Serves tells whether Content gives content of the catalog.
func (s *Store) Serves(name string) bool {
	content, err := s.Content(name)
	if err != nil {
		return false
	}
	content.Close()
	return true
}

// Content gives the catalog's content for reading. The caller closes it. When the file
// has gone, what was read before stays readable until new content is stored, and the
// functions added by OnLost are told of it.
func (s *Store) Content(name string) (*Content, error) {
	slot := s.slot(name)
	if slot == nil {
		return nil, ErrNotFound
	}
	slot.mu.Lock()
	defer slot.mu.Unlock()
	err := s.refresh(name, slot)
	if slot.current == nil {
		return nil, err
	}
	slot.current.readers++
	return &Content{handle: slot.current, slot: slot}, nil
}

// Confirm notes that a reference gives the stored content at a time. The time outlives
// the process; a reference other than the one that was unpacked does not.
func (s *Store) Confirm(name, ref string, at time.Time) (Info, error) {
	slot := s.slot(name)
	if slot == nil {
		return Info{}, ErrNotFound
	}
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.refresh(name, slot); err != nil {
		return Info{}, err
	}
	// The modification time of the file keeps it over a restart.
	if err := os.Chtimes(s.path(name), time.Time{}, at); err != nil {
		return Info{}, fmt.Errorf("noting that catalog %q is up to date: %w", name, err)
	}
	if err := slot.current.look(s.path(name)); err != nil {
		return Info{}, fmt.Errorf("noting that catalog %q is up to date: %w", name, err)
	}
	slot.current.info.Ref = ref
	return slot.current.info, nil
}

// Delete removes a catalog's content. It is not an error when there is none. Readers
// that have it keep it.
func (s *Store) Delete(name string) error {
	slot := s.slot(name)
	if slot == nil {
		return nil
	}
	slot.writing.Lock()
	defer slot.writing.Unlock()
	slot.mu.Lock()
	defer slot.mu.Unlock()
	slot.replace(nil)
	if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
		return fmt.Errorf("deleting the stored content of catalog %q: %w", name, err)
	}
	return nil
}

// Close releases the open files. Readers that have content keep it.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range s.slots {
		slot.mu.Lock()
		slot.replace(nil)
		slot.mu.Unlock()
	}
}

// refresh makes current the content of the catalog's file, if the file is not the one
// that current is of. An error says that the file cannot be relied on; current then is
// older content that can still be read, or nil. The slot's mu is held.
func (s *Store) refresh(name string, slot *slot) error {
	err := slot.reopen(s.path(name))
	if err == nil {
		slot.told = false
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if slot.current == nil {
			return ErrNotFound
		}
		err = errors.New("its file is gone")
	}
	if !slot.told {
		slot.told = true
		s.tell(name)
	}
	return &DamagedError{Catalog: name, Err: err}
}

// reopen makes current the content of a file, unless it is already. The slot's mu is
// held.
func (s *slot) reopen(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case s.current != nil && s.current.isOf(info):
		return nil
	case s.bad != nil && same(s.bad, info):
		return s.badErr
	}
	h, err := openHandle(path)
	if err == nil {
		s.replace(h)
		s.bad, s.badErr = nil, nil
		return nil
	}
	if s.current != nil && os.SameFile(info, s.current.stat) {
		// It was damaged in place: what is open is damaged as well.
		s.replace(nil)
	}
	s.bad, s.badErr = info, err
	return err
}

// Check looks at the files of all catalogs that are served, so that OnLost is told of
// those that are gone or damaged though nobody reads them.
func (s *Store) Check() {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.slots))
	s.mu.Unlock()
	for _, name := range names {
		// What is wrong was told.
		_, _ = s.Stored(name)
	}
}

func (s *Store) tell(name string) {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	for _, f := range lost {
		f(name)
	}
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name, contentFile) }

// slot gives the place of a catalog, nil when the name cannot be that of one.
func (s *Store) slot(name string) *slot {
	if !validName(name) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[name] == nil {
		// A request can ask for any name. One that is not stored leaves nothing behind.
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
			return &slot{}
		}
		s.slots[name] = &slot{}
	}
	return s.slots[name]
}

var nameRule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// validName tells whether a name can be that of a catalog. Such a name is also the name
// of a folder that is neither hidden nor leads elsewhere.
func validName(name string) bool {
	return len(name) <= 253 && nameRule.MatchString(name) && !strings.Contains(name, "..")
}
