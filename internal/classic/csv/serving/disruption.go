package serving

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// maxStartupTime is how long a pod may take to become ready while its API counts as disrupted, not as failed.
const maxStartupTime = 5 * time.Minute

// failureReasons are the waiting reasons of containers that cannot start.
var failureReasons = []string{"ImagePullBackOff", "ErrImagePull", "CrashLoopBackOff", "CreateContainerConfigError", "InvalidImageName"}

// IsDisruption reports whether an API is unavailable only because the pods of its Deployment are being
// replaced, for example while a node is drained. Such an API recovers without intervention.
func IsDisruption(deployment *appsv1.Deployment, pods []corev1.Pod, now time.Time) bool {
	if deployment == nil || deployment.Status.ObservedGeneration < deployment.Generation {
		return false
	}
	if slices.ContainsFunc(pods, isPodFailing) {
		return false
	}
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return isPodInTransition(&p, now) })
}

// isPodFailing reports whether a pod is unschedulable or has a container that cannot start.
func isPodFailing(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && slices.Contains(failureReasons, c.State.Waiting.Reason)
	})
}

// isPodInTransition reports whether a pod is terminating, or young and starting.
func isPodInTransition(p *corev1.Pod, now time.Time) bool {
	if p.DeletionTimestamp != nil {
		return true
	}
	if now.Sub(p.CreationTimestamp.Time) >= maxStartupTime {
		return false
	}
	return p.Status.Phase == corev1.PodPending || slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && (c.State.Waiting.Reason == "ContainerCreating" || c.State.Waiting.Reason == "PodInitializing")
	})
}
