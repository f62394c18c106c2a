package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstallStrategyDeployment is the only install strategy: Deployments and the RBAC
// that they need.
const InstallStrategyDeployment = "deployment"

// InstallModeType is an install mode: which namespaces an operator can watch.
type InstallModeType string

const (
	// InstallModeTypeOwnNamespace means that the operator watches the namespace it runs in.
	InstallModeTypeOwnNamespace InstallModeType = "OwnNamespace"
	// InstallModeTypeSingleNamespace means that the operator watches one other namespace.
	InstallModeTypeSingleNamespace InstallModeType = "SingleNamespace"
	// InstallModeTypeMultiNamespace means that the operator watches several namespaces.
	InstallModeTypeMultiNamespace InstallModeType = "MultiNamespace"
	// InstallModeTypeAllNamespaces means that the operator watches all namespaces.
	InstallModeTypeAllNamespaces InstallModeType = "AllNamespaces"
)

// ClusterServiceVersion describes one version of an operator: its metadata, the APIs that
// it provides and requires, and how it is installed.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterserviceversions,shortName={csv,csvs},categories=olm,scope=Namespaced
// +kubebuilder:printcolumn:name="Display",type=string,JSONPath=`.spec.displayName`,description="The display name of the operator"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`,description="The version of the operator"
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release`,description="The build of the version"
// +kubebuilder:printcolumn:name="Replaces",type=string,JSONPath=`.spec.replaces`,description="The ClusterServiceVersion that this one replaces"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="The phase of the installation"
type ClusterServiceVersion struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the operator. Its author writes it.
	// +required
	Spec ClusterServiceVersionSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ClusterServiceVersionStatus `json:"status,omitzero"`
}

// ClusterServiceVersionList is a list of ClusterServiceVersions.
// +kubebuilder:object:root=true
type ClusterServiceVersionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterServiceVersion `json:"items"`
}

// ClusterServiceVersionSpec describes one version of an operator.
type ClusterServiceVersionSpec struct {
	// install is the install strategy of the operator.
	// +required
	InstallStrategy NamedInstallStrategy `json:"install"`
	// version is the operator's semantic version. OLM Classic treats an unset version as
	// 0.0.0. A bundle must set it.
	// +optional
	Version LooseVersion `json:"version,omitempty"`
	// release distinguishes builds of one version. It consists of dot-separated semver
	// pre-release identifiers and has at most 20 characters. Unset orders before any release.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Za-z-]+(\\\\.[0-9A-Za-z-]+)*$')",message="release version must be composed of dot-separated identifiers containing only alphanumerics and hyphens"
	// +kubebuilder:validation:XValidation:rule="!self.split('.').exists(x, x.matches('^0[0-9]+$'))",message="numeric identifiers in release version must not have leading zeros"
	// +optional
	Release LooseVersion `json:"release,omitempty"`
	// maturity is the maturity of this version, in the author's words.
	// +optional
	Maturity string `json:"maturity,omitempty"`
	// customresourcedefinitions are the CRDs that the operator provides and needs.
	// +optional
	CustomResourceDefinitions CustomResourceDefinitions `json:"customresourcedefinitions,omitzero"`
	// apiservicedefinitions are the aggregated APIs that the operator provides and needs.
	// +optional
	APIServiceDefinitions APIServiceDefinitions `json:"apiservicedefinitions,omitzero"`
	// webhookdefinitions are the webhooks that the operator serves.
	// +optional
	WebhookDefinitions []WebhookDescription `json:"webhookdefinitions,omitempty"`
	// nativeAPIs are other APIs that the cluster must serve.
	// +optional
	NativeAPIs []metav1.GroupVersionKind `json:"nativeAPIs,omitempty"`
	// minKubeVersion is the lowest version of Kubernetes that the operator runs on, a
	// semantic version. When unset any version is sufficient.
	// +optional
	MinKubeVersion LooseVersion `json:"minKubeVersion,omitempty"`

	// displayName is the display name of the operator.
	// +required
	DisplayName string `json:"displayName"`
	// description describes the operator, in Markdown.
	// +optional
	Description string `json:"description,omitempty"`
	// keywords are search terms for the operator.
	// +optional
	Keywords []string `json:"keywords,omitempty"`
	// maintainers are the contacts for the operator.
	// +optional
	Maintainers []Maintainer `json:"maintainers,omitempty"`
	// provider is the publisher of the operator.
	// +optional
	Provider AppLink `json:"provider,omitzero"`
	// links refer to more information about the operator.
	// +optional
	Links []AppLink `json:"links,omitempty"`
	// icon is the icon of the operator; the first entry is used.
	// +optional
	Icon []Icon `json:"icon,omitempty"`

	// installModes are the install modes that the operator supports. A mode that is not
	// listed is not supported.
	// +optional
	InstallModes []InstallMode `json:"installModes,omitempty"`
	// replaces is the name of the ClusterServiceVersion that this one replaces.
	// +optional
	Replaces string `json:"replaces,omitempty"`
	// skips names further ClusterServiceVersions that this one can replace.
	// +optional
	Skips []string `json:"skips,omitempty"`

	// labels and annotations are informational; they are not copied.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// selector selects the operator's resources.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// cleanup is not used. It is kept because existing manifests contain it.
	// +optional
	Cleanup CleanupSpec `json:"cleanup,omitzero"`
	// relatedImages are the images of the operator and its operands.
	// +optional
	RelatedImages []RelatedImage `json:"relatedImages,omitempty"`
}

// NamedInstallStrategy is the install strategy of an operator.
type NamedInstallStrategy struct {
	// strategy is the name of the strategy; only "deployment" is supported.
	// +required
	StrategyName string `json:"strategy"`
	// spec is the configuration of the strategy.
	// +optional
	StrategySpec StrategyDetailsDeployment `json:"spec,omitzero"`
}

// StrategyDetailsDeployment has the Deployments of an operator and the rights that they need.
type StrategyDetailsDeployment struct {
	// deployments are created in the namespace of the operator.
	// +required
	DeploymentSpecs []StrategyDeploymentSpec `json:"deployments"`
	// permissions are rights in each watched namespace.
	// +optional
	Permissions []StrategyDeploymentPermissions `json:"permissions,omitempty"`
	// clusterPermissions are rights in the whole cluster.
	// +optional
	ClusterPermissions []StrategyDeploymentPermissions `json:"clusterPermissions,omitempty"`
}

// StrategyDeploymentPermissions are rights of one ServiceAccount. The names of roles are
// computed from its JSON encoding, so its fields and their order must not change.
type StrategyDeploymentPermissions struct {
	// serviceAccountName is the ServiceAccount; empty means "default".
	// +required
	ServiceAccountName string `json:"serviceAccountName"`
	// rules are the rights.
	// +required
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// StrategyDeploymentSpec is one Deployment of an operator.
type StrategyDeploymentSpec struct {
	// name of the Deployment.
	// +required
	Name string `json:"name"`
	// spec of the Deployment.
	// +required
	Spec appsv1.DeploymentSpec `json:"spec"`
	// label contains the labels of the Deployment itself.
	// +optional
	Label map[string]string `json:"label,omitempty"`
}

// Maintainer is a person or a team to contact.
type Maintainer struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Email string `json:"email,omitempty"`
}

// AppLink is a link with a name.
type AppLink struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	URL string `json:"url,omitempty"`
}

// Icon is an image.
type Icon struct {
	// base64data is the image in base64. It is a string because some authors break the
	// lines, and some leave it empty.
	// +required
	Data string `json:"base64data"`
	// mediatype is the media type, such as image/svg+xml.
	// +required
	MediaType string `json:"mediatype"`
}

// InstallMode states whether an install mode is supported.
type InstallMode struct {
	// +required
	Type InstallModeType `json:"type"`
	// +required
	Supported bool `json:"supported"`
}

// CleanupSpec is not used.
type CleanupSpec struct {
	// +required
	Enabled bool `json:"enabled"`
}

// RelatedImage is an image with a name.
type RelatedImage struct {
	// +required
	Name string `json:"name"`
	// +required
	Image string `json:"image"`
}
