package subscription

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// maxMessage bounds the message of a condition, in bytes. A choice that is not possible may have many
// reasons.
const maxMessage = 32 << 10

// set sets a condition. It is left as it is when it says so already.
func set(status *v1alpha1.SubscriptionStatus, now metav1.Time, c v1alpha1.SubscriptionCondition) {
	c.Message = bounded(c.Message, maxMessage)
	c.LastTransitionTime = &now
	i := slices.IndexFunc(status.Conditions, func(have v1alpha1.SubscriptionCondition) bool { return have.Type == c.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if have := &status.Conditions[i]; have.Status != c.Status || have.Reason != c.Reason || have.Message != c.Message {
		*have = c
	}
}

// bounded returns a text that has at most so many bytes, and none that is no text: what others say may be anything.
func bounded(text string, most int) string {
	const end = "…"
	if len(text) > most {
		text = text[:most-len(end)] + end
	}
	return strings.ToValidUTF8(text, "")
}

// raise sets a condition to True.
func raise(status *v1alpha1.SubscriptionStatus, now metav1.Time, kind, reason, message string) {
	set(status, now, v1alpha1.SubscriptionCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
}

// unset removes conditions.
func unset(status *v1alpha1.SubscriptionStatus, kinds ...string) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1alpha1.SubscriptionCondition) bool { return slices.Contains(kinds, c.Type) })
	if len(status.Conditions) == 0 {
		status.Conditions = nil
	}
}

// find returns a condition, nil when there is none.
func find(status *v1alpha1.SubscriptionStatus, kind string) *v1alpha1.SubscriptionCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}
