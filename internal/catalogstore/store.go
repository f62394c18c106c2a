package catalogstore

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

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// Limits bound what catalogs may take. A zero field means its default.
type Limits struct {
	// Walk bounds the reading of the catalog's files.
	Walk fbc.Limits
	// Bytes is the size of all blobs of a catalog as JSON lines. Default 4 GiB: forty
	// times the largest public catalog, and what 1 GiB of YAML can become.
	Bytes int64
	// Blobs is the number of blobs of a catalog. Default 300,000: ten times the largest
	// public catalog.
	Blobs int
	// Names is the number of distinct schemas, packages and names of a catalog. Default
	// 300,000, as nearly every blob has a name of its own.
	Names int
	// IndexMemory is what the index of a catalog may take in memory while it is built, in
	// bytes. Default 128 MiB: 300,000 blobs with names of 40 bytes take 115 MiB.
	IndexMemory int
	// TotalBytes is the size of all catalogs on disk, with their compressed forms and with
	// what is being unpacked. Default 3.5 GiB, for a volume of 4 GiB.
	TotalBytes int64
}

// DefaultTotalBytes is the default of Limits.TotalBytes.
const DefaultTotalBytes = 7 << 29

func (l Limits) withDefaults() Limits {
	setDefault(&l.Bytes, 4<<30)
	setDefault(&l.Blobs, 300_000)
	setDefault(&l.Names, 300_000)
	setDefault(&l.IndexMemory, 128<<20)
	setDefault(&l.TotalBytes, DefaultTotalBytes)
	return l
}

func setDefault[T int | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Source says where content comes from.
type Source struct {
	// Ref is the reference that was asked for, as the catalog's spec has it.
	Ref string `json:"ref"`
	// Resolved is the reference with the digest that was unpacked.
	Resolved string `json:"resolved"`
	// Since is when the reference began to give this content, if another replica has seen
	// that: their readers are then told the same time. Zero means the time of storing.
	Since time.Time `json:"since,omitzero"`
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
	// Sum names the blobs: content of equal Sum is equal.
	Sum string
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
	disk   disk
	space  space
	// work is what goes on in the background; compressing is held by the one that
	// compresses, verifying by the one that verifies.
	work                   sync.WaitGroup
	compressing, verifying chan struct{}

	// mu guards what follows. It may be taken while a slot's mu is held, not the other
	// way round.
	mu     sync.Mutex
	closed bool
	slots  map[string]*slot
	// claims counts, for each content, the catalogs that have it, and files has the open
	// file of it, if there is one. bad has the files that cannot be used.
	claims map[string]int
	files  map[string]*file
	bad    map[string]badFile
	// lost are told the names of catalogs whose content has gone or is damaged.
	lost []func(name string)
}

// slot is the place of one catalog.
type slot struct {
	name string
	// writing is held while content is stored or deleted.
	writing sync.Mutex

	// mu guards what follows.
	mu sync.Mutex
	// pointer is what is known of the content; an empty Content says that nothing is. stat
	// is how its file was when it was read or written, and problem why it could not be.
	pointer pointer
	stat    os.FileInfo
	problem error
	// file has the content that is served. Nil when there is none, or none was asked for.
	file *file
	// told says that the loss of the content was reported.
	told bool
}

// The folders of a store.
const (
	contentFolder = "content"
	catalogFolder = "catalogs"
	// scratchFolder is where images are unpacked.
	scratchFolder = ".scratch"
)

func (s *Store) contentDir() string             { return filepath.Join(s.dir, contentFolder) }
func (s *Store) pointerPath(name string) string { return filepath.Join(s.dir, catalogFolder, name) }
func (s *Store) contentPath(hexSum string) string {
	return filepath.Join(s.dir, contentFolder, hexSum)
}

// Open makes a store of a folder, which is created when it is missing. What a process
// that ended left unfinished, and content that no catalog has, is removed. Content is
// opened when it is needed.
func Open(dir string, limits Limits) (*Store, error) {
	return openStore(dir, limits, disk{})
}

func openStore(dir string, limits Limits, d disk) (*Store, error) {
	s := &Store{
		dir: dir, limits: limits.withDefaults(), now: time.Now, disk: d,
		space:       space{limit: limits.withDefaults().TotalBytes},
		compressing: make(chan struct{}, 1), verifying: make(chan struct{}, 1),
		slots: map[string]*slot{}, claims: map[string]int{}, files: map[string]*file{}, bad: map[string]badFile{},
	}
	if err := s.disk.makeFolder(dir); err != nil {
		return nil, fmt.Errorf("making the folder of the catalog store: %w", err)
	}
	if err := s.loadPointers(); err != nil {
		return nil, fmt.Errorf("reading the catalog store: %w", err)
	}
	if err := s.collect(); err != nil {
		return nil, fmt.Errorf("removing unfinished work from the catalog store: %w", err)
	}

	return s, nil
}

// entries lists a folder; one that is missing has none.
func entries(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// loadPointers reads what catalogs there are.
func (s *Store) loadPointers() error {
	list, err := entries(filepath.Join(s.dir, catalogFolder))
	if err != nil {
		return err
	}

	for _, entry := range list {
		if !validName(entry.Name()) {
			continue
		}

		slot := &slot{name: entry.Name()}
		slot.readPointer(s.pointerPath(slot.name))
		s.slots[slot.name] = slot
		if slot.pointer.Content != "" {
			s.claims[slot.pointer.Content]++
		}
	}

	return nil
}

// collect removes what no catalog has.
func (s *Store) collect() error {
	if err := s.disk.removeAll(filepath.Join(s.dir, scratchFolder)); err != nil {
		return err
	}

	for _, folder := range []string{contentFolder, catalogFolder} {
		list, err := entries(filepath.Join(s.dir, folder))
		if err != nil {
			return err
		}
		for _, entry := range list {
			// A compressed form is called as its content, with the encoding behind a dot.
			content, _, _ := strings.Cut(entry.Name(), ".")
			if (folder == contentFolder && s.claims[content] > 0) || (folder == catalogFolder && s.slots[entry.Name()] != nil) {
				continue
			}
			if err := s.disk.removeAll(filepath.Join(s.dir, folder, entry.Name())); err != nil {
				return err
			}
		}
	}

	return nil
}

// OnLost adds a function that is told the name of each catalog whose content is found to
// be gone or damaged, once for each loss. It is called from whatever finds it, and must
// neither block nor call the store.
func (s *Store) OnLost(f func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, f)
}

// Scratch makes an empty folder on the store's volume, for an image to be unpacked
// into. The caller removes it.
func (s *Store) Scratch() (string, error) {
	parent := filepath.Join(s.dir, scratchFolder)
	if err := s.disk.makeFolder(parent); err != nil {
		return "", explain("making a folder to unpack into", err)
	}

	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return "", explain("making a folder to unpack into", err)
	}

	return dir, nil
}

// Names lists the catalogs that something is stored for, whether it is good or not.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.slots))
}

// Stored describes the content that is on disk and intact as far as is known. It gives
// ErrNotFound or a *DamagedError when there is none to rely on; older content may still
// be served then.
func (s *Store) Stored(name string) (Info, error) {
	slot := s.slot(name)
	if slot == nil {
		return Info{}, ErrNotFound
	}

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.refresh(slot); err != nil {
		return Info{}, err
	}

	return slot.info(), nil
}

// Serves reports whether Content gives content of the catalog.
func (s *Store) Serves(name string) bool {
	content, err := s.Content(name)
	if err != nil {
		return false
	}
	content.Close()
	return true
}

// Content returns the catalog's content for reading. The caller closes it. When the file
// has gone, what was open before stays readable until new content is stored, and the
// functions added by OnLost are told of it.
func (s *Store) Content(name string) (*Content, error) {
	slot := s.slot(name)
	if slot == nil {
		return nil, ErrNotFound
	}

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.file == nil || slot.file.usable() != nil {
		if err := s.refresh(slot); err != nil {
			return nil, err
		}
	}

	slot.file.hold()
	return &Content{file: slot.file, info: slot.info(), store: s}, nil
}

// info describes the content of a slot that has a file; its mu is held.
func (s *slot) info() Info {
	return Info{
		Source: s.pointer.Source, Unpacked: s.pointer.Unpacked, Confirmed: s.pointer.Confirmed, Modified: s.pointer.Modified,
		Sum: s.pointer.Content, Bytes: s.file.index.bytes, Blobs: len(s.file.index.records),
	}
}

// Confirm notes that a reference gives the stored content at a time.
func (s *Store) Confirm(name, ref string, at time.Time) (Info, error) {
	slot := s.lockForWriting(name, false)
	if slot == nil {
		return Info{}, ErrNotFound
	}

	defer slot.writing.Unlock()
	stored, err := s.Stored(name)
	if err != nil {
		return Info{}, err
	}

	// Only who has writing held changes it.
	confirmed := pointer{Source: Source{Ref: ref, Resolved: stored.Resolved}, Content: stored.Sum, Unpacked: stored.Unpacked, Modified: stored.Modified, Confirmed: at.UTC()}
	doing := "noting that catalog " + name + " is up to date"
	written, err := s.preparePointer(confirmed)
	if err != nil {
		return Info{}, explain(doing, err)
	}

	defer written.discard()
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.commitPointer(slot, written, confirmed); err != nil {
		return Info{}, explain(doing, err)
	}

	stored.Ref, stored.Confirmed = confirmed.Ref, confirmed.Confirmed
	return stored, nil
}

// Delete removes a catalog's content. It is not an error when there is none. Readers
// that have it keep it.
func (s *Store) Delete(name string) error {
	slot := s.lockForWriting(name, false)
	if slot == nil {
		return nil
	}

	defer slot.writing.Unlock()
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.disk.remove(s.pointerPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting the stored content of catalog %q: %w", name, err)
	}

	content := slot.pointer.Content
	slot.use(nil)
	slot.pointer, slot.stat, slot.problem = pointer{}, nil, nil
	s.mu.Lock()
	delete(s.slots, name)
	s.mu.Unlock()
	if err := s.unclaim(content); err != nil {
		return fmt.Errorf("deleting the stored content of catalog %q: %w", name, err)
	}

	return nil
}

// Close releases the open files, and waits for what goes on in the background. Readers
// that have content keep it.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	slots := slices.Collect(maps.Values(s.slots))
	for _, f := range s.files {
		f.retire()
	}

	s.mu.Unlock()
	for _, slot := range slots {
		slot.mu.Lock()
		slot.use(nil)
		slot.mu.Unlock()
	}

	s.work.Wait()
}

// Check looks at the files of all catalogs, so that OnLost is told of those that are gone
// or damaged though nobody reads them.
func (s *Store) Check() {
	for _, name := range s.Names() {
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

// slot returns the place of a catalog, nil when there is none.
func (s *Store) slot(name string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots[name]
}

// lockForWriting returns the place of a catalog, with its writing held. It is nil when there
// is none and none is to be made.
func (s *Store) lockForWriting(name string, create bool) *slot {
	for {
		s.mu.Lock()
		found := s.slots[name]
		if found == nil && create {
			found = &slot{name: name}
			s.slots[name] = found
		}

		s.mu.Unlock()
		if found == nil {
			return nil
		}

		found.writing.Lock()
		// It may have been deleted while it was waited for.
		if s.slot(name) == found {
			return found
		}

		found.writing.Unlock()
	}
}

var nameRule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// validName reports whether a name can be that of a catalog. Such a name is also the name
// of a file that is neither hidden nor leads elsewhere.
func validName(name string) bool {
	return len(name) <= 253 && nameRule.MatchString(name) && !strings.Contains(name, "..")
}
