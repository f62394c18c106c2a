package publish

import (
	"strconv"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// FuzzLinkChannelHeads checks that linking leaves one head, or none if all entries are in cycles,
// that it adds no cycle, and that it is idempotent.
func FuzzLinkChannelHeads(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0xff})
	f.Add([]byte{2, 0xff, 0xff, 1})
	f.Add([]byte{1, 2, 0xff, 1, 9, 0, 0xff})
	f.Fuzz(func(t *testing.T, edges []byte) {
		// Each byte is an entry with the one that it replaces, and for odd bytes one that it skips.
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

		cycles := countEntriesInCycles(entries)
		heads := linkChannelHeads(entries)
		if want := min(len(heads), 1); len(findChannelHeads(entries)) != want {
			t.Errorf("heads %v of %+v, want %d", findChannelHeads(entries), entries, want)
		}
		if got := countEntriesInCycles(entries); got != cycles {
			t.Errorf("%d entries are in cycles, want %d: %+v", got, cycles, entries)
		}

		before := len(entries)
		if again := linkChannelHeads(entries); len(again) > 1 || len(entries) != before {
			t.Errorf("second call: got heads %v and %d entries, want at most one head and %d entries", again, len(entries), before)
		}
	})
}

// countEntriesInCycles returns the number of entries that are an update of themselves over
// at least one other entry.
func countEntriesInCycles(entries []fbc.ChannelEntry) int {
	count := 0
	for i := range entries {
		for j := range entries {
			if i != j && isTransitiveUpdate(entries, i, j) && isTransitiveUpdate(entries, j, i) {
				count++
				break
			}
		}
	}

	return count
}
