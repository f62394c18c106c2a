package subscription

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// resolutionFailure is the content of the condition ResolutionFailed. Existing clients match the start of the message;
// the Subscriptions concerned and the remedy follow it.
type resolutionFailure struct {
	reason, message string
	// retryErr is set if the resolution is retried although nothing has changed.
	retryErr error
}

func newResolutionFailure(err error) resolutionFailure {
	var impossible *resolution.UnsatisfiableError
	if errors.As(err, &impossible) {
		return resolutionFailure{reason: v1alpha1.ConstraintsNotSatisfiable, message: joinSentences(err.Error(), impossible.Advice())}
	}

	failure := resolutionFailure{reason: v1alpha1.ErrorPreventedResolution, message: err.Error(), retryErr: err}
	var invalid *resolution.SubscriptionError
	var unreadable *catalogError
	switch {
	case errors.As(err, &invalid):
		failure.message = joinSentences(err.Error(), "The catalog must be corrected, or choose another channel with spec.channel.")
	case errors.As(err, &unreadable):
		failure.message = joinSentences(err.Error(), fmt.Sprintf("Repair or delete CatalogSource %[1]s in namespace %[2]s, which 'kubectl describe catalogsource %[1]s -n %[2]s' describes.",
			unreadable.catalog.Name, unreadable.catalog.Namespace))
	}

	return failure
}

// recordFailures sets the condition ResolutionFailed of the Subscriptions that could not be resolved, and returns the
// errors after which the resolution is retried. A Subscription that waits for the connection to a catalog keeps its
// conditions; the connection triggers the next reconcile.
func (r *installer) recordFailures(failures map[string]error) error {
	var errs []error
	r.report(r.decision.subs, func(sub *v1alpha1.Subscription) {
		err := failures[sub.Name]
		switch {
		case err == nil:
			r.reported[sub.Name] = false
		case !errors.Is(err, errCatalogConnecting):
			failure := newResolutionFailure(err)
			if failure.retryErr != nil && !slices.Contains(errs, failure.retryErr) {
				errs = append(errs, failure.retryErr)
			}
			setConditionTrue(&sub.Status, r.now(), v1alpha1.SubscriptionResolutionFailed, failure.reason, failure.message)
		}
	})
	return errors.Join(errs...)
}

// confirmedConditions are the conditions that are compared with the API server before they are reported, because an
// outdated cache can be their only cause.
var confirmedConditions = []string{v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionInstallPlanMissing}

// hasNewFailures reports whether a Subscription has one of the confirmedConditions that it did not have before.
func (v *view) hasNewFailures() bool {
	for i, sub := range v.subs {
		for _, kind := range confirmedConditions {
			failed, before := findCondition(&sub.Status, kind), findCondition(&v.before[i].Status, kind)
			if failed != nil && (before == nil || failed.Message != before.Message) {
				return true
			}
		}
	}
	return false
}

// shareFailure fails all Subscriptions of a namespace if one of them has failed.
func shareFailure(o *resolution.Outcome, subs []*v1alpha1.Subscription) {
	if len(o.Failures) == 0 {
		return
	}

	names := slices.Sorted(maps.Keys(o.Failures))
	shared := o.Failures[names[0]]
	o.Choices = nil
	for _, sub := range subs {
		if o.Failures[sub.Name] == nil {
			o.Failures[sub.Name] = shared
		}
	}
}

// joinSentences appends advice to a message that may have no full stop.
func joinSentences(message, advice string) string {
	return strings.TrimSuffix(message, ".") + ". " + advice
}

// describeGroupCount returns the message for a namespace without exactly one OperatorGroup.
func describeGroupCount(namespace string, groups []operatorsv1.OperatorGroup) string {
	message := fmt.Sprintf("found %d operatorGroups, expected 1", len(groups))
	if len(groups) == 0 {
		return joinSentences(message, fmt.Sprintf("Create an OperatorGroup in namespace %s.", namespace))
	}

	var names []string
	for i := range groups {
		names = append(names, groups[i].Name)
	}
	slices.Sort(names)
	return joinSentences(message, fmt.Sprintf("Delete all but one of the OperatorGroups %s in namespace %s.", strings.Join(names, ", "), namespace))
}

// failureConditions are the conditions that events repeat.
var failureConditions = []string{v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpackFailed}

// emitNewFailures emits an event for each failure in the patched status of a Subscription that the status did not have
// before. Existing clients expect the event about a failed resolution on the Namespace, too.
//
// The references have the resource version of the Subscription, because the recorder combines events with equal
// references and drops all notes but the first.
func (r *reconciler) emitNewFailures(sub, before *v1alpha1.Subscription) {
	about := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind,
		Namespace: sub.Namespace, Name: sub.Name, UID: sub.UID, ResourceVersion: before.ResourceVersion,
	}
	for _, kind := range failureConditions {
		c := findCondition(&sub.Status, kind)
		if c == nil {
			continue
		}
		if old := findCondition(&before.Status, kind); old != nil && old.Message == c.Message {
			continue
		}

		e := reconcile.Event{Warning: true, Reason: kind, Action: "Resolve", Note: c.Message}
		reconcile.Record(r.events, about, e)
		if kind == v1alpha1.SubscriptionResolutionFailed {
			e.Related = about
			reconcile.Record(r.events, &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: sub.Namespace}, e)
		}
	}
}
