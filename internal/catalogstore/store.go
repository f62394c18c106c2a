package catalogstore

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
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
	*volume
	limits     Limits
	now        func() time.Time
	files      *contentFiles
	compressor *compressor
	lost       *lossHandlers
	slots      *slotTable
}

// Open returns the store in a directory, and creates the directory if it does not exist. Unfinished files
// of an earlier process and unused content are removed. Content files are opened on demand.
func Open(dir string, limits Limits) (*Store, error) {
	return openStore(dir, limits, disk{})
}

func openStore(dir string, limits Limits, d disk) (*Store, error) {
	limits = limits.withDefaults()
	s := &Store{volume: &volume{dir: dir, disk: d, limit: limits.TotalBytes}, limits: limits, now: time.Now, lost: &lossHandlers{}}
	s.files = newContentFiles(s.volume)
	s.files.onDamage = s.Check
	s.compressor = &compressor{files: s.files, turn: make(chan struct{}, 1)}
	s.slots = &slotTable{files: s.files, lost: s.lost, slots: map[string]*catalogSlot{}}
	if err := s.disk.ensureDirectory(dir); err != nil {
		return nil, fmt.Errorf("creating the directory of the catalog store: %w", err)
	}
	if err := s.slots.loadPointers(); err != nil {
		return nil, fmt.Errorf("reading the catalog store: %w", err)
	}

	isCatalog := func(name string) bool { return s.slots.findSlot(name) != nil }
	if err := s.removeOrphans(s.files.hasClaim, isCatalog); err != nil {
		return nil, fmt.Errorf("removing unfinished files from the catalog store: %w", err)
	}

	return s, nil
}

// OnLost adds a handler that is called with the name of each catalog whose content is found to be missing
// or damaged, once for each loss, except those of partitions. The handler must neither block nor call the store.
func (s *Store) OnLost(f func(name string)) {
	s.lost.addHandler(f)
}

// Names returns the names of all stored catalogs, including those with damaged content.
func (s *Store) Names() []string { return slices.DeleteFunc(s.slots.listNames(), isPartitioned) }

// Stored describes the stored content of a catalog. It returns ErrNotFound if there is none, or a
// *DamagedError if the content is missing or damaged. In that case, Content can still serve older
// content.
func (s *Store) Stored(name string) (Info, error) {
	if isPartitioned(name) {
		return Info{}, ErrNotFound
	}
	return s.describeStored(name)
}

// describeStored is Stored for catalogs of all partitions.
func (s *Store) describeStored(name string) (Info, error) {
	slot := s.slots.findSlot(name)
	if slot == nil {
		return Info{}, ErrNotFound
	}

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if err := slot.refreshContent(); err != nil {
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
	if isPartitioned(name) {
		return nil, ErrNotFound
	}
	return s.openContent(name)
}

// openContent is Content for catalogs of all partitions.
func (s *Store) openContent(name string) (*Content, error) {
	slot := s.slots.findSlot(name)
	if slot == nil {
		return nil, ErrNotFound
	}

	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.file == nil || slot.file.checkUsable() != nil {
		if err := slot.refreshContent(); err != nil {
			return nil, err
		}
	}

	slot.file.addReference()
	return &Content{file: slot.file, info: slot.describeContent(), compressor: s.compressor}, nil
}

// Confirm records that a reference resolved to the stored content at a time.
func (s *Store) Confirm(name, ref string, at time.Time) (Info, error) {
	if isPartitioned(name) {
		return Info{}, ErrNotFound
	}
	return s.confirmContent(name, ref, at)
}

// confirmContent is Confirm for catalogs of all partitions.
func (s *Store) confirmContent(name, ref string, at time.Time) (Info, error) {
	slot := s.slots.lockForWriting(name, false)
	if slot == nil {
		return Info{}, ErrNotFound
	}
	defer slot.writing.Unlock()
	stored, err := s.describeStored(name)
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
	if err := slot.commitPointer(written, confirmed); err != nil {
		return Info{}, explainDiskError(doing, err)
	}

	stored.Ref, stored.Confirmed = confirmed.Ref, confirmed.Confirmed
	return stored, nil
}

// Delete removes the content of a catalog. It is not an error if there is none. Contents that are open
// remain readable.
func (s *Store) Delete(name string) error {
	slot := s.slots.lockForWriting(name, false)
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
	s.slots.removeSlot(name)
	if err := s.files.releaseClaim(content); err != nil {
		return fmt.Errorf("deleting the stored content of catalog %q: %w", name, err)
	}

	return nil
}

// Close releases the open files and waits for background work. Contents that are open remain readable.
func (s *Store) Close() {
	s.files.retireAll()
	for _, slot := range s.slots.listSlots() {
		slot.mu.Lock()
		slot.replaceFile(nil)
		slot.mu.Unlock()
	}

	s.files.backgroundWork.Wait()
}

// Check checks the files of all catalogs, so that the OnLost handlers are also called for content that is
// not being read.
func (s *Store) Check() {
	for _, name := range s.slots.listNames() {
		// It reports losses to the handlers.
		_, _ = s.describeStored(name)
	}
}

var catalogNamePattern = regexp.MustCompile(`^([a-z]+` + partitionSeparator + `)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// isValidName reports whether a name is a valid catalog name. A valid name is also a file name that is not
// hidden and does not refer to another directory.
func isValidName(name string) bool {
	return len(name) <= 253 && catalogNamePattern.MatchString(name) && !strings.Contains(name, "..")
}
