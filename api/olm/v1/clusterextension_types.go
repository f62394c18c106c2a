package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradeConstraintPolicy determines whether updates must follow the catalog's upgrade edges.
// +kubebuilder:validation:Enum=CatalogProvided;SelfCertified
type UpgradeConstraintPolicy string

const (
	// UpgradeConstraintPolicyCatalogProvided allows only the successors that the package's
	// author defines.
	UpgradeConstraintPolicyCatalogProvided UpgradeConstraintPolicy = "CatalogProvided"
	// UpgradeConstraintPolicySelfCertified allows every bundle, including older ones. The
	// user is responsible for the result.
	UpgradeConstraintPolicySelfCertified UpgradeConstraintPolicy = "SelfCertified"
)

// CRDUpgradeSafetyEnforcement determines whether a CRD change is checked before it is made.
// +kubebuilder:validation:Enum=None;Strict
type CRDUpgradeSafetyEnforcement string

const (
	// CRDUpgradeSafetyEnforcementNone means that CRD changes are not checked.
	CRDUpgradeSafetyEnforcementNone CRDUpgradeSafetyEnforcement = "None"
	// CRDUpgradeSafetyEnforcementStrict means that a CRD change that can break stored
	// objects or clients blocks the update.
	CRDUpgradeSafetyEnforcementStrict CRDUpgradeSafetyEnforcement = "Strict"
)

// DependencyPolicy determines what happens when a dependency of a bundle is not installed.
// +kubebuilder:validation:Enum=Block;Install
type DependencyPolicy string

const (
	// DependencyPolicyBlock means that the bundle waits until its dependencies are installed.
	DependencyPolicyBlock DependencyPolicy = "Block"
	// DependencyPolicyInstall means that a ClusterExtension is created for each package that
	// is chosen to meet them.
	DependencyPolicyInstall DependencyPolicy = "Install"
)

// RollbackPolicy determines what happens to an update that exceeds its deadline.
// +kubebuilder:validation:Enum=Never;OnDeadline
type RollbackPolicy string

const (
	// RollbackPolicyNever means that the update continues, and the delay is reported.
	RollbackPolicyNever RollbackPolicy = "Never"
	// RollbackPolicyOnDeadline means that the update is rolled back to the previous
	// revision.
	RollbackPolicyOnDeadline RollbackPolicy = "OnDeadline"
)

// AccessRoles determines which ClusterRoles are created for the APIs of a bundle.
// +kubebuilder:validation:Enum=None;Aggregated
type AccessRoles string

const (
	// AccessRolesNone means that only the roles of the bundle are installed.
	AccessRolesNone AccessRoles = "None"
	// AccessRolesAggregated means that three ClusterRoles are created, which are aggregated
	// to view, edit and admin.
	AccessRolesAggregated AccessRoles = "Aggregated"
)

// ExtensionSourceType is the type of an extension's source.
// +kubebuilder:validation:Enum=Catalog
type ExtensionSourceType string

// ExtensionSourceTypeCatalog means that the bundle is resolved from the cluster's catalogs.
const ExtensionSourceTypeCatalog ExtensionSourceType = "Catalog"

// ExtensionConfigType is the type of an extension's configuration.
// +kubebuilder:validation:Enum=Inline
type ExtensionConfigType string

// ExtensionConfigTypeInline means that the configuration is in the object itself.
const ExtensionConfigTypeInline ExtensionConfigType = "Inline"

// ClusterExtension installs a package of a catalog in the cluster and reconciles it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Installed Bundle",type=string,JSONPath=`.status.install.bundle.name`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.install.bundle.version`
// +kubebuilder:printcolumn:name="Installed",type=string,JSONPath=`.status.conditions[?(@.type=='Installed')].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=='Progressing')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterExtension struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterExtensionSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status ClusterExtensionStatus `json:"status,omitempty"`
}

// ClusterExtensionList is a list of ClusterExtensions.
// +kubebuilder:object:root=true
type ClusterExtensionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterExtension `json:"items"`
}

// ClusterExtensionSpec is the desired state of a ClusterExtension.
// +kubebuilder:validation:XValidation:rule="!has(self.install) || !has(self.install.rollback) || self.install.rollback.policy != 'OnDeadline' || has(self.progressDeadlineMinutes)",message="progressDeadlineMinutes is required when install.rollback.policy is OnDeadline"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.serviceAccount) || has(self.serviceAccount)",message="serviceAccount may not be removed once it is set: that would widen the extension's rights"
type ClusterExtensionSpec struct {
	// namespace is the namespace for the namespaced objects of the bundle. It must
	// exist. It does not limit which namespaces the extension watches. It must be a DNS
	// label of 1 to 63 characters, and is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a valid DNS1123 label"
	// +required
	Namespace string `json:"namespace"`

	// serviceAccount is the service account that is impersonated to write the objects of
	// the bundle. It is in spec.namespace, and a user who sets it must be allowed to
	// impersonate it. When unset the controller's own account is used, unless the
	// administrator forbids that. A controller with --ignore-service-account always uses
	// its own account.
	// +optional
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`

	// source is the source of the bundle.
	// +required
	Source SourceConfig `json:"source"`

	// install configures the installation.
	// +optional
	Install *ClusterExtensionInstallConfig `json:"install,omitempty"`

	// config configures the bundle. When unset the bundle is installed unchanged, and
	// watches all namespaces if it supports that.
	// +optional
	Config *ClusterExtensionConfig `json:"config,omitempty"`

	// progressDeadlineMinutes is how long, in minutes, a rollout may take before it is
	// reported as ProgressDeadlineExceeded. It must be between 10 and 720. When unset
	// there is no deadline.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=720
	// +optional
	ProgressDeadlineMinutes *int32 `json:"progressDeadlineMinutes,omitempty"`
}

// ServiceAccountReference refers to a ServiceAccount in spec.namespace.
type ServiceAccountReference struct {
	// name of the ServiceAccount. It must be a DNS subdomain of 1 to 253 characters, and
	// is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="name is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name must be a valid DNS1123 subdomain"
	// +required
	Name string `json:"name"`
}

// SourceConfig is the source of an extension.
// +union
// +kubebuilder:validation:XValidation:rule="self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)",message="catalog is required when sourceType is Catalog, and forbidden otherwise"
type SourceConfig struct {
	// sourceType is the type of the source. The only type is Catalog.
	// +unionDiscriminator
	// +required
	SourceType ExtensionSourceType `json:"sourceType"`

	// catalog selects a bundle from the cluster's catalogs. It is required when
	// sourceType is Catalog.
	// +optional
	Catalog *CatalogFilter `json:"catalog,omitempty"`
}

// CatalogFilter selects a bundle from the cluster's catalogs. The bundle must match all
// fields.
type CatalogFilter struct {
	// packageName is the package to install. It must be a DNS subdomain of 1 to 253
	// characters, and is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="packageName is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="packageName must be a valid DNS1123 subdomain"
	// +required
	PackageName string `json:"packageName"`

	// version is a semantic version, which pins the extension, or a range. The highest
	// version in a range is installed and kept up to date. Examples: "1.14.0", "1.14.x",
	// ">=1.16", ">1.15, <1.17", "~1.12", "^2.3", "<1.16 || >=2". A comma or a space
	// means "and", || means "or". It has at most 64 characters. When unset every version
	// matches.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches(r'^\\s*((=|!=|>|<|>=|=>|<=|=<|~|~>|\\^)?\\s*(v?([0-9]+|[xX*])([.]([0-9]+|[xX*])){0,2}(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?)(\\s+-\\s+v?[0-9]+([.][0-9]+){0,2}(-[0-9A-Za-z.-]+)?)?\\s*([|][|]|,|\\s|$)\\s*)+$')",message="invalid version expression"
	// +optional
	Version string `json:"version,omitempty"`

	// channels limits the choice to bundles of these channels. There can be at most 256
	// names, each a DNS subdomain. When unset bundles of any channel match.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="channels entries must be valid DNS1123 subdomains"
	// +listType=atomic
	// +optional
	Channels []string `json:"channels,omitempty"`

	// selector limits the choice to catalogs with these labels. Every catalog has the
	// label olm.operatorframework.io/metadata.name with its own name. When unset all
	// available catalogs match.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="matchExpressions operators must be one of In, NotIn, Exists, DoesNotExist"
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// upgradeConstraintPolicy determines whether an update must follow the upgrade edges
	// of the catalog (CatalogProvided) or may change to any version, including older
	// ones (SelfCertified). Defaults to CatalogProvided.
	// +kubebuilder:default=CatalogProvided
	// +optional
	UpgradeConstraintPolicy UpgradeConstraintPolicy `json:"upgradeConstraintPolicy,omitempty"`
}

// ClusterExtensionInstallConfig configures an installation.
// +kubebuilder:validation:XValidation:rule="has(self.preflight) || has(self.dependencies) || has(self.rollback) || has(self.accessRoles)",message="at least one of [preflight, dependencies, rollback, accessRoles] are required when install is specified"
type ClusterExtensionInstallConfig struct {
	// preflight configures the checks made before anything is changed.
	// +optional
	Preflight *PreflightConfig `json:"preflight,omitempty"`

	// dependencies determines what happens when the bundle needs packages or APIs that
	// are not in the cluster. When unset no dependencies are installed.
	// +optional
	Dependencies *DependenciesConfig `json:"dependencies,omitempty"`

	// rollback determines what happens when an update is not complete within
	// progressDeadlineMinutes. When unset the delay is only reported.
	// +optional
	Rollback *RollbackConfig `json:"rollback,omitempty"`

	// accessRoles is None or Aggregated. With Aggregated, three ClusterRoles for the APIs of
	// the bundle are installed with it. They are aggregated to the ClusterRoles view, edit
	// and admin, so that users with these roles get the same access to these APIs. Defaults
	// to None.
	// +optional
	AccessRoles AccessRoles `json:"accessRoles,omitempty"`
}

// RollbackConfig determines what happens to an update that exceeds its deadline.
type RollbackConfig struct {
	// policy is Never or OnDeadline. With Never, the update continues after the deadline.
	// With OnDeadline, the update is rolled back to the previous revision, and the same
	// bundle is not retried until the spec changes or another bundle is chosen. OnDeadline
	// requires spec.progressDeadlineMinutes. When rollback is unset the policy is Never.
	// +required
	Policy RollbackPolicy `json:"policy"`
}

// DependenciesConfig determines how the dependencies of a bundle are met.
type DependenciesConfig struct {
	// policy is Block or Install. With Block, the bundle waits until its dependencies are
	// installed. With Install, a ClusterExtension is created for each package that is
	// chosen to provide them. It has the name of the package, and the namespace,
	// serviceAccount and catalog selector of this extension. It is kept when this
	// extension is deleted. When dependencies is unset the policy is Block.
	// +required
	Policy DependencyPolicy `json:"policy"`
}

// PreflightConfig configures the checks made before anything is changed.
// +kubebuilder:validation:XValidation:rule="has(self.crdUpgradeSafety)",message="at least one of [crdUpgradeSafety] are required when preflight is specified"
type PreflightConfig struct {
	// crdUpgradeSafety configures the check of changes to CustomResourceDefinitions.
	// +optional
	CRDUpgradeSafety *CRDUpgradeSafetyPreflightConfig `json:"crdUpgradeSafety,omitempty"`
}

// CRDUpgradeSafetyPreflightConfig configures the check of CRD changes.
type CRDUpgradeSafetyPreflightConfig struct {
	// enforcement is Strict or None. With Strict, a change that is not known to be safe
	// blocks the update. With None, nothing is checked and data can be lost. When
	// crdUpgradeSafety is unset the enforcement is Strict.
	// +required
	Enforcement CRDUpgradeSafetyEnforcement `json:"enforcement"`
}

// ClusterExtensionConfig configures a bundle.
// +union
// +kubebuilder:validation:XValidation:rule="self.configType == 'Inline' ? has(self.inline) : !has(self.inline)",message="inline is required when configType is Inline, and forbidden otherwise"
type ClusterExtensionConfig struct {
	// configType is the type of the configuration. The only type is Inline.
	// +unionDiscriminator
	// +required
	ConfigType ExtensionConfigType `json:"configType"`

	// inline is the configuration, an object with at least one field. A registry+v1
	// bundle supports watchNamespace (string) and deploymentConfig (the fields of a
	// Subscription's spec.config). The configuration is validated against a schema that
	// depends on the bundle's install modes.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	// +optional
	Inline *apiextensionsv1.JSON `json:"inline,omitempty"`
}

// ClusterExtensionStatus is the observed state of a ClusterExtension.
type ClusterExtensionStatus struct {
	// conditions are Installed (which bundle is installed), Progressing (what is being
	// done, or why it cannot be done), Available (whether the objects pass their probes),
	// and Deprecated, PackageDeprecated, ChannelDeprecated and BundleDeprecated.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// install is the current installation. Unset while nothing is installed.
	// +optional
	Install *ClusterExtensionInstallStatus `json:"install,omitempty"`
	// activeRevisions are the revisions that own objects now, oldest first: usually one,
	// and two during an update.
	// +listType=map
	// +listMapKey=name
	// +optional
	ActiveRevisions []RevisionStatus `json:"activeRevisions,omitempty"`
}

// ClusterExtensionInstallStatus is the current installation.
type ClusterExtensionInstallStatus struct {
	// bundle is the installed bundle.
	// +required
	Bundle BundleMetadata `json:"bundle"`
}

// BundleMetadata identifies a bundle.
type BundleMetadata struct {
	// name of the bundle, such as argocd-operator.v0.6.0.
	// +required
	Name string `json:"name"`
	// version of the bundle, a semantic version.
	// +required
	Version string `json:"version"`
	// release of the bundle, for bundles that have one in addition to their version.
	// +optional
	Release *string `json:"release,omitempty"`
}

// RevisionStatus is the status of one revision of an extension.
type RevisionStatus struct {
	// name of the ClusterObjectSet.
	// +required
	Name string `json:"name"`
	// conditions of the ClusterObjectSet.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
