package inline

import (
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/image"
)

func TestRetryInterval(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 8: 256 * time.Second, 9: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := retryInterval(failures); got != want {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want)
		}
	}
}

func TestIsPollDue(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		interval       time.Duration
		before, latest time.Time
		want           bool
	}{
		"not polled":                 {0, time.Time{}, time.Time{}, false},
		"never":                      {time.Hour, now.Add(-time.Hour), time.Time{}, true},
		"recently, by this process":  {time.Hour, now.Add(-2 * time.Hour), now.Add(-time.Minute), false},
		"recently, before a restart": {time.Hour, now.Add(-time.Minute), time.Time{}, false},
		"long ago, by this process":  {time.Hour, now.Add(-3 * time.Hour), now.Add(-2 * time.Hour), true},
	} {
		st := &catalogState{catalog: Catalog{PollInterval: test.interval, LastPoll: test.before}, polled: test.latest}
		if got := st.isPollDue(now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestCatalogFolder(t *testing.T) {
	for name, test := range map[string]struct {
		folder string
		labels map[string]string
		want   string
		fails  bool
	}{
		"label":              {"", map[string]string{image.LabelConfigs: "/configs"}, "/configs", false},
		"spec before label":  {"/mine", map[string]string{image.LabelConfigs: "/configs"}, "/mine", false},
		"spec without label": {"/mine", nil, "/mine", false},
		"SQLite":             {"", map[string]string{labelDatabase: "/db"}, "", true},
		"FBC and SQLite":     {"", map[string]string{labelDatabase: "/db", image.LabelConfigs: "/configs"}, "/configs", false},
		"no catalog":         {"", nil, "", true},
	} {
		got, err := catalogFolder(Catalog{Folder: test.folder}, test.labels)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %q (%v), want %q", name, got, err, test.want)
		}
	}
}
