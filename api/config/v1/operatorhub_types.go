package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperatorHubName is the name of the one OperatorHub.
const OperatorHubName = "cluster"

// What status.sources[].status says.
const (
	// HubSourceSuccess means that the catalog is as the spec wants it.
	HubSourceSuccess = "Success"
	// HubSourceError means that it is not; the message says why.
	HubSourceError = "Error"
)

// OperatorHub says which of the catalogs of operators that come with the platform the cluster
// has. There is one, named cluster.
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

	// spec is which default catalogs the administrator wants.
	// +optional
	Spec OperatorHubSpec `json:"spec,omitempty"`
	// status is which ones there are. The marketplace alone writes it.
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

// OperatorHubSpec is which default catalogs the administrator wants.
type OperatorHubSpec struct {
	// disableAllDefaultSources turns all default catalogs off, but for those that sources turns
	// on. Unset is false: all are on, but for those that sources turns off.
	// +optional
	DisableAllDefaultSources bool `json:"disableAllDefaultSources,omitempty"`
	// sources turns single default catalogs on or off, whatever disableAllDefaultSources says. Of
	// several entries with the same name the last one counts.
	// +listType=atomic
	// +optional
	Sources []HubSource `json:"sources,omitempty"`
}

// HubSource turns a default catalog on or off.
type HubSource struct {
	// name of the default catalog.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// disabled turns it off.
	// +required
	Disabled bool `json:"disabled"`
}

// OperatorHubStatus is which default catalogs there are.
type OperatorHubStatus struct {
	// sources are all default catalogs, and behind them the entries of the spec that name none.
	// +listType=atomic
	// +optional
	Sources []HubSourceStatus `json:"sources,omitempty"`
}

// HubSourceStatus is how a default catalog is.
type HubSourceStatus struct {
	// name of the catalog.
	// +required
	Name string `json:"name"`
	// disabled reports whether it is turned off.
	// +required
	Disabled bool `json:"disabled"`
	// status is Success, or Error when it is not as the spec wants it.
	// +optional
	Status string `json:"status,omitempty"`
	// message says what is wrong.
	// +optional
	Message string `json:"message,omitempty"`
}
