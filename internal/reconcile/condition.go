package reconcile

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// maxMessageBytes is the maximum length of a condition's message. The API allows 32,768 bytes. A
// person reads far less, and a status is stored and sent to every watcher on each change.
const maxMessageBytes = 4096

// Conditions are the condition types of a kind, in the order in which they are
// listed. Each kind declares its own.
type Conditions []string

// Set sets a condition, observed at a generation. It keeps the transition time while the status
// stays the same, truncates a message that is too long, and sorts the list in the declared order.
// Conditions of other types come last.
func (c Conditions) Set(conditions *[]metav1.Condition, generation int64, condition metav1.Condition) {
	condition.ObservedGeneration = generation
	condition.Message = excerpt.Ends(condition.Message, maxMessageBytes)
	meta.SetStatusCondition(conditions, condition)
	slices.SortStableFunc(*conditions, func(a, b metav1.Condition) int {
		return c.positionOf(a.Type) - c.positionOf(b.Type)
	})
}

// positionOf returns the position of a condition type in the declared order.
func (c Conditions) positionOf(conditionType string) int {
	if i := slices.Index(c, conditionType); i >= 0 {
		return i
	}
	return len(c)
}
