package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// transitionCounter counts changes of conditions seen by a watch of ClusterOperators.
type transitionCounter struct {
	mu    sync.Mutex
	count map[transitionKey]int
}

type transitionKey struct{ name, condition string }

func newTransitionCounter() *transitionCounter {
	return &transitionCounter{count: map[transitionKey]int{}}
}

func (t *transitionCounter) newEventHandler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{UpdateFunc: t.countTransitions, DeleteFunc: t.removeOperator}
}

func (t *transitionCounter) countTransitions(old, updated any) {
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
			t.count[transitionKey{after.Name, condition.Type}]++
		}
	}
}

// removeOperator removes the counts of a deleted ClusterOperator.
func (t *transitionCounter) removeOperator(object any) {
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

func (t *transitionCounter) collectTransitions(s metricSink) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, count := range t.count {
		s.to <- prometheus.MustNewConstMetric(transitionDesc, prometheus.GaugeValue, float64(count), key.name, key.condition)
	}
}
