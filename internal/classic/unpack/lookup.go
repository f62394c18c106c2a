package unpack

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Messages of conditions.
const (
	messageNotStarted  = "unpack job not yet started"
	messageIncomplete  = "unpack job not completed"
	messageNoCatalog   = "referenced catalogsource not found"
	messageNotUnpacked = "bundle contents have not yet been persisted to installplan status"
)

// pullTrouble are the reasons of a container that waits for its image in vain.
var pullTrouble = []string{"ImagePullBackOff", "ErrImagePull"}

// Lookup is a bundle that is to be unpacked, of which nothing is known yet.
func Lookup(image, csv, replaces, properties string, catalog *corev1.ObjectReference, now time.Time) v1alpha1.BundleLookup {
	l := v1alpha1.BundleLookup{Path: image, Identifier: csv, Replaces: replaces, CatalogSourceRef: catalog, Properties: properties}
	set(&l, v1alpha1.BundleLookupNotPersisted, v1alpha1.BundleLookupReasonNotUnpacked, messageNotUnpacked, now)
	set(&l, v1alpha1.BundleLookupPending, v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, now)
	return l
}

// Condition returns a condition of a lookup that holds, or nil.
func Condition(l *v1alpha1.BundleLookup, kind string) *v1alpha1.BundleLookupCondition {
	for i := range l.Conditions {
		if c := &l.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Progress is what a Subscription says while a bundle is being unpacked: nothing, unless a person may
// have to do something.
func Progress(lookups []v1alpha1.BundleLookup) string {
	var said []string
	for i := range lookups {
		c := Condition(&lookups[i], v1alpha1.BundleLookupPending)
		if c == nil || !slices.ContainsFunc(pullTrouble, func(reason string) bool { return strings.Contains(c.Message, reason) }) {
			continue
		}
		said = append(said, fmt.Sprintf("the image of bundle %s cannot be pulled: check that its registry can be reached, and that spec.secrets of CatalogSource %s/%s has a login for it: %s",
			lookups[i].Identifier, lookups[i].CatalogSourceRef.Namespace, lookups[i].CatalogSourceRef.Name, c.Message))
	}

	return strings.Join(said, "; ")
}

// set has a condition hold.
func set(l *v1alpha1.BundleLookup, kind, reason, message string, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	wanted := v1alpha1.BundleLookupCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: &at, LastTransitionTime: &at,
	}
	i := slices.IndexFunc(l.Conditions, func(c v1alpha1.BundleLookupCondition) bool { return c.Type == kind })
	if i < 0 {
		l.Conditions = append(l.Conditions, wanted)
		return
	}

	have := l.Conditions[i]
	if have.Status == wanted.Status && have.Reason == reason && have.Message == message {
		return
	}
	if have.Status == wanted.Status {
		wanted.LastTransitionTime = have.LastTransitionTime
	}

	l.Conditions[i] = wanted
}

func unset(l *v1alpha1.BundleLookup, kinds ...string) {
	l.Conditions = slices.DeleteFunc(l.Conditions, func(c v1alpha1.BundleLookupCondition) bool { return slices.Contains(kinds, c.Type) })
}

// trouble says what the pods of a Job wait for.
func trouble(pods []corev1.Pod) string {
	var said []string
	for i := range pods {
		pod := &pods[i]
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			// A container that waits for others before it says PodInitializing, which is nothing wrong.
			if w := status.State.Waiting; w != nil && w.Message != "" {
				said = append(said, fmt.Sprintf("Unpack pod(%s/%s) container(%s) is pending. Reason: %s, Message: %s", pod.Namespace, pod.Name, status.Name, w.Reason, w.Message))
			}
		}
	}

	if len(said) == 0 {
		return messageIncomplete
	}

	slices.Sort(said)
	return messageIncomplete + ": " + strings.Join(said, " | ")
}
