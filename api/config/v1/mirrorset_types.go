package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MirrorSourcePolicy determines what happens when no mirror has an image.
// +kubebuilder:validation:Enum=NeverContactSource;AllowContactingSource
type MirrorSourcePolicy string

const (
	// NeverContactSource means that the image cannot be pulled.
	NeverContactSource MirrorSourcePolicy = "NeverContactSource"
	// AllowContactingSource means that the image is pulled from the source.
	AllowContactingSource MirrorSourcePolicy = "AllowContactingSource"
)

// ImageMirror is a registry, or a repository path in one, with copies of a source's
// images: host[:port][/path…]. It replaces the source in image names.
// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`
type ImageMirror string

// ImageDigestMirrorSet declares mirrors from which images with a digest are pulled
// instead of the registry in their name. The order of mirrors within one set is kept. The
// orders of several sets are kept as far as they do not contradict each other.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=idms
// +kubebuilder:subresource:status
type ImageDigestMirrorSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ImageDigestMirrorSetSpec `json:"spec"`
	// status is always empty.
	// +optional
	Status ImageDigestMirrorSetStatus `json:"status,omitempty"`
}

// ImageDigestMirrorSetList is a list of ImageDigestMirrorSets.
// +kubebuilder:object:root=true
type ImageDigestMirrorSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImageDigestMirrorSet `json:"items"`
}

// ImageDigestMirrorSetSpec is the desired state of an ImageDigestMirrorSet.
type ImageDigestMirrorSetSpec struct {
	// imageDigestMirrors are sources with their mirrors. If several entries have the same
	// source, their mirrors are merged. When unset there are none.
	// +listType=atomic
	// +optional
	ImageDigestMirrors []ImageDigestMirrors `json:"imageDigestMirrors,omitempty"`
}

// ImageDigestMirrors are the mirrors of one source for images with a digest.
type ImageDigestMirrors struct {
	// source is the registry, or a repository path in one, that has mirrors:
	// host[:port][/path…], or *.domain for all hosts below a domain. If several sources are
	// prefixes of an image's name, the longest one applies.
	// +kubebuilder:validation:Pattern=`^\*(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+$|^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`
	// +required
	Source string `json:"source"`
	// mirrors are tried in this order, before the source. When mirrors is unset, or
	// contains only the source, the entry has no effect.
	// +listType=set
	// +optional
	Mirrors []ImageMirror `json:"mirrors,omitempty"`
	// mirrorSourcePolicy determines whether the source is tried when no mirror has an
	// image: AllowContactingSource or NeverContactSource. When entries for the same source
	// differ, NeverContactSource applies. Defaults to AllowContactingSource.
	// +optional
	MirrorSourcePolicy MirrorSourcePolicy `json:"mirrorSourcePolicy,omitempty"`
}

// ImageDigestMirrorSetStatus is the observed state of an ImageDigestMirrorSet.
type ImageDigestMirrorSetStatus struct{}

// ImageTagMirrorSet declares mirrors from which images with a tag are pulled instead of
// the registry in their name. The order of mirrors within one set is kept. The orders of
// several sets are kept as far as they do not contradict each other.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=itms
// +kubebuilder:subresource:status
type ImageTagMirrorSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ImageTagMirrorSetSpec `json:"spec"`
	// status is always empty.
	// +optional
	Status ImageTagMirrorSetStatus `json:"status,omitempty"`
}

// ImageTagMirrorSetList is a list of ImageTagMirrorSets.
// +kubebuilder:object:root=true
type ImageTagMirrorSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImageTagMirrorSet `json:"items"`
}

// ImageTagMirrorSetSpec is the desired state of an ImageTagMirrorSet.
type ImageTagMirrorSetSpec struct {
	// imageTagMirrors are sources with their mirrors. If several entries have the same
	// source, their mirrors are merged. When unset there are none.
	// +listType=atomic
	// +optional
	ImageTagMirrors []ImageTagMirrors `json:"imageTagMirrors,omitempty"`
}

// ImageTagMirrors are the mirrors of one source for images with a tag.
type ImageTagMirrors struct {
	// source is the registry, or a repository path in one, that has mirrors:
	// host[:port][/path…], or *.domain for all hosts below a domain. If several sources are
	// prefixes of an image's name, the longest one applies.
	// +kubebuilder:validation:Pattern=`^\*(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+$|^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`
	// +required
	Source string `json:"source"`
	// mirrors are tried in this order, before the source. When mirrors is unset, or
	// contains only the source, the entry has no effect.
	// +listType=set
	// +optional
	Mirrors []ImageMirror `json:"mirrors,omitempty"`
	// mirrorSourcePolicy determines whether the source is tried when no mirror has an
	// image: AllowContactingSource or NeverContactSource. When entries for the same source
	// differ, NeverContactSource applies. Defaults to AllowContactingSource.
	// +optional
	MirrorSourcePolicy MirrorSourcePolicy `json:"mirrorSourcePolicy,omitempty"`
}

// ImageTagMirrorSetStatus is the observed state of an ImageTagMirrorSet.
type ImageTagMirrorSetStatus struct{}
