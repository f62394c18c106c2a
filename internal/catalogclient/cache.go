package catalogclient

import (
	"container/list"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// cacheKey identifies a package of a catalog.
type cacheKey struct{ base, pkg string }

// cacheEntry is a cached package: the two responses about it and their merged content. It is
// immutable.
type cacheEntry struct {
	blobsResponse, packageResponse packageResponse
	content                        *fbc.Content
}

// entryOverheadBytes is the size of an entry without its content: keys, entity tags and the list
// element.
const entryOverheadBytes = 1 << 10

// estimateSize estimates the memory of an entry. Decoded blobs need about twice the size of their
// JSON, as most of it is strings with a header each.
func (e cacheEntry) estimateSize() int64 {
	return 2*(e.blobsResponse.blobBytes+e.packageResponse.blobBytes) + entryOverheadBytes
}

// cache is an LRU cache of packages, bounded by a number of bytes.
type cache struct {
	limit int64

	mu        sync.Mutex
	usedBytes int64
	// order has the keys, most recently used first.
	order *list.List
	items map[cacheKey]*list.Element
}

// cacheItem is an element of the list order.
type cacheItem struct {
	key   cacheKey
	entry cacheEntry
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, order: list.New(), items: map[cacheKey]*list.Element{}}
}

// get returns the entry of a package, or an empty entry.
func (c *cache) get(key cacheKey) cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.items[key]
	if !ok {
		return cacheEntry{}
	}

	c.order.MoveToFront(element)
	return element.Value.(*cacheItem).entry
}

// put stores the entry of a package and evicts the least recently used ones. An entry that is
// larger than the cache is not stored.
func (c *cache) put(key cacheKey, entry cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.items[key]; ok {
		c.removeElement(element)
	}
	if entry.estimateSize() > c.limit {
		return
	}

	c.items[key] = c.order.PushFront(&cacheItem{key: key, entry: entry})
	c.usedBytes += entry.estimateSize()
	for c.usedBytes > c.limit {
		c.removeElement(c.order.Back())
	}
}

func (c *cache) removeElement(element *list.Element) {
	old := c.order.Remove(element).(*cacheItem)
	delete(c.items, old.key)
	c.usedBytes -= old.entry.estimateSize()
}
