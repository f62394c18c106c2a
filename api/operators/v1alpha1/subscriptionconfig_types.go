package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubscriptionConfig configures every Deployment of an operator. It is spec.config of a
// Subscription and spec.config.inline.deploymentConfig of a ClusterExtension. It applies to
// containers, not to init containers.
type SubscriptionConfig struct {
	// selector is not used. It is kept because existing manifests contain it.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// nodeSelector replaces the pod's node selector. When unset nothing changes.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are added to those of the pod, unless an equal one exists.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// resources replaces the resources of every container. When unset nothing changes.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// envFrom is added to the environment sources of every container, unless an equal one
	// exists.
	// +optional
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// env is set in every container. A variable with the same name is replaced in place,
	// others are added.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumes are set in the pod. A volume with the same name is replaced, others are added.
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts are set in every container. A mount with the same name is replaced,
	// others are added. Each must refer to a volume of the pod.
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// affinity overrides the affinity of the pod. Each of nodeAffinity, podAffinity and
	// podAntiAffinity replaces that of the pod if it is set, and removes it if it is set and
	// empty. An empty affinity removes all three.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// annotations are added to the Deployment and its pod template. Existing annotations
	// are not changed.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
