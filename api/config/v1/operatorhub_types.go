package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperatorHubName is the name of the only OperatorHub.
const OperatorHubName = "cluster"

// Values of status.sources[].status.
const (
	// HubSourceSuccess means that the catalog matches the spec.
	HubSourceSuccess = "Success"
	// HubSourceError means that the catalog does not match the spec. The message states why.
	HubSourceError = "Error"
)

// OperatorHub enables and disables the default operator catalogs of the
// platform. There is only one, with the name "cluster".
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one OperatorHub, and its name is cluster"
type OperatorHub struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec enables and disables default catalogs.
	// +optional
	Spec OperatorHubSpec `json:"spec,omitempty"`
	// status is the state of the default catalogs. Only the marketplace writes it.
	// +optional
	Status OperatorHubStatus `json:"status,omitempty"`
}

// OperatorHubList is a list of OperatorHubs.
// +kubebuilder:object:root=true
type OperatorHubList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OperatorHub `json:"items"`
}

// OperatorHubSpec enables and disables default catalogs.
type OperatorHubSpec struct {
	// disableAllDefaultSources is true to disable all default catalogs, except
	// those that sources enables. Defaults to false: all are enabled, except those
	// that sources disables.
	// +optional
	DisableAllDefaultSources bool `json:"disableAllDefaultSources,omitempty"`
	// sources enables or disables single default catalogs, regardless of
	// disableAllDefaultSources. If several entries have the same name, the last
	// one applies.
	// +listType=atomic
	// +optional
	Sources []HubSource `json:"sources,omitempty"`
}

// HubSource enables or disables one default catalog.
type HubSource struct {
	// name is the name of the default catalog. A name that is not a default
	// catalog has no effect, and the status reports it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// disabled is true to disable the catalog. Its CatalogSource is then deleted
	// once, so that you can create another one with the same name. False restores
	// the default catalog.
	// +required
	Disabled bool `json:"disabled"`
}

// OperatorHubStatus is the state of the default catalogs.
type OperatorHubStatus struct {
	// sources are all default catalogs, followed by the entries of the spec that
	// are not default catalogs.
	// +listType=atomic
	// +optional
	Sources []HubSourceStatus `json:"sources,omitempty"`
}

// HubSourceStatus is the state of one default catalog.
type HubSourceStatus struct {
	// name is the name of the catalog.
	// +required
	Name string `json:"name"`
	// disabled reports whether the catalog is disabled. It follows the spec once
	// the change was made.
	// +required
	Disabled bool `json:"disabled"`
	// status is "Success" if the catalog matches the spec, and "Error" if it does
	// not.
	// +optional
	Status string `json:"status,omitempty"`
	// message explains the error. It is empty if there is none.
	// +optional
	Message string `json:"message,omitempty"`
}
