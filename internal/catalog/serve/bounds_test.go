package serve

import (
	"net/netip"
	"strconv"
	"testing"
)

func TestTheCacheIsBounded(t *testing.T) {
	const share = 1000
	c := newCache(cacheShare * (share + itemBytes))
	key := func(i int) cacheKey { return cacheKey{sum: strconv.Itoa(i), encoding: encodingGzip} }
	for i := range 5 * cacheShare {
		c.put(key(i), make([]byte, share))
		c.put(key(i), make([]byte, share)) // It is there already.
		// The first is asked for all the time.
		if _, found := c.get(key(0)); !found {
			t.Fatalf("what was just asked for is gone after %d others", i)
		}
	}
	kept := 0
	for i := range 5 * cacheShare {
		if body, found := c.get(key(i)); found {
			kept++
			if len(body) != share {
				t.Errorf("body %d has %d bytes", i, len(body))
			}
		}
	}
	if kept != cacheShare || c.bytes != c.limit || c.order.Len() != kept || len(c.items) != kept {
		t.Errorf("%d answers of %d bytes are kept, %d in order, %d by key: want %d", kept, c.bytes, c.order.Len(), len(c.items), cacheShare)
	}
	if _, found := c.get(cacheKey{sum: "0", encoding: encodingZstd}); found {
		t.Error("an answer is found in another encoding")
	}
	c.put(key(-1), make([]byte, share+1))
	if _, found := c.get(key(-1)); found {
		t.Error("an answer is kept that is larger than its share")
	}
}

// TestClientsThatAreGoneAreForgotten lets many addresses come and go.
func TestClientsThatAreGoneAreForgotten(t *testing.T) {
	g := newGate(Limits{})
	l := limitListener(nil, Limits{}.withDefaults())
	for i := range 1000 {
		client := netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i % 256)})
		if code := g.enter(client); code != 0 {
			t.Fatalf("client %d gets %d", i, code)
		}
		g.leave(client)
		l.free <- struct{}{}
		if !l.admit(client) {
			t.Fatalf("client %d is not admitted", i)
		}
		l.leave(client)
	}
	if len(g.clients) != 0 || g.all != 0 || len(l.clients) != 0 || len(l.free) != 0 {
		t.Errorf("%d and %d clients are remembered, %d requests and %d connections are counted", len(g.clients), len(l.clients), g.all, len(l.free))
	}
}

func TestClientsAreAddresses(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:1234":          "10.0.0.1",
		"10.0.0.1:1":             "10.0.0.1",
		"[::ffff:10.0.0.1]:1234": "10.0.0.1",
		"[fe80::1%eth0]:1234":    "fe80::1%eth0",
		"pipe":                   "invalid IP",
	} {
		if got := clientOf(remote).String(); got != want {
			t.Errorf("%s is of client %s, want %s", remote, got, want)
		}
	}
}
