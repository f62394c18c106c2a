package serve

import (
	"strconv"
	"testing"
)

func TestTheCacheIsBounded(t *testing.T) {
	const share = 1000
	c := newResponseCache(maxCacheItemShare * (share + cacheItemOverhead))
	key := func(i int) cacheKey { return cacheKey{sum: strconv.Itoa(i), encoding: encodingGzip} }
	for i := range 5 * maxCacheItemShare {
		c.put(key(i), make([]byte, share))
		c.put(key(i), make([]byte, share)) // The second call finds the entry.
		// The first item is used continuously.
		if _, found := c.get(key(0)); !found {
			t.Fatalf("the most recently used entry is missing after %d other entries, want it to be kept", i)
		}
	}

	kept := 0
	for i := range 5 * maxCacheItemShare {
		if body, found := c.get(key(i)); found {
			kept++
			if len(body) != share {
				t.Errorf("got body %d of %d bytes, want %d", i, len(body), share)
			}
		}
	}

	if kept != maxCacheItemShare || c.bytes != c.limit || c.order.Len() != kept || len(c.items) != kept {
		t.Errorf("got %d cached responses of %d bytes, %d in the list and %d by key, want %d", kept, c.bytes, c.order.Len(), len(c.items), maxCacheItemShare)
	}
	if _, found := c.get(cacheKey{sum: "0", encoding: encodingZstd}); found {
		t.Error("got a cached response for a different encoding, want none")
	}

	c.put(key(-1), make([]byte, share+1))
	if _, found := c.get(key(-1)); found {
		t.Error("got a cached response that exceeds the limit of an item, want it not to be cached")
	}
}
