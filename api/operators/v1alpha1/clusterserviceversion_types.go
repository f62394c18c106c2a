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

// ClusterServiceVersion describes one version of an operator: its metadata,
// the APIs that it provides and requires, and how it is installed. The
// controller installs what it describes in its namespace.
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

	// spec describes the operator. The author of the operator writes it.
	// +required
	Spec ClusterServiceVersionSpec `json:"spec"`
	// status is the observed state of the installation. Only the controller writes
	// it.
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
	// install defines how the operator is installed.
	// +required
	InstallStrategy NamedInstallStrategy `json:"install"`
	// version is the semantic version of the operator, such as 1.2.3. A bundle
	// must set it. When unset, it counts as 0.0.0.
	// +optional
	Version LooseVersion `json:"version,omitempty"`
	// release distinguishes builds of the same version. It consists of
	// dot-separated semver pre-release identifiers, at most 20 characters in all.
	// Unset orders before any release.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Za-z-]+(\\\\.[0-9A-Za-z-]+)*$')",message="release version must be composed of dot-separated identifiers containing only alphanumerics and hyphens"
	// +kubebuilder:validation:XValidation:rule="!self.split('.').exists(x, x.matches('^0[0-9]+$'))",message="numeric identifiers in release version must not have leading zeros"
	// +optional
	Release LooseVersion `json:"release,omitempty"`
	// maturity is the maturity of this version in the words of its author, such as
	// alpha or stable. It has no effect.
	// +optional
	Maturity string `json:"maturity,omitempty"`
	// customresourcedefinitions are the CustomResourceDefinitions that the
	// operator provides and requires.
	// +optional
	CustomResourceDefinitions CustomResourceDefinitions `json:"customresourcedefinitions,omitzero"`
	// apiservicedefinitions are the aggregated APIs that the operator provides and
	// requires.
	// +optional
	APIServiceDefinitions APIServiceDefinitions `json:"apiservicedefinitions,omitzero"`
	// webhookdefinitions are the admission and conversion webhooks that the
	// operator serves. The controller creates their configurations, Services and
	// certificates.
	// +optional
	WebhookDefinitions []WebhookDescription `json:"webhookdefinitions,omitempty"`
	// nativeAPIs are further kinds that the cluster must serve, each with group,
	// version and kind. The operator is not installed until all are served.
	// +optional
	NativeAPIs []metav1.GroupVersionKind `json:"nativeAPIs,omitempty"`
	// minKubeVersion is the lowest version of Kubernetes that the operator runs
	// on, such as 1.30.0. On an older cluster it is not installed. When unset, any
	// version is sufficient.
	// +optional
	MinKubeVersion LooseVersion `json:"minKubeVersion,omitempty"`

	// displayName is the name of the operator for users.
	// +required
	DisplayName string `json:"displayName"`
	// description describes the operator to users, in Markdown.
	// +optional
	Description string `json:"description,omitempty"`
	// keywords are search terms for the operator.
	// +optional
	Keywords []string `json:"keywords,omitempty"`
	// maintainers are the persons or teams to contact about the operator.
	// +optional
	Maintainers []Maintainer `json:"maintainers,omitempty"`
	// provider is the organization that publishes the operator.
	// +optional
	Provider AppLink `json:"provider,omitzero"`
	// links refer to more information about the operator, such as its
	// documentation.
	// +optional
	Links []AppLink `json:"links,omitempty"`
	// icon is the icon of the operator. Only the first entry is used.
	// +optional
	Icon []Icon `json:"icon,omitempty"`

	// installModes state which sets of namespaces the operator can watch. A mode
	// that is not listed is not supported. The namespaces that the OperatorGroup
	// selects must fit a supported mode.
	// +optional
	InstallModes []InstallMode `json:"installModes,omitempty"`
	// replaces is the name of the ClusterServiceVersion, in the same namespace,
	// that this one updates. That one is deleted after this one was installed.
	// When unset, this one updates none.
	// +optional
	Replaces string `json:"replaces,omitempty"`
	// skips are the names of further ClusterServiceVersions that this one can
	// update. Catalogs use it; it has no effect on the cluster.
	// +optional
	Skips []string `json:"skips,omitempty"`

	// labels are labels for users of the operator. They have no effect and are not
	// set on any object.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are annotations for users of the operator. They have no effect
	// and are not set on any object, in contrast to those in metadata.annotations.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// selector selects the resources of the operator by their labels, for users.
	// It has no effect.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// cleanup has no effect. It exists because existing manifests contain it.
	// +optional
	Cleanup CleanupSpec `json:"cleanup,omitzero"`
	// relatedImages are the images that the operator uses. PackageManifests list
	// them, and tools mirror them.
	// +optional
	RelatedImages []RelatedImage `json:"relatedImages,omitempty"`
}

// NamedInstallStrategy defines how an operator is installed.
type NamedInstallStrategy struct {
	// strategy is the name of the install strategy. Only "deployment" is
	// supported; any other value fails with the reason InvalidInstallStrategy.
	// +required
	StrategyName string `json:"strategy"`
	// spec defines the Deployments of the operator and the permissions that they
	// require.
	// +optional
	StrategySpec StrategyDetailsDeployment `json:"spec,omitzero"`
}

// StrategyDetailsDeployment defines the Deployments of an operator and the
// permissions that they require.
type StrategyDetailsDeployment struct {
	// deployments are the Deployments of the operator. They are created in the
	// namespace of the ClusterServiceVersion, and deleted when they are removed
	// from this list.
	// +required
	DeploymentSpecs []StrategyDeploymentSpec `json:"deployments"`
	// permissions are required in every namespace that the operator watches. An
	// InstallPlan creates Roles and RoleBindings for them.
	// +optional
	Permissions []StrategyDeploymentPermissions `json:"permissions,omitempty"`
	// clusterPermissions are required in the whole cluster. An InstallPlan creates
	// ClusterRoles and ClusterRoleBindings for them.
	// +optional
	ClusterPermissions []StrategyDeploymentPermissions `json:"clusterPermissions,omitempty"`
}

// StrategyDeploymentPermissions are permissions that one service account requires.
// ---
// The names of roles are computed from its JSON encoding, so its fields and their order must not change.
type StrategyDeploymentPermissions struct {
	// serviceAccountName is the name of the service account, in the namespace of
	// the operator, that requires the permissions. Empty means "default".
	// +required
	ServiceAccountName string `json:"serviceAccountName"`
	// rules are the permissions. The operator is not installed until the service
	// account has all of them.
	// +required
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// StrategyDeploymentSpec is one Deployment of an operator.
type StrategyDeploymentSpec struct {
	// name is the name of the Deployment. It must be unique in the list.
	// +required
	Name string `json:"name"`
	// spec is the spec of the Deployment. Its fields are those of a Deployment in
	// apps/v1: see "kubectl explain deployment.spec". Annotations, certificates
	// and the config of the Subscription are added to it.
	// +required
	Spec appsv1.DeploymentSpec `json:"spec"`
	// label contains labels for the Deployment itself. The labels of its pods are
	// in spec.template.
	// +optional
	Label map[string]string `json:"label,omitempty"`
}

// Maintainer is a person or a team to contact.
type Maintainer struct {
	// name is the name of the person or the team.
	// +optional
	Name string `json:"name,omitempty"`
	// email is the email address of the person or the team.
	// +optional
	Email string `json:"email,omitempty"`
}

// AppLink is a link with a name.
type AppLink struct {
	// name is the text of the link.
	// +optional
	Name string `json:"name,omitempty"`
	// url is the address that the link refers to.
	// +optional
	URL string `json:"url,omitempty"`
}

// Icon is an image.
type Icon struct {
	// base64data is the image, encoded in base64. It may contain line breaks, and
	// may be empty.
	// +required
	Data string `json:"base64data"`
	// mediatype is the media type of the image, such as image/svg+xml or
	// image/png.
	// +required
	MediaType string `json:"mediatype"`
}

// InstallMode states whether an operator supports an install mode.
type InstallMode struct {
	// type is the install mode. OwnNamespace: the operator can watch the namespace
	// it runs in. SingleNamespace: one other namespace. MultiNamespace: several
	// namespaces. AllNamespaces: all namespaces.
	// +required
	Type InstallModeType `json:"type"`
	// supported is true if the operator supports the install mode.
	// +required
	Supported bool `json:"supported"`
}

// CleanupSpec has no effect.
type CleanupSpec struct {
	// enabled has no effect.
	// +required
	Enabled bool `json:"enabled"`
}

// RelatedImage is an image with a name.
type RelatedImage struct {
	// name is the name of the image in the words of the author.
	// +required
	Name string `json:"name"`
	// image is the image reference.
	// +required
	Image string `json:"image"`
}
