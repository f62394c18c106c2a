package objects

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verdict says what to do with a pod.
type Verdict int

const (
	// Keep is for a pod that matches the desired one.
	Keep Verdict = iota
	// Replace is for a pod that differs from the desired one.
	Replace
	// Remove is for a pod that was disrupted, and whose node may not confirm its end. It is
	// deleted without a grace period.
	Remove
	// Ignore is for a pod that is being deleted.
	Ignore
)

// JudgePod compares a pod with the desired one.
func JudgePod(live, want *corev1.Pod) Verdict {
	switch {
	case isDisrupted(live):
		return Remove
	case !live.DeletionTimestamp.IsZero():
		return Ignore
	case live.Status.Phase == corev1.PodFailed || live.Status.Phase == corev1.PodSucceeded:
		return Replace // For example, it was evicted.
	case live.Labels[LabelPodHash] != want.Labels[LabelPodHash],
		live.Labels[LabelConfigMapVersion] != want.Labels[LabelConfigMapVersion],
		!haveSameImages(live.Spec.Containers, want.Spec.Containers),
		!haveSameImages(live.Spec.InitContainers, want.Spec.InitContainers):
		return Replace
	}

	return Keep
}

// isDisrupted reports whether a pod was disrupted, for example because its node is lost.
func isDisrupted(pod *corev1.Pod) bool {
	return isConditionTrue(pod, corev1.DisruptionTarget)
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool { return isConditionTrue(pod, corev1.PodReady) }

// ReadySince returns when a pod became ready, or zero if it is not ready.
func ReadySince(pod *corev1.Pod) metav1.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime
		}
	}
	return metav1.Time{}
}

func isConditionTrue(pod *corev1.Pod, name corev1.PodConditionType) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == name {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// haveSameImages compares the images of containers with the same names. It ignores other
// containers, which admission webhooks may have injected.
func haveSameImages(live, want []corev1.Container) bool {
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

// ImageID returns the ID of the image that the catalog's reference pointed to when a pod
// started, or "" while it is not known.
func ImageID(pod *corev1.Pod) string {
	for _, status := range pod.Status.InitContainerStatuses {
		if status.Name == "extract-content" {
			return status.ImageID
		}
	}

	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == containerName && !extractsContent(pod) {
			return status.ImageID
		}
	}
	return ""
}

func extractsContent(pod *corev1.Pod) bool {
	for _, container := range pod.Spec.InitContainers {
		if container.Name == "extract-content" {
			return true
		}
	}
	return false
}

// Problem returns the reason why a pod does not become ready, for users. It returns "" if there
// is no problem or the pod is starting. The text is stable as long as the problem persists.
func Problem(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
			return fmt.Sprintf("pod %s: cannot be scheduled: %s", pod.Name, condition.Message)
		}
	}

	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if text := describeContainerProblem(status); text != "" {
				return fmt.Sprintf("pod %s: container %s %s", pod.Name, status.Name, text)
			}
		}
	}

	return ""
}

func describeContainerProblem(status corev1.ContainerStatus) string {
	waiting := status.State.Waiting
	if waiting == nil {
		return ""
	}

	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff":
		// The two reasons alternate.
		return fmt.Sprintf("waits for image %q, which cannot be pulled: check the reference and spec.secrets; the pod's events say more", status.Image)
	case "InvalidImageName":
		return fmt.Sprintf("has the image %q, which is not a valid image reference", status.Image)
	case "CrashLoopBackOff":
		return "restarts repeatedly: see its log for the reason"
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return "cannot be started: " + waiting.Message
	}

	return ""
}

// IsBroken reports whether an update pod can never show its image.
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

// FixService updates a Service to the desired one and reports whether it has changed.
func FixService(live, want *corev1.Service) bool {
	changed := fixMetadata(live, want)
	if !equality.Semantic.DeepEqual(live.Spec.Selector, want.Spec.Selector) {
		live.Spec.Selector, changed = want.Spec.Selector, true
	}
	wantType, liveType := cmp.Or(want.Spec.Type, corev1.ServiceTypeClusterIP), cmp.Or(live.Spec.Type, corev1.ServiceTypeClusterIP)
	if liveType != wantType || live.Spec.ExternalName != want.Spec.ExternalName {
		live.Spec.Type, live.Spec.ExternalName, changed = wantType, want.Spec.ExternalName, true
	}
	if !haveSamePorts(live.Spec.Ports, want.Spec.Ports) {
		live.Spec.Ports, changed = want.Spec.Ports, true
	}
	return changed
}

func haveSamePorts(live, want []corev1.ServicePort) bool {
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

// FixAccount updates a service account to the desired one and reports whether it has changed.
// It keeps pull secrets that others, such as the platform, have added.
func FixAccount(live, want *corev1.ServiceAccount) bool {
	changed := fixMetadata(live, want)
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

// FixNetworkPolicy updates a network policy to the desired one and reports whether it has
// changed.
func FixNetworkPolicy(live, want *networkingv1.NetworkPolicy) bool {
	changed := fixMetadata(live, want)
	if !equality.Semantic.DeepEqual(live.Spec, want.Spec) {
		live.Spec, changed = want.Spec, true
	}
	return changed
}

// FixRole updates a Role to the desired one and reports whether it has changed.
func FixRole(live, want *rbacv1.Role) bool {
	changed := fixMetadata(live, want)
	if !equality.Semantic.DeepEqual(live.Rules, want.Rules) {
		live.Rules, changed = want.Rules, true
	}
	return changed
}

// FixRoleBinding updates a RoleBinding to the desired one and reports whether it has changed.
// The role reference is immutable and always the same.
func FixRoleBinding(live, want *rbacv1.RoleBinding) bool {
	changed := fixMetadata(live, want)
	if !equality.Semantic.DeepEqual(live.Subjects, want.Subjects) {
		live.Subjects, changed = want.Subjects, true
	}
	return changed
}

// fixMetadata adds missing labels and the owner reference, keeps others, and reports whether
// the object has changed.
func fixMetadata(live, want metav1.Object) bool {
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

// IsOwnedBy reports whether an object has an owner.
func IsOwnedBy(object metav1.Object, owner metav1.OwnerReference) bool {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner.UID {
			return true
		}
	}
	return false
}

// IsForeign reports whether an object with the name of a catalog's object belongs to another
// owner.
func IsForeign(live metav1.Object, owner metav1.OwnerReference) bool {
	if IsOwnedBy(live, owner) {
		return false
	}
	return metav1.GetControllerOf(live) != nil || live.GetLabels()[LabelManaged] != "true"
}
