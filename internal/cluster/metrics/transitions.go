package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// transitions counts how often conditions change, as a watch of ClusterOperators shows it.
type transitions struct {
	mu    sync.Mutex
	count map[transition]int
}

type transition struct{ name, condition string }

func newTransitions() *transitions { return &transitions{count: map[transition]int{}} }

func (t *transitions) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{UpdateFunc: t.update, DeleteFunc: t.remove}
}

func (t *transitions) update(old, updated any) {
	before, ok := old.(*configv1.ClusterOperator)
	if !ok {
		return
	}

	after, ok := updated.(*configv1.ClusterOperator)
	if !ok {
		return
	}

	was := map[string]metav1.ConditionStatus{}
	for _, condition := range before.Status.Conditions {
		was[condition.Type] = condition.Status
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	for _, condition := range after.Status.Conditions {
		if was[condition.Type] != condition.Status {
			t.count[transition{after.Name, condition.Type}]++
		}
	}
}

// remove forgets a part that is gone.
func (t *transitions) remove(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}

	operator, ok := object.(*configv1.ClusterOperator)
	if !ok {
		return
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.count {
		if key.name == operator.Name {
			delete(t.count, key)
		}
	}
}

func (t *transitions) collect(s sink) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, count := range t.count {
		s.to <- prometheus.MustNewConstMetric(transitionDesc, prometheus.GaugeValue, float64(count), key.name, key.condition)
	}
}
