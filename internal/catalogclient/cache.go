package catalogclient

import (
	"container/list"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// cacheKey names a package of a catalog.
type cacheKey struct{ base, pkg string }

// cacheEntry is what is known of a package: the two answers and what they give together.
// It is not changed once it is made.
type cacheEntry struct {
	rest, own part
	content   *fbc.Content
}

// entryBytes is what an entry takes beside its content: keys, tags and the list.
const entryBytes = 1 << 10

// size estimates the memory of an entry: decoded blobs take about twice their JSON, as
// most of it is strings that each have a header.
func (e cacheEntry) size() int64 { return 2*(e.rest.bytes+e.own.bytes) + entryBytes }

// cache keeps the packages that were last asked for, up to a number of bytes.
type cache struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	// order has the keys, the last asked for in front.
	order *list.List
	items map[cacheKey]*list.Element
}

// item is an element of the order.
type item struct {
	key   cacheKey
	entry cacheEntry
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, order: list.New(), items: map[cacheKey]*list.Element{}}
}

// get returns what is known of a package, nothing when that is nothing.
func (c *cache) get(key cacheKey) cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.items[key]
	if !ok {
		return cacheEntry{}
	}

	c.order.MoveToFront(element)
	return element.Value.(*item).entry
}

// put notes what is known of a package. One that is larger than the cache is not kept.
func (c *cache) put(key cacheKey, entry cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.items[key]; ok {
		c.remove(element)
	}
	if entry.size() > c.limit {
		return
	}

	c.items[key] = c.order.PushFront(&item{key: key, entry: entry})
	c.bytes += entry.size()
	for c.bytes > c.limit {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(element *list.Element) {
	old := c.order.Remove(element).(*item)
	delete(c.items, old.key)
	c.bytes -= old.entry.size()
}
