package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Labels of every PackageManifest, in addition to the labels of its CatalogSource and those of
// the ClusterServiceVersion at the head of its default channel.
const (
	// LabelCatalog is the name of the package's CatalogSource.
	LabelCatalog = "catalog"
	// LabelCatalogNamespace is the namespace of that CatalogSource.
	LabelCatalogNamespace = "catalog-namespace"
	// LabelProvider is the publisher of the package. Its value may be longer than a label value
	// elsewhere, and contain other characters.
	LabelProvider = "provider"
	// LabelProviderURL is a URL with information about the publisher. The same applies to its
	// value.
	LabelProviderURL = "provider-url"
	// LabelOS and LabelArch are the prefixes of labels for the platforms that the package
	// supports; their value is LabelSupported. A package without an operating system supports
	// LabelDefaultOS, and one without an architecture LabelDefaultArch.
	LabelOS          = "operatorframework.io/os."
	LabelArch        = "operatorframework.io/arch."
	LabelDefaultOS   = LabelOS + "linux"
	LabelDefaultArch = LabelArch + "amd64"
	LabelSupported   = "supported"
)

// PackageManifest is a package of a catalog, with the description of its operator and its
// channels. It is read-only.
//
// A namespace shows the packages of its own catalogs and of the global ones. If two catalogs
// have the same package, two PackageManifests in a namespace have the same name; the label
// "catalog" distinguishes them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:singular=packagemanifest
type PackageManifest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata. It has the name of the package and the
	// creation time of the CatalogSource.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is always empty.
	// +optional
	Spec PackageManifestSpec `json:"spec"`
	// status describes the package.
	// +optional
	Status PackageManifestStatus `json:"status"`
}

// PackageManifestList is a list of PackageManifests.
// +kubebuilder:object:root=true
type PackageManifestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PackageManifest `json:"items"`
}

// PackageManifestSpec is always empty, because a package has no desired state.
type PackageManifestSpec struct{}

// PackageManifestStatus describes a package of a catalog.
type PackageManifestStatus struct {
	// catalogSource is the name of the package's CatalogSource.
	CatalogSource string `json:"catalogSource"`
	// catalogSourceDisplayName is the display name of that CatalogSource. It may be empty.
	CatalogSourceDisplayName string `json:"catalogSourceDisplayName"`
	// catalogSourcePublisher is the publisher of that CatalogSource. It may be empty.
	CatalogSourcePublisher string `json:"catalogSourcePublisher"`
	// catalogSourceNamespace is the namespace of that CatalogSource.
	CatalogSourceNamespace string `json:"catalogSourceNamespace"`

	PackageStatus `json:",inline"`
}

// PackageStatus is the content of a catalog for a package.
type PackageStatus struct {
	// provider is the publisher of the package, according to the head of its default channel.
	// +optional
	Provider operatorsv1alpha1.AppLink `json:"provider"`
	// packageName is the name of the package, the same as metadata.name.
	PackageName string `json:"packageName"`
	// deprecation is set if the package is deprecated.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`
	// channels are the channels of the package, sorted by name.
	Channels []PackageChannel `json:"channels"`
	// defaultChannel is the channel for Subscriptions without a channel. It is empty when the
	// catalog has none.
	DefaultChannel string `json:"defaultChannel"`
}

// PackageChannel is a channel of a package.
type PackageChannel struct {
	// name of the channel.
	Name string `json:"name"`
	// currentCSV is the name of the ClusterServiceVersion at the head of the channel, which is
	// installed from it.
	CurrentCSV string `json:"currentCSV"`
	// currentCSVDesc is the description of that ClusterServiceVersion.
	// +optional
	CurrentCSVDesc CSVDescription `json:"currentCSVDesc"`
	// deprecation is set if the channel is deprecated.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`
	// entries are the versions in the channel, the highest first. Versions that are only in the
	// catalog as a start for updates are omitted.
	Entries []ChannelEntry `json:"entries"`
}

// ChannelEntry is a version in a channel.
type ChannelEntry struct {
	// name of the ClusterServiceVersion.
	Name string `json:"name"`
	// version of the ClusterServiceVersion.
	// +optional
	Version string `json:"version,omitempty"`
	// deprecation is set if the version is deprecated.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`
}

// Deprecation describes a deprecation.
type Deprecation struct {
	// message states the reason and what to use instead.
	Message string `json:"message"`
}

// CSVDescription is the description of a ClusterServiceVersion.
type CSVDescription struct {
	// displayName is the display name of the operator.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// icon is omitted because of its size; the subresource "icon" returns it.
	// +optional
	Icon []operatorsv1alpha1.Icon `json:"icon,omitempty"`
	// version is the semantic version of the operator; 0.0.0 when it has none.
	// +optional
	Version operatorsv1alpha1.LooseVersion `json:"version"`
	// provider is the publisher of the operator.
	// +optional
	Provider operatorsv1alpha1.AppLink `json:"provider"`
	// annotations are the annotations of the ClusterServiceVersion.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// keywords are search terms for the operator.
	// +optional
	Keywords []string `json:"keywords,omitempty"`
	// links refer to more information about the operator.
	// +optional
	Links []operatorsv1alpha1.AppLink `json:"links,omitempty"`
	// maintainers are the contacts for the operator.
	// +optional
	Maintainers []operatorsv1alpha1.Maintainer `json:"maintainers,omitempty"`
	// maturity is the maturity of this version, in the author's words.
	// +optional
	Maturity string `json:"maturity,omitempty"`
	// description describes the operator, in Markdown.
	// +optional
	LongDescription string `json:"description,omitempty"`
	// installModes are the install modes that the operator supports.
	// +optional
	InstallModes []operatorsv1alpha1.InstallMode `json:"installModes,omitempty"`
	// customresourcedefinitions are the CRDs that the operator provides and needs.
	// +optional
	CustomResourceDefinitions operatorsv1alpha1.CustomResourceDefinitions `json:"customresourcedefinitions"`
	// apiservicedefinitions are the aggregated APIs that the operator provides and needs.
	// +optional
	APIServiceDefinitions operatorsv1alpha1.APIServiceDefinitions `json:"apiservicedefinitions"`
	// nativeApis are other APIs that the cluster must serve.
	// +optional
	NativeAPIs []metav1.GroupVersionKind `json:"nativeApis,omitempty"`
	// minKubeVersion is the lowest version of Kubernetes that the operator runs on.
	// +optional
	MinKubeVersion operatorsv1alpha1.LooseVersion `json:"minKubeVersion,omitempty"`
	// relatedImages are the images that the operator runs or refers to.
	// +optional
	RelatedImages []string `json:"relatedImages,omitempty"`
}
