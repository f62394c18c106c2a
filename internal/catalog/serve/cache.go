package serve

import (
	"container/list"
	"sync"
)

const (
	// cacheBytes bounds the answers that are kept in memory: about 300 packages in
	// compressed form, or without their icons and descriptions.
	cacheBytes = 8 << 20
	// cacheShare is the part of it that one answer may take.
	cacheShare = 16
)

// cacheKey names the bytes of an answer: those that it is made of, and how they are
// encoded. The same key always means the same, so that nothing has to be taken out when a
// catalog changes.
type cacheKey struct{ sum, encoding string }

// cache keeps answers that had to be made.
type cache struct {
	limit int

	mu    sync.Mutex
	bytes int
	// order has the items, the last asked for in front.
	order *list.List
	items map[cacheKey]*list.Element
}

type cacheItem struct {
	key  cacheKey
	body []byte
}

// itemBytes is what an item takes beside its body.
const itemBytes = 300

func (i *cacheItem) size() int { return len(i.body) + itemBytes }

func newCache(limit int) *cache {
	return &cache{limit: limit, order: list.New(), items: map[cacheKey]*list.Element{}}
}

// get returns a body, which is not to be changed.
func (c *cache) get(key cacheKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.items[key]
	if !ok {
		return nil, false
	}

	c.order.MoveToFront(element)
	return element.Value.(*cacheItem).body, true
}

// put keeps a body, unless it is so large that it would drive out many others.
func (c *cache) put(key cacheKey, body []byte) {
	item := &cacheItem{key: key, body: body}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.items[key]; known || item.size() > c.limit/cacheShare {
		return
	}

	c.items[key] = c.order.PushFront(item)
	c.bytes += item.size()
	for c.bytes > c.limit {
		old := c.order.Remove(c.order.Back()).(*cacheItem)
		delete(c.items, old.key)
		c.bytes -= old.size()
	}
}
