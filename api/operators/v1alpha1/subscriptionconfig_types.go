package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubscriptionConfig configures every Deployment of an operator. It is spec.config of a
// Subscription and spec.config.inline.deploymentConfig of a ClusterExtension. It applies to
// containers, not to init containers.
type SubscriptionConfig struct {
	// selector has no effect. It exists because existing manifests contain it.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// nodeSelector replaces the node selector of the pods. When unset, their node
	// selector does not change. An empty one removes it.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are added to the tolerations of the pods. A toleration that is
	// already there is not added again.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// resources replaces the resource requests and limits of every container. When
	// unset, they do not change. An empty value removes them.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// envFrom is added to the sources of environment variables of every container.
	// A source that is already there is not added again.
	// +optional
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// env contains environment variables for every container. A variable with the
	// same name is replaced in place, others are added. HTTP_PROXY, HTTPS_PROXY or
	// NO_PROXY here replace the proxy settings of the cluster.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumes contains volumes for the pods. A volume with the same name is
	// replaced, others are added.
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts contains volume mounts for every container. A mount with the
	// same name is replaced, others are added. Each must refer to a volume of the
	// pod.
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// affinity changes the affinity of the pods. Each of nodeAffinity, podAffinity
	// and podAntiAffinity replaces that of the pods if it is set, and removes it
	// if it is empty. An empty affinity removes all three.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// annotations are added to the Deployments and their pod templates, and to new
	// APIServices of the operator. An annotation with the same key does not
	// change.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
