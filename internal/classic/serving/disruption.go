package serving

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// disruptionTime is how old a pod that is not ready may be, for its API to be only interrupted.
const disruptionTime = 5 * time.Minute

// failures are what a container waits for in vain.
var failures = []string{"ImagePullBackOff", "ErrImagePull", "CrashLoopBackOff", "CreateContainerConfigError", "InvalidImageName"}

// IsDisruption reports whether an API is unavailable only because the pods of its Deployment are being
// replaced, as while a node is drained: then it comes back by itself.
func IsDisruption(deployment *appsv1.Deployment, pods []corev1.Pod, now time.Time) bool {
	if deployment == nil || deployment.Status.ObservedGeneration < deployment.Generation {
		return false
	}
	if slices.ContainsFunc(pods, fails) {
		return false
	}
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return passes(&p, now) })
}

func fails(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && slices.Contains(failures, c.State.Waiting.Reason)
	})
}

func passes(p *corev1.Pod, now time.Time) bool {
	if p.DeletionTimestamp != nil {
		return true
	}
	if now.Sub(p.CreationTimestamp.Time) >= disruptionTime {
		return false
	}
	return p.Status.Phase == corev1.PodPending || slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && (c.State.Waiting.Reason == "ContainerCreating" || c.State.Waiting.Reason == "PodInitializing")
	})
}
