package version

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
)

// How often progress alone is written: a status is stored and sent to every watcher.
const (
	progressEvery = 15 * time.Second
	progressBurst = 2
)

// relay wakes the controller when one of those that it gave work to has news: at once, but
// for progress of the worker.
type relay struct {
	status            func() worker.Status
	progress          <-chan struct{}
	updates, accepted <-chan struct{}
	out               chan<- event.GenericEvent
	clock             clock.WithTicker
}

// NeedLeaderElection is true: the others work on the leader only.
func (r *relay) NeedLeaderElection() bool { return true }

// Start relays until the context ends.
func (r *relay) Start(ctx context.Context) error {
	var last outline
	var due <-chan time.Time
	bucket := bucket{tokens: progressBurst, filled: r.clock.Now()}
	for {
		isDue := true
		select {
		case <-ctx.Done():
			return nil
		case <-r.updates:
		case <-r.accepted:
		case <-due:
			due = nil
		case <-r.progress:
			if now := outlineOf(r.status()); now != last {
				last = now
				break
			}
			if due != nil {
				continue
			}
			if wait := bucket.take(r.clock.Now()); wait > 0 {
				due, isDue = r.clock.After(wait), false
			}
		}
		if !isDue {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case r.out <- event.GenericEvent{Object: named}:
		}
	}
}

// named stands for the ClusterVersion in events.
var named = &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: configv1.ClusterVersionName}}

// outline is what of a status is told at once.
type outline struct {
	generation             int64
	image                  string
	reconciling, isFailing bool
}

func outlineOf(s worker.Status) outline {
	return outline{generation: s.Generation, image: s.Actual.Image, reconciling: s.Reconciling, isFailing: s.Failure != nil}
}

// bucket lets progressBurst things through at once, and one more each progressEvery.
type bucket struct {
	tokens float64
	filled time.Time
}

// take takes a token, and gives how long to wait until it is there.
func (b *bucket) take(now time.Time) time.Duration {
	b.tokens = min(progressBurst, b.tokens+float64(now.Sub(b.filled))/float64(progressEvery))
	b.filled = now
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens * float64(progressEvery))
}
