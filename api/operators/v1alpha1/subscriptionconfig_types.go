package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubscriptionConfig is what a person sets on every Deployment of an operator: in a
// Subscription as spec.config, in a ClusterExtension as
// spec.config.inline.deploymentConfig. It touches containers, never init containers.
type SubscriptionConfig struct {
	// selector is read by nothing; it is kept because existing manifests carry it.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// nodeSelector replaces the pod's node selector. When unset nothing changes.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are added to the pod's, unless an equal one is there.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// resources replaces the resources of every container. When unset nothing changes.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// envFrom is added to the sources of every container's environment, unless an equal
	// one is there.
	// +optional
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// env is set in every container: a variable of the same name is replaced where it
	// stands, others are added.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumes are set on the pod: a volume of the same name is replaced, others are
	// added.
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts are set in every container: a mount of the same volume name is
	// replaced, others are added. Each must name a volume of the pod.
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// affinity replaces the pod's affinity kind by kind: nodeAffinity, podAffinity or
	// podAntiAffinity replaces the pod's own when it is set, and removes it when it is
	// set and empty. An empty affinity removes all three.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// annotations are added to the Deployment and its pod template. One that is there
	// already is not changed.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
