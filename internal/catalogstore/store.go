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

// ErrNotFound is returned for a catalog without stored content.
var ErrNotFound = errors.New("the catalog has no stored content")

// DamagedError is returned if the stored content of a catalog cannot be used and must be unpacked again.
type DamagedError struct {
	// Catalog is the name of the catalog.
	Catalog string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("the stored content of catalog %q is damaged and has to be unpacked again: %v", e.Catalog, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// Limits limit the size of catalogs. A zero field means its default.
type Limits struct {
	// Walk limits reading the files of a catalog.
	Walk fbc.Limits
	// Bytes is the maximum size of all blobs of a catalog as JSON lines. The default is 4 GiB: forty
	// times the largest public catalog, and the size that 1 GiB of YAML can expand to.
	Bytes int64
	// Blobs is the maximum number of blobs of a catalog. The default is 300,000: ten times the largest
	// public catalog.
	Blobs int
	// Names is the maximum number of distinct schemas, packages and names of a catalog. The default is
	// 300,000, because nearly every blob has its own name.
	Names int
	// IndexMemory is the maximum memory for building the index of a catalog, in bytes. The default is
	// 128 MiB: 300,000 blobs with names of 40 bytes require 115 MiB.
	IndexMemory int
	// TotalBytes is the maximum size of all catalogs on disk, including their compressed forms and
	// files that are being unpacked. The default is 3.5 GiB, for a volume of 4 GiB.
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

// Source identifies the origin of content.
type Source struct {
	// Ref is the image reference in the spec of the catalog.
	Ref string `json:"ref"`
	// Resolved is the reference by digest of the unpacked image.
	Resolved string `json:"resolved"`
	// Since is the time at which the content changed, if another replica has recorded it. All replicas
	// then report the same modification time. Zero means the time of storing.
	Since time.Time `json:"since,omitzero"`
}

// Info describes stored content.
type Info struct {
	Source
	// Unpacked is the time at which the content was stored.
	Unpacked time.Time
	// Confirmed is the time at which the source was last known to resolve to this content.
	Confirmed time.Time
	// Modified is the time at which the content last changed, in whole seconds. It increases with each
	// change.
	Modified time.Time
	// Sum is the checksum of the blobs. Content with the same Sum is equal.
	Sum string
	// Bytes is the size of all blobs as JSON lines.
	Bytes int64
	// Blobs is the number of blobs.
	Blobs int
}

// Store stores the content of catalogs in a directory. It is safe for concurrent use within one process.
// Two processes must use different directories.
type Store struct {
	dir    string
	limits Limits
	now    func() time.Time
	disk   disk
	space  space
	// backgroundWork counts the goroutines of the store. compressing and verifying are semaphores that
	// limit compression and verification to one file at a time.
	backgroundWork         sync.WaitGroup
	compressing, verifying chan struct{}

	// mu guards the fields below. Lock order: the mu of a slot before this one.
	mu     sync.Mutex
	closed bool
	slots  map[string]*catalogSlot
	// claims counts the catalogs of each content. files contains the open file of each content, and
	// damaged the files that cannot be used.
	claims  map[string]int
	files   map[string]*contentFile
	damaged map[string]damagedFile
	// lostHandlers are called with the names of catalogs whose content is missing or damaged.
	lostHandlers []func(name string)
}

// catalogSlot is the state of one catalog in the store.
type catalogSlot struct {
	name string
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

// Directories of a store.
const (
	contentFolder = "content"
	catalogFolder = "catalogs"
	// scratchFolder is the directory in which images are unpacked.
	scratchFolder = ".scratch"
)

func (s *Store) contentDir() string             { return filepath.Join(s.dir, contentFolder) }
func (s *Store) pointerPath(name string) string { return filepath.Join(s.dir, catalogFolder, name) }
func (s *Store) contentPath(hexSum string) string {
	return filepath.Join(s.dir, contentFolder, hexSum)
}

// Open returns the store in a directory, and creates the directory if it does not exist. Unfinished files
// of an earlier process and unused content are removed. Content files are opened on demand.
func Open(dir string, limits Limits) (*Store, error) {
	return openStore(dir, limits, disk{})
}

func openStore(dir string, limits Limits, d disk) (*Store, error) {
	s := &Store{
		dir: dir, limits: limits.withDefaults(), now: time.Now, disk: d,
		space:       space{limit: limits.withDefaults().TotalBytes},
		compressing: make(chan struct{}, 1), verifying: make(chan struct{}, 1),
		slots: map[string]*catalogSlot{}, claims: map[string]int{}, files: map[string]*contentFile{}, damaged: map[string]damagedFile{},
	}
	if err := s.disk.ensureDirectory(dir); err != nil {
		return nil, fmt.Errorf("creating the directory of the catalog store: %w", err)
	}
	if err := s.loadPointers(); err != nil {
		return nil, fmt.Errorf("reading the catalog store: %w", err)
	}
	if err := s.removeOrphans(); err != nil {
		return nil, fmt.Errorf("removing unfinished files from the catalog store: %w", err)
	}

	return s, nil
}

// listDirectory lists a directory. A directory that does not exist has no entries.
func listDirectory(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// loadPointers creates the slots of the catalogs that are stored on disk.
func (s *Store) loadPointers() error {
	list, err := listDirectory(filepath.Join(s.dir, catalogFolder))
	if err != nil {
		return err
	}

	for _, entry := range list {
		if !isValidName(entry.Name()) {
			continue
		}

		slot := &catalogSlot{name: entry.Name()}
		slot.loadPointer(s.pointerPath(slot.name))
		s.slots[slot.name] = slot
		if slot.pointer.Content != "" {
			s.claims[slot.pointer.Content]++
		}
	}

	return nil
}

// removeOrphans removes files that do not belong to a catalog.
func (s *Store) removeOrphans() error {
	if err := s.disk.removeTree(filepath.Join(s.dir, scratchFolder)); err != nil {
		return err
	}

	for _, folder := range []string{contentFolder, catalogFolder} {
		list, err := listDirectory(filepath.Join(s.dir, folder))
		if err != nil {
			return err
		}
		for _, entry := range list {
			// The name of a compressed form is <content>.<encoding>.
			content, _, _ := strings.Cut(entry.Name(), ".")
			if (folder == contentFolder && s.claims[content] > 0) || (folder == catalogFolder && s.slots[entry.Name()] != nil) {
				continue
			}
			if err := s.disk.removeTree(filepath.Join(s.dir, folder, entry.Name())); err != nil {
				return err
			}
		}
	}

	return nil
}

// OnLost adds a handler that is called with the name of each catalog whose content is found to be missing
// or damaged, once for each loss. The handler must neither block nor call the store.
func (s *Store) OnLost(f func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostHandlers = append(s.lostHandlers, f)
}

// Scratch creates an empty directory on the volume of the store, for unpacking an image. The caller
// removes it.
func (s *Store) Scratch() (string, error) {
	parent := filepath.Join(s.dir, scratchFolder)
	if err := s.disk.ensureDirectory(parent); err != nil {
		return "", explainDiskError("creating a directory to unpack into", err)
	}

	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return "", explainDiskError("creating a directory to unpack into", err)
	}

	return dir, nil
}

// Names returns the names of all stored catalogs, including those with damaged content.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.slots))
}

// Stored describes the stored content of a catalog. It returns ErrNotFound if there is none, or a
// *DamagedError if the content is missing or damaged. In that case, Content can still serve older
// content.
func (s *Store) Stored(name string) (Info, error) {
	slot := s.findSlot(name)
	if slot == nil {
		return Info{}, ErrNotFound
	}

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.refreshSlot(slot); err != nil {
		return Info{}, err
	}

	return slot.describeContent(), nil
}

// Serves reports whether Content returns content of the catalog.
func (s *Store) Serves(name string) bool {
	content, err := s.Content(name)
	if err != nil {
		return false
	}
	content.Close()
	return true
}

// Content returns the content of a catalog for reading. The caller closes it. If the file was removed, an
// open file remains readable until new content is stored.
func (s *Store) Content(name string) (*Content, error) {
	slot := s.findSlot(name)
	if slot == nil {
		return nil, ErrNotFound
	}

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.file == nil || slot.file.checkUsable() != nil {
		if err := s.refreshSlot(slot); err != nil {
			return nil, err
		}
	}

	slot.file.addReference()
	return &Content{file: slot.file, info: slot.describeContent(), store: s}, nil
}

// describeContent returns the Info of a slot with an open file. The caller holds the mu of the slot.
func (s *catalogSlot) describeContent() Info {
	return Info{
		Source: s.pointer.Source, Unpacked: s.pointer.Unpacked, Confirmed: s.pointer.Confirmed, Modified: s.pointer.Modified,
		Sum: s.pointer.Content, Bytes: s.file.index.bytes, Blobs: len(s.file.index.records),
	}
}

// Confirm records that a reference resolved to the stored content at a time.
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

	// The stored content cannot change while writing is locked.
	confirmed := pointer{Source: Source{Ref: ref, Resolved: stored.Resolved}, Content: stored.Sum, Unpacked: stored.Unpacked, Modified: stored.Modified, Confirmed: at.UTC()}
	doing := "recording that catalog " + name + " is up to date"
	written, err := s.writePendingPointer(confirmed)
	if err != nil {
		return Info{}, explainDiskError(doing, err)
	}
	defer written.closeAndDiscard()
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.commitPointer(slot, written, confirmed); err != nil {
		return Info{}, explainDiskError(doing, err)
	}

	stored.Ref, stored.Confirmed = confirmed.Ref, confirmed.Confirmed
	return stored, nil
}

// Delete removes the content of a catalog. It is not an error if there is none. Contents that are open
// remain readable.
func (s *Store) Delete(name string) error {
	slot := s.lockForWriting(name, false)
	if slot == nil {
		return nil
	}
	defer slot.writing.Unlock()
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := s.disk.removeFile(s.pointerPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting the stored content of catalog %q: %w", name, err)
	}

	content := slot.pointer.Content
	slot.replaceFile(nil)
	slot.pointer, slot.stat, slot.problem = pointer{}, nil, nil
	s.mu.Lock()
	delete(s.slots, name)
	s.mu.Unlock()
	if err := s.releaseClaim(content); err != nil {
		return fmt.Errorf("deleting the stored content of catalog %q: %w", name, err)
	}

	return nil
}

// Close releases the open files and waits for background work. Contents that are open remain readable.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	slots := slices.Collect(maps.Values(s.slots))
	for _, f := range s.files {
		f.retireFile()
	}

	s.mu.Unlock()
	for _, slot := range slots {
		slot.mu.Lock()
		slot.replaceFile(nil)
		slot.mu.Unlock()
	}

	s.backgroundWork.Wait()
}

// Check checks the files of all catalogs, so that the OnLost handlers are also called for content that is
// not being read.
func (s *Store) Check() {
	for _, name := range s.Names() {
		// Stored reports losses to the handlers.
		_, _ = s.Stored(name)
	}
}

// notifyLost calls the OnLost handlers for a catalog.
func (s *Store) notifyLost(name string) {
	s.mu.Lock()
	lost := s.lostHandlers
	s.mu.Unlock()
	for _, f := range lost {
		f(name)
	}
}

// findSlot returns the slot of a catalog, or nil if there is none.
func (s *Store) findSlot(name string) *catalogSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots[name]
}

// lockForWriting returns the slot of a catalog with writing locked. If there is no slot, it creates one if
// create is set, and returns nil otherwise.
func (s *Store) lockForWriting(name string, create bool) *catalogSlot {
	for {
		s.mu.Lock()
		found := s.slots[name]
		if found == nil && create {
			found = &catalogSlot{name: name}
			s.slots[name] = found
		}

		s.mu.Unlock()
		if found == nil {
			return nil
		}

		found.writing.Lock()
		// The slot can have been deleted while waiting for the lock.
		if s.findSlot(name) == found {
			return found
		}

		found.writing.Unlock()
	}
}

var catalogNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// isValidName reports whether a name is a valid catalog name. A valid name is also a file name that is not
// hidden and does not refer to another directory.
func isValidName(name string) bool {
	return len(name) <= 253 && catalogNamePattern.MatchString(name) && !strings.Contains(name, "..")
}
