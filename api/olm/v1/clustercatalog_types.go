package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AvailabilityMode determines whether a catalog's content is served to clients.
// +kubebuilder:validation:Enum=Available;Unavailable
type AvailabilityMode string

const (
	// AvailabilityModeAvailable means that the catalog is pulled, stored and served.
	AvailabilityModeAvailable AvailabilityMode = "Available"
	// AvailabilityModeUnavailable means that the catalog is not served and its stored
	// content is deleted. Resolution ignores it.
	AvailabilityModeUnavailable AvailabilityMode = "Unavailable"
)

// SourceType is the type of a catalog's source.
// +kubebuilder:validation:Enum=Image
type SourceType string

// SourceTypeImage means that the content comes from a container image.
const SourceTypeImage SourceType = "Image"

// ClusterCatalog makes the packages of a file-based catalog available to the
// cluster. Its content is pulled from an image, stored, and served over HTTPS.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="LastUnpacked",type=date,JSONPath=`.status.lastUnpacked`
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.conditions[?(@.type=="Serving")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterCatalog struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterCatalogSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ClusterCatalogStatus `json:"status,omitempty"`
}

// ClusterCatalogList is a list of ClusterCatalogs.
// +kubebuilder:object:root=true
type ClusterCatalogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterCatalog `json:"items"`
}

// ClusterCatalogSpec is the desired state of a ClusterCatalog.
type ClusterCatalogSpec struct {
	// source is the source of the catalog's content.
	// +required
	Source CatalogSource `json:"source"`

	// priority decides between catalogs that offer the same package. The highest
	// priority wins; a tie is ambiguous and is reported on the extension. It can be any
	// 32-bit integer, including negative ones. Defaults to 0.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Priority int32 `json:"priority"`

	// availabilityMode determines whether the catalog is served to clients. When it is
	// Unavailable, nothing is pulled or served and the stored content is deleted.
	// Extensions that are already installed from it are not affected. Defaults to
	// Available.
	// +kubebuilder:default=Available
	// +optional
	AvailabilityMode AvailabilityMode `json:"availabilityMode,omitempty"`
}

// CatalogSource is the source of a catalog's content.
// +union
// +kubebuilder:validation:XValidation:rule="self.type == 'Image' ? has(self.image) : !has(self.image)",message="image is required when type is Image, and forbidden otherwise"
type CatalogSource struct {
	// type is the type of the source. The only type is Image.
	// +unionDiscriminator
	// +required
	Type SourceType `json:"type"`

	// image is the image with the content. It is required when type is Image.
	// +optional
	Image *ImageSource `json:"image,omitempty"`
}

// ImageSource is a container image that contains a file-based catalog.
// +kubebuilder:validation:XValidation:rule="!self.ref.contains('@') || !has(self.pollIntervalMinutes)",message="cannot specify pollIntervalMinutes while using digest-based image"
type ImageSource struct {
	// ref is the image's reference: a registry, a repository, and a tag or a digest,
	// such as quay.io/example/catalog:v1 or quay.io/example/catalog@sha256:<64 hex>.
	// 1 to 1000 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*|[[][0-9a-fA-F:]+[]])(:[0-9]+)?/')",message="must start with the registry's domain, as in quay.io/example/catalog:v1"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/]+(/[a-z0-9]+((([.]|_|__|-+)[a-z0-9]+)+)?)+([:@].*)?$')",message="must name a repository: lower-case alphanumerics separated by '.', '_', '__' or '-', and '/' between the parts"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/]+/.*[^/]*[:@][^/]*$')",message="must end with a tag or a digest"
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || !self.matches('/[^/]*:[^/]*$') || self.matches('/[^/:]*:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$')",message="the tag must be at most 128 characters of letters, digits, '_', '.' and '-', and start with a letter, a digit or '_'"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@') || self.matches('@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$')",message="the digest must be an algorithm, ':' and at least 32 hexadecimal characters"
	// +required
	Ref string `json:"ref"`

	// pollIntervalMinutes is the interval, in minutes, at which the registry is polled
	// for a new digest of the tag. It must be at least 1. When unset the tag is resolved
	// once. It is not allowed with a digest.
	// +kubebuilder:validation:Minimum=1
	// +optional
	PollIntervalMinutes *int32 `json:"pollIntervalMinutes,omitempty"`
}

// ClusterCatalogStatus is the observed state of a ClusterCatalog.
type ClusterCatalogStatus struct {
	// conditions are Progressing (whether the content is being updated, and if not,
	// why) and Serving (whether clients can read it).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// resolvedSource is the source of the stored content. Unset while nothing is stored.
	// +optional
	ResolvedSource *ResolvedCatalogSource `json:"resolvedSource,omitempty"`
	// urls are the addresses at which the content is served. Unset while nothing is served.
	// +optional
	URLs *ClusterCatalogURLs `json:"urls,omitempty"`
	// lastUnpacked is when content was last stored. Unset while nothing is stored.
	// +optional
	LastUnpacked *metav1.Time `json:"lastUnpacked,omitempty"`
}

// ClusterCatalogURLs are the addresses of a catalog's content.
type ClusterCatalogURLs struct {
	// base is the base URL of the catalog's HTTP endpoints <base>/api/v1/all and
	// <base>/api/v1/metas.
	// +kubebuilder:validation:MaxLength=525
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="must be a valid URL"
	// +kubebuilder:validation:XValidation:rule="isURL(self) ? url(self).getScheme() in ['http', 'https'] : true",message="scheme must be either http or https"
	// +required
	Base string `json:"base"`
}

// ResolvedCatalogSource is the source of stored content.
// +union
// +kubebuilder:validation:XValidation:rule="self.type == 'Image' ? has(self.image) : !has(self.image)",message="image is required when type is Image, and forbidden otherwise"
type ResolvedCatalogSource struct {
	// type is the type of the source.
	// +unionDiscriminator
	// +required
	Type SourceType `json:"type"`
	// image is the image that was unpacked.
	// +optional
	Image *ResolvedImageSource `json:"image,omitempty"`
}

// ResolvedImageSource is an image by digest.
type ResolvedImageSource struct {
	// ref is the reference of the unpacked image in its digest form.
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/]+/[^@]+@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,}$')",message="must be a reference with a digest"
	// +required
	Ref string `json:"ref"`
}
