package version

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

var start = metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

// formatHistory returns a history as version[*], with an exclamation mark for entries that were completed or replaced.
func formatHistory(history []configv1.UpdateHistory) string {
	var all []string
	for _, entry := range history {
		text := entry.Version + "=" + entry.Image
		if entry.State == configv1.CompletedUpdate {
			text += "*"
		}
		if entry.CompletionTime != nil {
			text += "!"
		}
		all = append(all, text)
	}

	return strings.Join(all, " ")
}

func TestRecordHistory(t *testing.T) {
	of := func(version, image string) releaseAttempt {
		return releaseAttempt{Release: configv1.Release{Version: version, Image: image}}
	}
	done := func(a releaseAttempt) releaseAttempt { a.complete = true; return a }
	cases := map[string]struct {
		attempts []releaseAttempt
		want     string
	}{
		"started":                        {[]releaseAttempt{of("1.0.0", "a")}, "1.0.0=a"},
		"done":                           {[]releaseAttempt{of("1.0.0", "a"), done(of("1.0.0", "a"))}, "1.0.0=a*!"},
		"done once stays done":           {[]releaseAttempt{done(of("1.0.0", "a")), of("1.0.0", "a")}, "1.0.0=a*!"},
		"another":                        {[]releaseAttempt{done(of("1.0.0", "a")), of("1.0.1", "b")}, "1.0.1=b 1.0.0=a*!"},
		"replaced before it was done":    {[]releaseAttempt{of("1.0.0", "a"), of("1.0.1", "b")}, "1.0.1=b 1.0.0=a!"},
		"a version that comes later":     {[]releaseAttempt{of("", "a"), of("1.0.0", "a")}, "1.0.0=a"},
		"a version that is not known":    {[]releaseAttempt{of("1.0.0", "a"), of("", "a")}, "1.0.0=a"},
		"the same version elsewhere":     {[]releaseAttempt{of("1.0.0", "a"), of("1.0.0", "b")}, "1.0.0=b 1.0.0=a!"},
		"the same image, another inside": {[]releaseAttempt{of("1.0.0", "a"), of("1.0.1", "a")}, "1.0.1=a 1.0.0=a!"},
		"back":                           {[]releaseAttempt{done(of("1.0.0", "a")), of("1.0.1", "b"), of("1.0.0", "a")}, "1.0.0=a 1.0.1=b! 1.0.0=a*!"},
		"no image":                       {[]releaseAttempt{of("1.0.0", "a"), of("1.0.0", "")}, ""},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var history []configv1.UpdateHistory
			for _, a := range c.attempts {
				history = recordHistory(history, a, start)
			}
			if got := formatHistory(history); got != c.want {
				t.Errorf("got history %q, want %q", got, c.want)
			}
			if history == nil {
				t.Error("got history nil, want an empty one")
			}
		})
	}
}

func TestRecordOfAcceptance(t *testing.T) {
	a := releaseAttempt{Release: configv1.Release{Version: "1.0.0", Image: "a"}, verified: true, risks: "first"}
	history := recordHistory(nil, a, start)
	a.verified, a.risks = false, "second"
	history = recordHistory(history, a, start)
	if !history[0].Verified || history[0].AcceptedRisks != "second" {
		t.Errorf("got entry %+v, want it verified with the risk second", history[0])
	}

	a.isRecorded, a.risks = true, ""
	if history = recordHistory(history, a, start); history[0].AcceptedRisks != "second" {
		t.Errorf("got entry %+v, want it to keep the risks of the running release", history[0])
	}
}

func TestRecordKeepsItsArgument(t *testing.T) {
	history := recordHistory(nil, releaseAttempt{Release: configv1.Release{Version: "1.0.0", Image: "a"}}, start)
	before := slices.Clone(history)
	recordHistory(history, releaseAttempt{Release: configv1.Release{Version: "1.0.1", Image: "b"}}, start)
	if diff := cmp.Diff(before, history); diff != "" {
		t.Errorf("history (-before +after):\n%s", diff)
	}
}

// newHistory returns a history of n patch releases, oldest last, with the states that a function
// returns.
func newHistory(n int, version func(i int) string, state func(i int) configv1.UpdateState) []configv1.UpdateHistory {
	var history []configv1.UpdateHistory
	for i := range n {
		history = append(history, configv1.UpdateHistory{Version: version(i), Image: fmt.Sprint("image-", i), State: state(i)})
	}
	return history
}

func TestPruneHistory(t *testing.T) {
	partial := func(int) configv1.UpdateState { return configv1.PartialUpdate }
	complete := func(int) configv1.UpdateState { return configv1.CompletedUpdate }
	patch := func(i int) string { return fmt.Sprintf("4.1.%d", 200-i) }
	cases := map[string]struct {
		history []configv1.UpdateHistory
		gone    string
	}{
		"the oldest but one of equal worth": {newHistory(101, patch, complete), "4.1.101"},
		"a partial one before an older complete one": {
			newHistory(101, patch, func(i int) configv1.UpdateState {
				if i == 20 {
					return configv1.PartialUpdate
				}
				return configv1.CompletedUpdate
			}), "4.1.101", // -20 and 20 entries weigh less than 99 entries
		},
		"the newest five and the oldest stay": {newHistory(7, patch, partial), "4.1.195"},
		"the last complete one stays": {
			newHistory(101, patch, func(i int) configv1.UpdateState {
				if i == 99 {
					return configv1.CompletedUpdate
				}
				return configv1.PartialUpdate
			}), "4.1.102",
		},
		"the way to another minor version is worth more": {
			newHistory(101, func(i int) string {
				if i < 50 {
					return fmt.Sprintf("4.2.%d", 100-i)
				}
				return fmt.Sprintf("4.1.%d", 200-i)
			}, func(i int) configv1.UpdateState {
				if i == 48 || i == 49 {
					return configv1.PartialUpdate
				}
				return configv1.CompletedUpdate
			}), "4.1.101",
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pruned := pruneHistory(slices.Clone(c.history))
			if len(pruned) != len(c.history)-1 {
				t.Fatalf("got %d of %d entries, want one less", len(pruned), len(c.history))
			}
			for i, entry := range c.history {
				if i == len(pruned) || entry != pruned[i] {
					if entry.Version != c.gone {
						t.Errorf("got pruned entry %s, want %s", entry.Version, c.gone)
					}
					return
				}
			}
		})
	}
}

func TestEntryWeight(t *testing.T) {
	history := []configv1.UpdateHistory{
		{Version: "4.3.0"}, {Version: "4.3.0"}, {Version: "4.3.0"}, {Version: "4.3.0"}, {Version: "4.3.0"},
		{Version: "4.2.9", State: configv1.CompletedUpdate}, // the newest complete one, and an end of its minor version
		{Version: "4.2.8"}, // within
		{Version: "4.2.7", State: configv1.CompletedUpdate}, // neither end
		{Version: "4.2.0", State: configv1.CompletedUpdate}, // an end
		{Version: "4.2.0"}, // between
		{Version: "4.1.0", State: configv1.CompletedUpdate}, // the oldest
	}

	want := []float64{
		980, 980 - 1.01, 980 - 2*1.01, 980 - 3*1.01, 1020 - 4*1.01, 1030 - 5*1.01, -20 - 6*1.01, -7 * 1.01, 30 - 8*1.01, 20 - 9*1.01, 1030 - 10*1.01,
	}
	for i := range history {
		if got := historyEntryWeight(history, i); got-want[i] > 0.001 || want[i]-got > 0.001 {
			t.Errorf("got weight %[2]v of entry %[1]d, want %[3]v", i, got, want[i])
		}
	}
}

// No two consecutive entries are equal, and the history has at most 100 entries.
func TestHistoryInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var history []configv1.UpdateHistory
	for i := range 2000 {
		version := fmt.Sprintf("4.%d.%d", random.IntN(3), random.IntN(3))
		history = recordHistory(history, releaseAttempt{Release: configv1.Release{Version: version, Image: "image-" + version}, complete: random.IntN(2) == 0}, start)
		if len(history) > maxHistoryEntries {
			t.Fatalf("step %d: got %d entries, want at most 100", i, len(history))
		}

		for j := 1; j < len(history); j++ {
			if isSameRelease(history[j-1], history[j]) {
				t.Fatalf("step %d: got %s for both entries %d and %d, want different ones", i, history[j].Version, j-1, j)
			}
		}

		if history[0].Version != version {
			t.Fatalf("step %d: got newest entry %s, want %s", i, history[0].Version, version)
		}
	}
}
