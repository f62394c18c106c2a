package publish

import (
	"strconv"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Whatever edges a channel has: linking leaves one head or, where everything goes round
// in a circle, none; it makes no new circle; and it is done after the first time.
func FuzzLinkHeads(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0xff})
	f.Add([]byte{2, 0xff, 0xff, 1})
	f.Add([]byte{1, 2, 0xff, 1, 9, 0, 0xff})
	f.Fuzz(func(t *testing.T, edges []byte) {
		// Each byte is an entry: what it replaces, and for odd ones what it skips as well.
		n := min(len(edges), 12)
		entries := make([]fbc.ChannelEntry, n)
		for i := range entries {
			entries[i].Name = strconv.Itoa(i)
			if to := int(edges[i] >> 1); to < n {
				entries[i].Replaces = strconv.Itoa(to)
			}
			if to := int(edges[i] & 15); edges[i]&1 == 1 && to < n {
				entries[i].Skips = []string{strconv.Itoa(to)}
			}
		}

		circles := inCircles(entries)
		heads := linkHeads(entries)
		if want := min(len(heads), 1); len(headsOf(entries)) != want {
			t.Errorf("heads %v of %+v, want %d", headsOf(entries), entries, want)
		}
		if got := inCircles(entries); got != circles {
			t.Errorf("%d entries lie on circles, %d before: %+v", got, circles, entries)
		}

		before := len(entries)
		if again := linkHeads(entries); len(again) > 1 || len(entries) != before {
			t.Errorf("there is more to link: %v", again)
		}
	})
}

// inCircles counts the entries that are, over at least one edge to another, an update of
// themselves.
func inCircles(entries []fbc.ChannelEntry) int {
	count := 0
	for i := range entries {
		for j := range entries {
			if i != j && leadsTo(entries, i, j) && leadsTo(entries, j, i) {
				count++
				break
			}
		}
	}

	return count
}
