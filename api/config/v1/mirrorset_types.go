package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MirrorSourcePolicy says what happens when no mirror has an image.
// +kubebuilder:validation:Enum=NeverContactSource;AllowContactingSource
type MirrorSourcePolicy string

const (
	// NeverContactSource means that the image cannot be pulled.
	NeverContactSource MirrorSourcePolicy = "NeverContactSource"
	// AllowContactingSource means that the image is pulled from the source.
	AllowContactingSource MirrorSourcePolicy = "AllowContactingSource"
)

// ImageMirror is a registry, or a part of one, that has copies of a source's images:
// host[:port][/path…]. It takes the place of the source in the names of images.
// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`
type ImageMirror string

// ImageDigestMirrorSet says where images that are named by digest are pulled from instead
// of the registry that their name tells. The order of mirrors within one set is kept; over
// several sets it is kept where they do not contradict each other.
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
	// status is the observed state, of which there is none.
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
	// imageDigestMirrors are sources with their mirrors. The mirrors of a source that
	// several entries name are put together. When unset there are none.
	// +listType=atomic
	// +optional
	ImageDigestMirrors []ImageDigestMirrors `json:"imageDigestMirrors,omitempty"`
}

// ImageDigestMirrors are the mirrors of one source for images that are named by digest.
type ImageDigestMirrors struct {
	// source is the registry, or the part of one, that has mirrors: host[:port][/path…], or
	// *.domain for all hosts below a domain. Of several sources that an image's name begins
	// with, the longest counts.
	// +kubebuilder:validation:Pattern=`^\*(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+$|^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`
	// +required
	Source string `json:"source"`
	// mirrors are asked in this order, before the source. When unset, or when it names the
	// source only, the entry means nothing.
	// +listType=set
	// +optional
	Mirrors []ImageMirror `json:"mirrors,omitempty"`
	// mirrorSourcePolicy reports whether the source is asked when no mirror has an image:
	// AllowContactingSource or NeverContactSource. When entries for the same source differ,
	// it is never asked. When unset it is AllowContactingSource.
	// +optional
	MirrorSourcePolicy MirrorSourcePolicy `json:"mirrorSourcePolicy,omitempty"`
}

// ImageDigestMirrorSetStatus is the observed state of an ImageDigestMirrorSet.
type ImageDigestMirrorSetStatus struct{}

// ImageTagMirrorSet says where images that are named by tag are pulled from instead of the
// registry that their name tells. The order of mirrors within one set is kept; over several
// sets it is kept where they do not contradict each other.
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
	// status is the observed state, of which there is none.
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
	// imageTagMirrors are sources with their mirrors. The mirrors of a source that several
	// entries name are put together. When unset there are none.
	// +listType=atomic
	// +optional
	ImageTagMirrors []ImageTagMirrors `json:"imageTagMirrors,omitempty"`
}

// ImageTagMirrors are the mirrors of one source for images that are named by tag.
type ImageTagMirrors struct {
	// source is the registry, or the part of one, that has mirrors: host[:port][/path…], or
	// *.domain for all hosts below a domain. Of several sources that an image's name begins
	// with, the longest counts.
	// +kubebuilder:validation:Pattern=`^\*(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+$|^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`
	// +required
	Source string `json:"source"`
	// mirrors are asked in this order, before the source. When unset, or when it names the
	// source only, the entry means nothing.
	// +listType=set
	// +optional
	Mirrors []ImageMirror `json:"mirrors,omitempty"`
	// mirrorSourcePolicy reports whether the source is asked when no mirror has an image:
	// AllowContactingSource or NeverContactSource. When entries for the same source differ,
	// it is never asked. When unset it is AllowContactingSource.
	// +optional
	MirrorSourcePolicy MirrorSourcePolicy `json:"mirrorSourcePolicy,omitempty"`
}

// ImageTagMirrorSetStatus is the observed state of an ImageTagMirrorSet.
type ImageTagMirrorSetStatus struct{}
