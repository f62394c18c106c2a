package serve

import (
	"container/list"
	"sync"
)

const (
	// maxCacheBytes limits the memory of cached bodies. It is enough for about 300 packages in
	// compressed form or without icons and descriptions.
	maxCacheBytes = 8_000_000
	// maxCacheItemShare limits a single body to this fraction of the cache.
	maxCacheItemShare = 16
)

// cacheKey identifies an encoded body by the checksum of its source and its encoding. A key always has
// the same value, so that a change of a catalog does not require invalidation.
type cacheKey struct{ sum, encoding string }

// responseCache is an LRU cache of generated bodies.
type responseCache struct {
	limit int

	mu    sync.Mutex
	bytes int
	// order contains the items, the most recently used first.
	order *list.List
	items map[cacheKey]*list.Element
}

type cacheItem struct {
	key  cacheKey
	body []byte
}

// cacheItemOverhead is the memory of an item besides its body, in bytes.
const cacheItemOverhead = 300

// memorySize counts the capacity of the body, because the runtime allocates up to an eighth more than its
// length.
func (i *cacheItem) memorySize() int { return cap(i.body) + cacheItemOverhead }

func newResponseCache(limit int) *responseCache {
	return &responseCache{limit: limit, order: list.New(), items: map[cacheKey]*list.Element{}}
}

// get returns a body. The caller must not modify it.
func (c *responseCache) get(key cacheKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.items[key]
	if !ok {
		return nil, false
	}

	c.order.MoveToFront(element)
	return element.Value.(*cacheItem).body, true
}

// put adds a body and evicts the least recently used ones. A body above the size limit of a single item is
// not cached.
func (c *responseCache) put(key cacheKey, body []byte) {
	item := &cacheItem{key: key, body: body}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.items[key]; known || item.memorySize() > c.limit/maxCacheItemShare {
		return
	}

	c.items[key] = c.order.PushFront(item)
	c.bytes += item.memorySize()
	for c.bytes > c.limit {
		old := c.order.Remove(c.order.Back()).(*cacheItem)
		delete(c.items, old.key)
		c.bytes -= old.memorySize()
	}
}
