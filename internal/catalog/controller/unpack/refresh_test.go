package unpack

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

func TestARequestedRefreshResolvesTheTagOnce(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 0)
	w.mustReconcile()
	w.pushCatalog("v1", better)
	w.mustReconcile()
	if got := w.content(); got != good {
		t.Fatalf("before a refresh is requested: got content %q, want %q", got, good)
	}

	w.change(func(c *olmv1.ClusterCatalog) {
		c.Annotations = map[string]string{olmv1.AnnotationRefresh: time.Now().Add(time.Hour).Format(time.RFC3339Nano)}
	})
	w.mustReconcile()
	if got := w.content(); got != better {
		t.Errorf("after a refresh is requested: got content %q, want %q", got, better)
	}

	requests := w.requests.Load()
	w.mustReconcile()
	if now := w.requests.Load(); now != requests {
		t.Errorf("the registry received %d more requests after the refresh was done, want none", now-requests)
	}
}

// TestARefreshPullsARejectedImageAgain uses a registry that sends a manifest that is too large until it is fixed. The digest of
// the image does not change, so that polling does not detect the fix.
func TestARefreshPullsARejectedImageAgain(t *testing.T) {
	w := newFixture(t)
	layer := packed(t, regular("p/catalog.json", good))
	w.pushLayer("v1", map[string]string{labelConfigs: "/configs"}, layerGzip, layer)
	answer := func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		_, _ = rw.Write(bytes.Repeat([]byte{' '}, 16<<20))
		return true
	}

	w.override.Store(&answer)
	w.create("v1", 10)
	w.mustReconcile()
	w.expect("Progressing False/Blocked: ", nothing)
	w.override.Store(nil)
	w.mustReconcile()
	w.expect("Progressing False/Blocked: ", nothing)
	w.change(func(c *olmv1.ClusterCatalog) {
		c.Annotations = map[string]string{olmv1.AnnotationRefresh: time.Now().Format(time.RFC3339Nano)}
	})
	w.mustReconcile()
	w.expect(unpacked, served)
	if got := w.content(); got != good {
		t.Errorf("after a refresh is requested: got content %q, want %q", got, good)
	}
}

func TestIsRefreshRequested(t *testing.T) {
	confirmed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stored := &catalogstore.Info{Confirmed: confirmed}
	later, earlier := confirmed.Add(time.Second).Format(time.RFC3339Nano), confirmed.Add(-time.Second).Format(time.RFC3339Nano)
	for _, tc := range []struct {
		name, request, carriedOut string
		stored                    *catalogstore.Info
		want                      bool
	}{
		{name: "none", stored: stored},
		{name: "new", request: later, stored: stored, want: true},
		{name: "carried out", request: later, carriedOut: later, stored: stored},
		{name: "carried out before a restart", request: earlier, stored: stored},
		{name: "another after it", request: later, carriedOut: earlier, stored: stored, want: true},
		{name: "nothing stored", request: earlier, want: true},
		{name: "not a time", request: "now", stored: stored},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := isRefreshRequested(tc.request, tc.carriedOut, tc.stored); got != tc.want {
				t.Errorf("requested: %v, want %v", got, tc.want)
			}
		})
	}
}
