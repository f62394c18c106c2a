package version

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
)

// Limits for status updates that only report progress: each one is stored and sent to every
// watcher.
const (
	minProgressInterval = 15 * time.Second
	maxProgressBurst    = 2
)

// eventRelay enqueues the ClusterVersion when a component has news. Progress of the worker is
// rate-limited; everything else is enqueued at once.
type eventRelay struct {
	status            func() worker.Status
	progress          <-chan struct{}
	updates, accepted <-chan struct{}
	out               chan<- event.GenericEvent
	clock             clock.WithTicker
}

// NeedLeaderElection returns true: the other components run only on the leader.
func (r *eventRelay) NeedLeaderElection() bool { return true }

// Start relays events until the context ends.
func (r *eventRelay) Start(ctx context.Context) error {
	var last statusOutline
	var due <-chan time.Time
	limiter := rate.NewLimiter(rate.Every(minProgressInterval), maxProgressBurst)
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
			if now := newStatusOutline(r.status()); now != last {
				last = now
				break
			}
			if due != nil {
				continue
			}
			now := r.clock.Now()
			if wait := limiter.ReserveN(now, 1).DelayFrom(now); wait > 0 {
				due, isDue = r.clock.After(wait), false
			}
		}
		if !isDue {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case r.out <- event.GenericEvent{Object: clusterVersionEventObject}:
		}
	}
}

// clusterVersionEventObject represents the ClusterVersion in events.
var clusterVersionEventObject = &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: configv1.ClusterVersionName}}

// statusOutline holds the fields of a worker status whose changes are reported at once.
type statusOutline struct {
	generation             int64
	image                  string
	reconciling, isFailing bool
}

func newStatusOutline(s worker.Status) statusOutline {
	return statusOutline{generation: s.Generation, image: s.Actual.Image, reconciling: s.Reconciling, isFailing: s.Failure != nil}
}
