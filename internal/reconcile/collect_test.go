package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// recordingQueue records the requests that are added, and after how long.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	added map[string]time.Duration
}

func (q *recordingQueue) AddAfter(request ctrl.Request, after time.Duration) {
	q.added[request.Name] = after
}

func TestCollectFor(t *testing.T) {
	object := func(name string) *olmv1.ClusterCatalog {
		return &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	slow := types.NamespacedName{Name: "slow"}
	h := reconcile.CollectFor(func(_ context.Context, request ctrl.Request) time.Duration {
		if request.NamespacedName == slow {
			return time.Minute
		}
		return 0
	}, reconcile.EnqueueObject)

	q := &recordingQueue{added: map[string]time.Duration{}}
	h.Create(t.Context(), event.CreateEvent{Object: object("created")}, q)
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: object("slow"), ObjectNew: object("new")}, q)
	h.Delete(t.Context(), event.DeleteEvent{Object: object("deleted")}, q)
	want := map[string]time.Duration{"created": 0, "slow": time.Minute, "new": 0, "deleted": 0}
	if diff := cmp.Diff(want, q.added); diff != "" {
		t.Errorf("added requests (-want +got):\n%s", diff)
	}
}
