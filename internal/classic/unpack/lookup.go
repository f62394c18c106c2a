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

// imagePullReasons are the reasons of a container whose image cannot be pulled.
var imagePullReasons = []string{"ImagePullBackOff", "ErrImagePull"}

// Lookup returns a lookup for a bundle that has to be unpacked.
func Lookup(image, csv, replaces, properties string, catalog *corev1.ObjectReference, now time.Time) v1alpha1.BundleLookup {
	l := v1alpha1.BundleLookup{Path: image, Identifier: csv, Replaces: replaces, CatalogSourceRef: catalog, Properties: properties}
	setCondition(&l, v1alpha1.BundleLookupNotPersisted, v1alpha1.BundleLookupReasonNotUnpacked, messageNotUnpacked, now)
	setCondition(&l, v1alpha1.BundleLookupPending, v1alpha1.BundleLookupReasonJobNotStarted, messageNotStarted, now)
	return l
}

// Condition returns a condition of a lookup that is True, or nil.
func Condition(l *v1alpha1.BundleLookup, kind string) *v1alpha1.BundleLookupCondition {
	for i := range l.Conditions {
		if c := &l.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Progress returns the message of a Subscription while bundles are unpacked. It is empty unless
// an administrator may have to act.
func Progress(lookups []v1alpha1.BundleLookup) string {
	var messages []string
	for i := range lookups {
		c := Condition(&lookups[i], v1alpha1.BundleLookupPending)
		if c == nil || !slices.ContainsFunc(imagePullReasons, func(reason string) bool { return strings.Contains(c.Message, reason) }) {
			continue
		}
		messages = append(messages, fmt.Sprintf("the image of bundle %s cannot be pulled: check that its registry is reachable and that spec.secrets of CatalogSource %s/%s has credentials for it: %s",
			lookups[i].Identifier, lookups[i].CatalogSourceRef.Namespace, lookups[i].CatalogSourceRef.Name, c.Message))
	}

	return strings.Join(messages, "; ")
}

// setCondition sets a condition to True.
func setCondition(l *v1alpha1.BundleLookup, kind, reason, message string, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	wanted := v1alpha1.BundleLookupCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: &at, LastTransitionTime: &at,
	}
	i := slices.IndexFunc(l.Conditions, func(c v1alpha1.BundleLookupCondition) bool { return c.Type == kind })
	if i < 0 {
		l.Conditions = append(l.Conditions, wanted)
		return
	}

	existing := l.Conditions[i]
	if existing.Status == wanted.Status && existing.Reason == reason && existing.Message == message {
		return
	}
	if existing.Status == wanted.Status {
		wanted.LastTransitionTime = existing.LastTransitionTime
	}

	l.Conditions[i] = wanted
}

// removeConditions removes conditions.
func removeConditions(l *v1alpha1.BundleLookup, kinds ...string) {
	l.Conditions = slices.DeleteFunc(l.Conditions, func(c v1alpha1.BundleLookupCondition) bool { return slices.Contains(kinds, c.Type) })
}

// describePendingPods returns a message with the containers of a Job's pods that wait.
func describePendingPods(pods []corev1.Pod) string {
	var messages []string
	for i := range pods {
		pod := &pods[i]
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			// A container that waits for init containers has the reason PodInitializing and no
			// message.
			if w := status.State.Waiting; w != nil && w.Message != "" {
				messages = append(messages, fmt.Sprintf("Unpack pod(%s/%s) container(%s) is pending. Reason: %s, Message: %s", pod.Namespace, pod.Name, status.Name, w.Reason, w.Message))
			}
		}
	}

	if len(messages) == 0 {
		return messageIncomplete
	}

	slices.Sort(messages)
	return messageIncomplete + ": " + strings.Join(messages, " | ")
}
