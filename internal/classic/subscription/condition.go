package subscription

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// maxMessageBytes limits the message of a condition. A failed resolution may have many reasons.
const maxMessageBytes = 32 << 10

// setCondition sets a condition. It changes nothing if status, reason and message are equal.
func setCondition(status *v1alpha1.SubscriptionStatus, now metav1.Time, c v1alpha1.SubscriptionCondition) {
	c.Message = excerpt.Start(c.Message, maxMessageBytes)
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

// setConditionTrue sets a condition to True.
func setConditionTrue(status *v1alpha1.SubscriptionStatus, now metav1.Time, kind, reason, message string) {
	setCondition(status, now, v1alpha1.SubscriptionCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
}

// removeConditions removes the conditions of the given types.
func removeConditions(status *v1alpha1.SubscriptionStatus, kinds ...string) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1alpha1.SubscriptionCondition) bool { return slices.Contains(kinds, c.Type) })
	if len(status.Conditions) == 0 {
		status.Conditions = nil
	}
}

// findCondition returns the condition of a type; nil when there is none.
func findCondition(status *v1alpha1.SubscriptionStatus, kind string) *v1alpha1.SubscriptionCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}
