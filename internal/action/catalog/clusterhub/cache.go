// Package clusterhub lists the packages that a user can install on a cluster: those of the ClusterCatalogs, and those of the
// CatalogSources as package-server serves them.
//
// Every object is read as the user. The content of a ClusterCatalog is shared between users by its digest: who may read the
// ClusterCatalog may see it. It is read once, with the rights of the first user, and kept within limits.
package clusterhub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
)

// Limits of a cache.
const (
	// maxCachedBytes limits the indexes that are kept. One of 5,000 packages has about 60 MiB.
	maxCachedBytes = 384 << 20
	// loadTimeout limits the time for reading a catalog: 75 MB at 5 Mbit/s.
	loadTimeout = 2 * time.Minute
	// maxLoads limits the catalogs that are read at the same time, each of which needs memory for its blobs.
	maxLoads = 2
)

// content identifies the content of a catalog.
type content struct {
	catalog string
	// digest is the image reference with the digest, or another text that changes with the content.
	digest string
}

// Cache keeps the indexes of ClusterCatalogs. It is safe for concurrent use.
type Cache struct {
	slots chan struct{}

	mu      sync.Mutex
	indexes map[content]*cachedIndex
	loads   map[loadKey]*load
}

type cachedIndex struct {
	index    *hub.Index
	lastUsed time.Time
}

// loadKey identifies a load. Loads of different users are apart, because one of them may lack a permission.
type loadKey struct {
	content
	user string
}

// load is the reading of a catalog.
type load struct {
	done  chan struct{}
	index *hub.Index
	err   error
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{slots: make(chan struct{}, maxLoads), indexes: map[content]*cachedIndex{}, loads: map[loadKey]*load{}}
}

// get returns the index of a content. If it is not known, get starts to read it as the user, and waits until the context
// ends. It returns nil without an error if the index is not ready by then. The load continues.
func (c *Cache) get(ctx context.Context, wanted content, user string, config *rest.Config) (*hub.Index, error) {
	current, index := c.findOrStart(wanted, user, config) //nolint:contextcheck // the load continues for other users
	if index != nil {
		return index, nil
	}

	select {
	case <-ctx.Done():
		return nil, nil
	case <-current.done:
		return current.index, current.err
	}
}

// findOrStart returns the index, or the load of it.
func (c *Cache) findOrStart(wanted content, user string, config *rest.Config) (*load, *hub.Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.indexes[wanted]; known != nil {
		known.lastUsed = time.Now()
		return nil, known.index
	}

	key := loadKey{wanted, user}
	current := c.loads[key]
	if current == nil {
		current = &load{done: make(chan struct{})}
		c.loads[key] = current
		go c.run(key, current, config)
	}
	return current, nil
}

// run reads a catalog.
func (c *Cache) run(key loadKey, current *load, config *rest.Config) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	reader := &clustercatalog.Reader{Config: config}
	current.index, current.err = buildIndex(ctx, reader, key.catalog)

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loads, key)
	if current.err == nil {
		c.put(key.content, current.index)
	}
	close(current.done)
}

// buildIndex reads a catalog. Content that makes it panic is an error, as it does not come from the person who runs the
// console.
func buildIndex(ctx context.Context, reader *clustercatalog.Reader, name string) (index *hub.Index, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("clustercatalog %q: its content cannot be read: %v", name, cause)
		}
	}()
	return hub.Build(name, reader.Metas(ctx, name))
}

// put adds an index in place of the older content of the catalog. It removes those that were not used for the longest time.
// The caller holds the lock.
func (c *Cache) put(key content, index *hub.Index) {
	for other := range c.indexes {
		if other.catalog == key.catalog {
			delete(c.indexes, other)
		}
	}
	c.indexes[key] = &cachedIndex{index: index, lastUsed: time.Now()}

	for total := c.totalSize(); total > maxCachedBytes && len(c.indexes) > 1; total = c.totalSize() {
		var oldest content
		for other, entry := range c.indexes {
			if other != key && (oldest == content{} || entry.lastUsed.Before(c.indexes[oldest].lastUsed)) {
				oldest = other
			}
		}
		delete(c.indexes, oldest)
	}
}

func (c *Cache) totalSize() int64 {
	var total int64
	for _, entry := range c.indexes {
		total += entry.index.Size()
	}
	return total
}

// Icon returns an icon of a catalog that was listed. Its name contains the digest of its content: who knows it has read a
// catalog with it.
func (c *Cache) Icon(name string) (hub.Icon, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range c.indexes {
		if icon, ok := entry.index.Icon(name); ok {
			return icon, true
		}
	}
	return hub.Icon{}, false
}
