package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ImageContentSourcePolicy declares mirrors from which images with a digest are pulled
// instead of the registry in their name. It was replaced by ImageDigestMirrorSet.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=imagecontentsourcepolicies
// +kubebuilder:subresource:status
type ImageContentSourcePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ImageContentSourcePolicySpec `json:"spec"`
}

// ImageContentSourcePolicyList is a list of ImageContentSourcePolicies.
// +kubebuilder:object:root=true
type ImageContentSourcePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImageContentSourcePolicy `json:"items"`
}

// ImageContentSourcePolicySpec is the desired state of an ImageContentSourcePolicy.
type ImageContentSourcePolicySpec struct {
	// repositoryDigestMirrors are sources with their mirrors. If several entries have the same
	// source, their mirrors are merged. When unset there are none.
	// +listType=atomic
	// +optional
	RepositoryDigestMirrors []RepositoryDigestMirrors `json:"repositoryDigestMirrors,omitempty"`
}

// RepositoryDigestMirrors are the mirrors of one source for images with a digest.
type RepositoryDigestMirrors struct {
	// source is the registry, or a repository path in one, that has mirrors:
	// host[:port][/path…], or *.domain for all hosts below a domain. If several sources are
	// prefixes of an image's name, the longest one applies.
	// +required
	Source string `json:"source"`
	// mirrors are tried in this order, before the source. When mirrors is unset, or
	// contains only the source, the entry has no effect.
	// +optional
	Mirrors []string `json:"mirrors,omitempty"`
}
