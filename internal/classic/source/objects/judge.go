package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verdict is what is to become of a pod.
type Verdict int

const (
	// Keep: it is as it is meant to be.
	Keep Verdict = iota
	// Replace: it is not.
	Replace
	// Bury: it does not run any more, and nobody is there who would say so. It is deleted without
	// waiting for that.
	Bury
	// Leave: it is going already.
	Leave
)

// JudgePod compares a pod with the one that is meant to be.
func JudgePod(live, want *corev1.Pod) Verdict {
	switch {
	case isDisrupted(live):
		return Bury
	case !live.DeletionTimestamp.IsZero():
		return Leave
	case live.Status.Phase == corev1.PodFailed || live.Status.Phase == corev1.PodSucceeded:
		return Replace // Evicted, for one.
	case live.Labels[LabelPodHash] != want.Labels[LabelPodHash],
		live.Labels[LabelConfigMapVersion] != want.Labels[LabelConfigMapVersion],
		!sameImages(live.Spec.Containers, want.Spec.Containers),
		!sameImages(live.Spec.InitContainers, want.Spec.InitContainers):
		return Replace
	}

	return Keep
}

// isDisrupted reports whether a pod was taken off its node, which may be gone.
func isDisrupted(pod *corev1.Pod) bool {
	return hasCondition(pod, corev1.DisruptionTarget)
}

// IsReady reports whether a pod answers.
func IsReady(pod *corev1.Pod) bool { return hasCondition(pod, corev1.PodReady) }

// ReadySince is when a pod came to answer, zero when it does not.
func ReadySince(pod *corev1.Pod) metav1.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime
		}
	}
	return metav1.Time{}
}

func hasCondition(pod *corev1.Pod, name corev1.PodConditionType) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == name {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// sameImages compares the images of containers that have the same names. Others are of those who
// put containers into everybody's pods.
func sameImages(live, want []corev1.Container) bool {
	images := map[string]string{}
	for _, container := range live {
		images[container.Name] = container.Image
	}

	for _, container := range want {
		if images[container.Name] != container.Image {
			return false
		}
	}
	return true
}

// ImageID is which image the catalog's reference stood for when a pod began. It is empty while
// that is not known.
func ImageID(pod *corev1.Pod) string {
	for _, status := range pod.Status.InitContainerStatuses {
		if status.Name == "extract-content" {
			return status.ImageID
		}
	}

	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == containerName && !extracts(pod) {
			return status.ImageID
		}
	}
	return ""
}

func extracts(pod *corev1.Pod) bool {
	for _, container := range pod.Spec.InitContainers {
		if container.Name == "extract-content" {
			return true
		}
	}
	return false
}

// Problem says, for a person, what keeps a pod from answering. It is empty when nothing does, or
// when it is only beginning. The text stays the same while the problem does.
func Problem(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
			return fmt.Sprintf("pod %s: no node takes it: %s", pod.Name, condition.Message)
		}
	}

	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if text := problemOf(status); text != "" {
				return fmt.Sprintf("pod %s: container %s %s", pod.Name, status.Name, text)
			}
		}
	}

	return ""
}

func problemOf(status corev1.ContainerStatus) string {
	waiting := status.State.Waiting
	if waiting == nil {
		return ""
	}

	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff":
		// The two take turns.
		return fmt.Sprintf("waits for image %q, which cannot be pulled: check the reference and spec.secrets; the pod's events say more", status.Image)
	case "InvalidImageName":
		return fmt.Sprintf("has the image %q, which is no image reference", status.Image)
	case "CrashLoopBackOff":
		return "ends again and again: its log says why"
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return "cannot be started: " + waiting.Message
	}

	return ""
}

// IsBroken reports whether a pod that shows an image will never do so.
func IsBroken(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodUnknown || isDisrupted(pod) {
		return true
	}

	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if status.State.Waiting != nil && status.State.Waiting.Reason == "CrashLoopBackOff" {
				return true
			}
		}
	}

	return false
}

// FixService makes a Service as it is meant to be. It says whether that was any different.
func FixService(live, want *corev1.Service) bool {
	changed := fixMeta(live, want)
	if !equality.Semantic.DeepEqual(live.Spec.Selector, want.Spec.Selector) {
		live.Spec.Selector, changed = want.Spec.Selector, true
	}
	if !samePorts(live.Spec.Ports, want.Spec.Ports) {
		live.Spec.Ports, changed = want.Spec.Ports, true
	}
	return changed
}

func samePorts(live, want []corev1.ServicePort) bool {
	if len(live) != len(want) {
		return false
	}

	for i := range want {
		if live[i].Name != want[i].Name || live[i].Port != want[i].Port || live[i].TargetPort != want[i].TargetPort || live[i].Protocol != want[i].Protocol {
			return false
		}
	}
	return true
}

// FixAccount makes a ServiceAccount as it is meant to be. It keeps the pull secrets that others
// have added: a platform has its own. It says whether it was any different.
func FixAccount(live, want *corev1.ServiceAccount) bool {
	changed := fixMeta(live, want)
	has := map[string]bool{}
	for _, secret := range live.ImagePullSecrets {
		has[secret.Name] = true
	}

	for _, secret := range want.ImagePullSecrets {
		if !has[secret.Name] {
			live.ImagePullSecrets, changed = append(live.ImagePullSecrets, secret), true
		}
	}

	return changed
}

// FixNetworkPolicy makes a network policy as it is meant to be. It says whether it was any
// different.
func FixNetworkPolicy(live, want *networkingv1.NetworkPolicy) bool {
	changed := fixMeta(live, want)
	if !equality.Semantic.DeepEqual(live.Spec, want.Spec) {
		live.Spec, changed = want.Spec, true
	}
	return changed
}

// FixRole makes a Role as it is meant to be. It says whether it was any different.
func FixRole(live, want *rbacv1.Role) bool {
	changed := fixMeta(live, want)
	if !equality.Semantic.DeepEqual(live.Rules, want.Rules) {
		live.Rules, changed = want.Rules, true
	}
	return changed
}

// FixRoleBinding makes a RoleBinding as it is meant to be. It says whether it was any different.
// The role of one cannot be changed; it is always the same.
func FixRoleBinding(live, want *rbacv1.RoleBinding) bool {
	changed := fixMeta(live, want)
	if !equality.Semantic.DeepEqual(live.Subjects, want.Subjects) {
		live.Subjects, changed = want.Subjects, true
	}
	return changed
}

// fixMeta sets the labels and the owner that are meant to be, beside others'.
func fixMeta(live, want metav1.Object) bool {
	changed := false
	labels := live.GetLabels()
	for key, value := range want.GetLabels() {
		if labels[key] == value {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key], changed = value, true
	}

	live.SetLabels(labels)
	owner := want.GetOwnerReferences()[0]
	if !IsOwnedBy(live, owner) {
		live.SetOwnerReferences(append(live.GetOwnerReferences(), owner))
		changed = true
	}

	return changed
}

// IsOwnedBy reports whether an object goes when its owner does.
func IsOwnedBy(object metav1.Object, owner metav1.OwnerReference) bool {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner.UID {
			return true
		}
	}
	return false
}

// IsForeign reports whether an object that has the name of a catalog's is somebody else's.
func IsForeign(live metav1.Object, owner metav1.OwnerReference) bool {
	if IsOwnedBy(live, owner) {
		return false
	}
	return metav1.GetControllerOf(live) != nil || live.GetLabels()[LabelManaged] != "true"
}
