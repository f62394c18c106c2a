package updateservice

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
)

// fakePrometheus maps queries to results.
type fakePrometheus map[string]bool

func (a fakePrometheus) Match(_ context.Context, query string) (bool, error) { return a[query], nil }

// All clusters get the same response, and each evaluates which risks apply to it.
func TestUpdatesOfClusters(t *testing.T) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	i.pushRelease("4.1.1", "4.1.0")
	i.pushRelease("4.1.2", "4.1.0", "4.1.1")
	i.pushRelease("4.1.3", "4.1.0", "4.1.2")
	s := newScannedService(t, Options{Releases: i.repository, DataFolder: newDataFolder(t, map[string]string{
		"channels/stable.yaml": "name: stable-4.1\nversions: [4.1.0, 4.1.1, 4.1.2, 4.1.3]\n",
		"blocked-edges/a.yaml": issue,
		"blocked-edges/b.yaml": strings.NewReplacer("4.1.2", "4.1.3", "promql: up", "promql: down", "name: A", "name: B").Replace(issue),
		"channels/fast.yaml":   "name: fast-4.1\nversions: [4.1.0]\n",
	})})

	server := httptest.NewServer(s.Handler())
	defer server.Close()
	ask := func(change func(q *updates.Query)) updates.Result {
		t.Helper()
		w := updates.NewWatcher(updates.Options{PromQL: fakePrometheus{"up": true, "down": false}, Log: logr.Discard()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Start(ctx) }()
		q := updates.Query{
			Upstream: server.URL + "/api/upgrades_info/graph", Channel: "stable-4.1", ClusterID: "7b8f3a3e-8a0e-4c7c-9a9f-0f2c6a3f1c11",
			Version: "4.1.0", Architecture: "amd64",
		}
		change(&q)
		w.Set(q, nil)
		<-w.Changed()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}

		return w.Result()
	}

	formatResult := func(r updates.Result) string {
		texts := []string{r.Reason}
		for _, release := range r.Available {
			texts = append(texts, release.Version)
		}
		for _, update := range r.Conditional {
			c := update.Conditions[0]
			texts = append(texts, update.Release.Version+"="+string(c.Status)+"/"+c.Reason)
		}
		return strings.Join(texts, " ")
	}

	for name, c := range map[string]struct {
		change func(q *updates.Query)
		want   string
	}{
		"a risk that applies and one that does not": {func(*updates.Query) {}, " 4.1.3 4.1.1 4.1.3=True/NotExposedToRisks 4.1.2=False/A"},
		"another cluster":            {func(q *updates.Query) { q.ClusterID = "11111111-8a0e-4c7c-9a9f-0f2c6a3f1c11" }, " 4.1.3 4.1.1 4.1.3=True/NotExposedToRisks 4.1.2=False/A"},
		"an accepted risk":           {func(q *updates.Query) { q.AcceptedRisks = []string{"A"} }, " 4.1.3 4.1.2 4.1.1 4.1.3=True/NotExposedToRisks 4.1.2=True/AllExposedRisksAccepted"},
		"another version":            {func(q *updates.Query) { q.Version = "4.1.1" }, " 4.1.2"},
		"another channel":            {func(q *updates.Query) { q.Channel = "fast-4.1" }, ""},
		"a version not there":        {func(q *updates.Query) { q.Channel, q.Version = "fast-4.1", "4.1.1" }, "VersionNotFound"},
		"an unknown channel":         {func(q *updates.Query) { q.Channel = "eus-4.1" }, "VersionNotFound"},
		"an invalid channel":         {func(q *updates.Query) { q.Channel = "Stable" }, "ResponseFailed"},
		"an architecture not there":  {func(q *updates.Query) { q.Architecture = "arm64" }, "VersionNotFound"},
		"an address without service": {func(q *updates.Query) { q.Upstream = server.URL }, "ResponseFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := formatResult(ask(c.change)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}

	available := ask(func(*updates.Query) {}).Available[1]
	want := configv1.Release{Version: "4.1.1", URL: "https://example.com/4.1.1", Channels: []string{"stable-4.1"}}
	if available.Version != want.Version || available.URL != want.URL || strings.Join(available.Channels, ",") != "stable-4.1" || !strings.Contains(available.Image, "@sha256:") {
		t.Errorf("got release %+v, want %+v", available, want)
	}
}
