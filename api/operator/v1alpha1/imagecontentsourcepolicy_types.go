package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ImageContentSourcePolicy says where images that are named by digest are pulled from
// instead of the registry that their name tells. ImageDigestMirrorSet has taken its place.
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
	// repositoryDigestMirrors are sources with their mirrors. The mirrors of a source that
	// several entries name are put together. When unset there are none.
	// +listType=atomic
	// +optional
	RepositoryDigestMirrors []RepositoryDigestMirrors `json:"repositoryDigestMirrors,omitempty"`
}

// RepositoryDigestMirrors are the mirrors of one source for images that are named by digest.
type RepositoryDigestMirrors struct {
	// source is the registry, or the part of one, that has mirrors: host[:port][/path…], or
	// *.domain for all hosts below a domain. Of several sources that an image's name begins
	// with, the longest counts.
	// +required
	Source string `json:"source"`
	// mirrors are asked in this order, before the source. When unset, or when it names the
	// source only, the entry means nothing.
	// +optional
	Mirrors []string `json:"mirrors,omitempty"`
}
