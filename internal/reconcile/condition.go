package reconcile

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage is the longest message of a condition that is written, in bytes. The
// API allows 32,768; a person reads far less, and a status is stored and sent to
// every watcher on each change.
const maxMessage = 4096

// Conditions are the condition types of a kind, in the order in which they are
// listed. Each kind declares its own.
type Conditions []string

// Set sets a condition, observed at a generation. It keeps the transition time when
// the status stays, shortens the message where it is too long, and keeps the list
// in the declared order; conditions of other types stay behind it.
func (c Conditions) Set(conditions *[]metav1.Condition, generation int64, condition metav1.Condition) {
	condition.ObservedGeneration = generation
	condition.Message = shorten(condition.Message)
	meta.SetStatusCondition(conditions, condition)
	slices.SortStableFunc(*conditions, func(a, b metav1.Condition) int {
		return c.rank(a.Type) - c.rank(b.Type)
	})
}

func (c Conditions) rank(conditionType string) int {
	if i := slices.Index(c, conditionType); i >= 0 {
		return i
	}
	return len(c)
}

// shorten cuts the middle out of a message that is too long: its start says what
// failed, its end the innermost cause.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}

	note := fmt.Sprintf(" … (%d bytes left out) … ", len(message)-maxMessage)
	head := (maxMessage - len(note)) * 2 / 3
	tail := len(message) - (maxMessage - len(note) - head)
	for head > 0 && !utf8.RuneStart(message[head]) {
		head--
	}

	for tail < len(message) && !utf8.RuneStart(message[tail]) {
		tail++
	}

	return message[:head] + note + message[tail:]
}
