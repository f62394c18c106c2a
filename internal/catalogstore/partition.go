package catalogstore

import (
	"context"
	"io/fs"
	"strings"
	"time"
)

// partitionSeparator separates the name of a partition from the name of a catalog. No object of
// Kubernetes has it in its name.
const partitionSeparator = ":"

// Partition is a part of a store with its own names, for a second component of the same process. It
// shares the disk and its limits with the store: equal content is stored once. The methods of Store do
// not see the catalogs of a partition, and a partition sees only its own.
type Partition struct {
	store  *Store
	prefix string
}

// Partition returns the partition with a name, which consists of lowercase letters.
func (s *Store) Partition(name string) *Partition {
	return &Partition{store: s, prefix: name + partitionSeparator}
}

// isPartitioned reports whether a name belongs to a partition.
func isPartitioned(name string) bool { return strings.Contains(name, partitionSeparator) }

// Names returns the names of all catalogs of the partition.
func (p *Partition) Names() []string {
	var names []string
	for _, name := range p.store.slots.listNames() {
		if own, ok := strings.CutPrefix(name, p.prefix); ok {
			names = append(names, own)
		}
	}
	return names
}

// Stored is like Store.Stored.
func (p *Partition) Stored(name string) (Info, error) { return p.store.describeStored(p.prefix + name) }

// Content is like Store.Content.
func (p *Partition) Content(name string) (*Content, error) {
	return p.store.openContent(p.prefix + name)
}

// Unpack is like Store.Unpack.
func (p *Partition) Unpack(ctx context.Context, name string, source Source, fsys fs.FS) (Info, error) {
	return p.store.Unpack(ctx, p.prefix+name, source, fsys)
}

// Confirm is like Store.Confirm.
func (p *Partition) Confirm(name, ref string, at time.Time) (Info, error) {
	return p.store.confirmContent(p.prefix+name, ref, at)
}

// Delete is like Store.Delete.
func (p *Partition) Delete(name string) error { return p.store.Delete(p.prefix + name) }

// Scratch is like Store.Scratch.
func (p *Partition) Scratch() (string, error) { return p.store.Scratch() }

// Reserve implements image.Space, like Store.Reserve.
func (p *Partition) Reserve(bytes int64) error { return p.store.Reserve(bytes) }

// Release implements image.Space, like Store.Release.
func (p *Partition) Release(bytes int64) { p.store.Release(bytes) }
