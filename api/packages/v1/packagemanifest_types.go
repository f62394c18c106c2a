package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Labels of every PackageManifest. The labels of its CatalogSource, and those of the
// ClusterServiceVersion at the head of its default channel, come on top.
const (
	// LabelCatalog is the name of the CatalogSource that the package comes from.
	LabelCatalog = "catalog"
	// LabelCatalogNamespace is the namespace of that CatalogSource.
	LabelCatalogNamespace = "catalog-namespace"
	// LabelProvider is who publishes the package. Its value may be longer, and of other
	// characters, than that of labels elsewhere.
	LabelProvider = "provider"
	// LabelProviderURL is where to learn more about who publishes it, likewise.
	LabelProviderURL = "provider-url"
	// LabelOS and LabelArch begin labels that say what the package runs on, with the value
	// LabelSupported. A package that names no system runs on LabelDefaultOS, one that names no
	// processor on LabelDefaultArch.
	LabelOS          = "operatorframework.io/os."
	LabelArch        = "operatorframework.io/arch."
	LabelDefaultOS   = LabelOS + "linux"
	LabelDefaultArch = LabelArch + "amd64"
	LabelSupported   = "supported"
)

// PackageManifest is a package of a catalog: what an operator is and in which channels its
// versions come. It is read only.
//
// A namespace shows the packages of its own catalogs and those of the global ones, so that two
// PackageManifests of a namespace have the same name when two catalogs have the package; the
// label "catalog" tells them apart.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:singular=packagemanifest
type PackageManifest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata. The name is that of the package, and the
	// creation time that of the CatalogSource.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is always empty.
	// +optional
	Spec PackageManifestSpec `json:"spec"`
	// status is the package.
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

// PackageManifestSpec is always empty: nobody can ask anything of a package.
type PackageManifestSpec struct{}

// PackageManifestStatus is a package of a catalog.
type PackageManifestStatus struct {
	// catalogSource is the name of the CatalogSource that the package comes from.
	CatalogSource string `json:"catalogSource"`
	// catalogSourceDisplayName is what that CatalogSource is called for people. It may be empty.
	CatalogSourceDisplayName string `json:"catalogSourceDisplayName"`
	// catalogSourcePublisher is who publishes that CatalogSource. It may be empty.
	CatalogSourcePublisher string `json:"catalogSourcePublisher"`
	// catalogSourceNamespace is the namespace of that CatalogSource.
	CatalogSourceNamespace string `json:"catalogSourceNamespace"`

	PackageStatus `json:",inline"`
}

// PackageStatus is what a catalog says of a package.
type PackageStatus struct {
	// provider is who publishes the package, as the head of its default channel says.
	// +optional
	Provider operatorsv1alpha1.AppLink `json:"provider"`
	// packageName is the name of the package, the same as metadata.name.
	PackageName string `json:"packageName"`
	// deprecation says that the package should not be used any more.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`
	// channels are the streams in which the versions of the package come, by their names.
	Channels []PackageChannel `json:"channels"`
	// defaultChannel is the channel that is subscribed to when none is named. It is empty when
	// the catalog names none.
	DefaultChannel string `json:"defaultChannel"`
}

// PackageChannel is a stream of versions of a package.
type PackageChannel struct {
	// name of the channel.
	Name string `json:"name"`
	// currentCSV is the name of the ClusterServiceVersion at the head of the channel: what is
	// installed from it.
	CurrentCSV string `json:"currentCSV"`
	// currentCSVDesc is what that ClusterServiceVersion says of itself.
	// +optional
	CurrentCSVDesc CSVDescription `json:"currentCSVDesc"`
	// deprecation says that the channel should not be used any more.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`
	// entries are the versions in the channel, the highest first. Those that the catalog has
	// only so that they can be updated from are left out.
	Entries []ChannelEntry `json:"entries"`
}

// ChannelEntry is a version in a channel.
type ChannelEntry struct {
	// name of the ClusterServiceVersion.
	Name string `json:"name"`
	// version of the ClusterServiceVersion.
	// +optional
	Version string `json:"version,omitempty"`
	// deprecation says that the version should not be used any more.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`
}

// Deprecation says that something should not be used any more.
type Deprecation struct {
	// message says why, and what to use in its place.
	Message string `json:"message"`
}

// CSVDescription is what a ClusterServiceVersion says of itself.
type CSVDescription struct {
	// displayName is the operator's name for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// icon is left out, for its size: the subresource "icon" has it.
	// +optional
	Icon []operatorsv1alpha1.Icon `json:"icon,omitempty"`
	// version is the semantic version of the operator; 0.0.0 when it has none.
	// +optional
	Version operatorsv1alpha1.LooseVersion `json:"version"`
	// provider is who publishes the operator.
	// +optional
	Provider operatorsv1alpha1.AppLink `json:"provider"`
	// annotations are those of the ClusterServiceVersion.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// keywords help to find the operator.
	// +optional
	Keywords []string `json:"keywords,omitempty"`
	// links lead to more about the operator.
	// +optional
	Links []operatorsv1alpha1.AppLink `json:"links,omitempty"`
	// maintainers are the people to turn to.
	// +optional
	Maintainers []operatorsv1alpha1.Maintainer `json:"maintainers,omitempty"`
	// maturity is the author's free word for how finished this version is.
	// +optional
	Maturity string `json:"maturity,omitempty"`
	// description is a text about the operator, in Markdown.
	// +optional
	LongDescription string `json:"description,omitempty"`
	// installModes say which ways of choosing namespaces the operator supports.
	// +optional
	InstallModes []operatorsv1alpha1.InstallMode `json:"installModes,omitempty"`
	// customresourcedefinitions are the CRDs that the operator provides and needs.
	// +optional
	CustomResourceDefinitions operatorsv1alpha1.CustomResourceDefinitions `json:"customresourcedefinitions"`
	// apiservicedefinitions are the aggregated APIs that the operator provides and needs.
	// +optional
	APIServiceDefinitions operatorsv1alpha1.APIServiceDefinitions `json:"apiservicedefinitions"`
	// nativeApis are other APIs that must be served by the cluster.
	// +optional
	NativeAPIs []metav1.GroupVersionKind `json:"nativeApis,omitempty"`
	// minKubeVersion is the lowest version of Kubernetes that the operator runs on.
	// +optional
	MinKubeVersion operatorsv1alpha1.LooseVersion `json:"minKubeVersion,omitempty"`
	// relatedImages are the images that the operator runs and those that it names.
	// +optional
	RelatedImages []string `json:"relatedImages,omitempty"`
}
