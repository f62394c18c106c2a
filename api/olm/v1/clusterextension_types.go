package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradeConstraintPolicy reports whether the catalog's upgrade edges bind.
// +kubebuilder:validation:Enum=CatalogProvided;SelfCertified
type UpgradeConstraintPolicy string

const (
	// UpgradeConstraintPolicyCatalogProvided: only the successors that the package's
	// author names are considered.
	UpgradeConstraintPolicyCatalogProvided UpgradeConstraintPolicy = "CatalogProvided"
	// UpgradeConstraintPolicySelfCertified: every bundle is considered, also older
	// ones; the user answers for the result.
	UpgradeConstraintPolicySelfCertified UpgradeConstraintPolicy = "SelfCertified"
)

// CRDUpgradeSafetyEnforcement reports whether a CRD change is checked before it is made.
// +kubebuilder:validation:Enum=None;Strict
type CRDUpgradeSafetyEnforcement string

const (
	// CRDUpgradeSafetyEnforcementNone: CRD changes are not checked.
	CRDUpgradeSafetyEnforcementNone CRDUpgradeSafetyEnforcement = "None"
	// CRDUpgradeSafetyEnforcementStrict: a CRD change that can break stored objects
	// or clients stops the update.
	CRDUpgradeSafetyEnforcementStrict CRDUpgradeSafetyEnforcement = "Strict"
)

// DependencyPolicy says what happens when a bundle needs what is not on the cluster.
// +kubebuilder:validation:Enum=Block;Install
type DependencyPolicy string

const (
	// DependencyPolicyBlock: the bundle waits until its dependencies are there.
	DependencyPolicyBlock DependencyPolicy = "Block"
	// DependencyPolicyInstall: a ClusterExtension is created for each package that is
	// chosen to meet them.
	DependencyPolicyInstall DependencyPolicy = "Install"
)

// RollbackPolicy says what happens to an update that is not complete by its deadline.
// +kubebuilder:validation:Enum=Never;OnDeadline
type RollbackPolicy string

const (
	// RollbackPolicyNever: the update goes on, and says that it is late.
	RollbackPolicyNever RollbackPolicy = "Never"
	// RollbackPolicyOnDeadline: the update is given up, and what was installed before it
	// is kept.
	RollbackPolicyOnDeadline RollbackPolicy = "OnDeadline"
)

// AccessRoles says which ClusterRoles users get for the APIs of a bundle.
// +kubebuilder:validation:Enum=None;Aggregated
type AccessRoles string

const (
	// AccessRolesNone: only those that the bundle ships.
	AccessRolesNone AccessRoles = "None"
	// AccessRolesAggregated: three, which are aggregated to view, edit and admin.
	AccessRolesAggregated AccessRoles = "Aggregated"
)

// ExtensionSourceType is the kind of place that an extension comes from.
// +kubebuilder:validation:Enum=Catalog
type ExtensionSourceType string

// ExtensionSourceTypeCatalog: the bundle is resolved from the cluster's catalogs.
const ExtensionSourceTypeCatalog ExtensionSourceType = "Catalog"

// ExtensionConfigType is the way that configuration is given.
// +kubebuilder:validation:Enum=Inline
type ExtensionConfigType string

// ExtensionConfigTypeInline: the configuration stands in the object itself.
const ExtensionConfigTypeInline ExtensionConfigType = "Inline"

// ClusterExtension installs a package of a catalog in the cluster and keeps it
// as its spec asks.
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

	// spec is the wanted state.
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

// ClusterExtensionSpec is the wanted state of a ClusterExtension.
// +kubebuilder:validation:XValidation:rule="!has(self.install) || !has(self.install.rollback) || self.install.rollback.policy != 'OnDeadline' || has(self.progressDeadlineMinutes)",message="progressDeadlineMinutes is required when install.rollback.policy is OnDeadline"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.serviceAccount) || has(self.serviceAccount)",message="serviceAccount may not be removed once it is set: that would widen the extension's rights"
type ClusterExtensionSpec struct {
	// namespace is where the namespaced objects of the bundle go. It must exist.
	// It does not limit what the extension watches. A DNS label of 1 to 63
	// characters; it cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a valid DNS1123 label"
	// +required
	Namespace string `json:"namespace"`

	// serviceAccount is the account that every object of the bundle is written as. It
	// lives in spec.namespace, and whoever sets it must be allowed to impersonate it. When
	// unset the controller's own account is used, unless the administrator forbids that.
	// An installation with --ignore-service-account always uses the controller's own.
	// +optional
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`

	// source says where the bundle comes from.
	// +required
	Source SourceConfig `json:"source"`

	// install tunes the installation.
	// +optional
	Install *ClusterExtensionInstallConfig `json:"install,omitempty"`

	// config configures the bundle. When unset the bundle is installed as its author
	// wrote it, watching all namespaces where it can.
	// +optional
	Config *ClusterExtensionConfig `json:"config,omitempty"`

	// progressDeadlineMinutes is how long, in minutes, a roll-out may take before it is
	// reported as ProgressDeadlineExceeded. 10 to 720; when unset there is no deadline.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=720
	// +optional
	ProgressDeadlineMinutes *int32 `json:"progressDeadlineMinutes,omitempty"`
}

// ServiceAccountReference names a ServiceAccount in spec.namespace.
type ServiceAccountReference struct {
	// name of the ServiceAccount: a DNS subdomain of 1 to 253 characters. It cannot be
	// changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="name is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name must be a valid DNS1123 subdomain"
	// +required
	Name string `json:"name"`
}

// SourceConfig says where an extension comes from, one of several kinds.
// +union
// +kubebuilder:validation:XValidation:rule="self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)",message="catalog is required when sourceType is Catalog, and forbidden otherwise"
type SourceConfig struct {
	// sourceType chooses the kind of source. The only kind is Catalog.
	// +unionDiscriminator
	// +required
	SourceType ExtensionSourceType `json:"sourceType"`

	// catalog says what to look for in the cluster's catalogs. It is required when
	// sourceType is Catalog.
	// +optional
	Catalog *CatalogFilter `json:"catalog,omitempty"`
}

// CatalogFilter says which bundle of the cluster's catalogs is wanted. All of its
// parts must hold together.
type CatalogFilter struct {
	// packageName is the package to install: a DNS subdomain of 1 to 253 characters. It
	// cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="packageName is immutable"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="packageName must be a valid DNS1123 subdomain"
	// +required
	PackageName string `json:"packageName"`

	// version is a semantic version, which pins the extension, or a range, within
	// which the highest is taken and kept up to date: "1.14.0", "1.14.x", ">=1.16",
	// ">1.15, <1.17", "~1.12", "^2.3", "<1.16 || >=2". Comma or space means and, ||
	// means or. At most 64 characters; when unset every version matches.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches(r'^\\s*((=|!=|>|<|>=|=>|<=|=<|~|~>|\\^)?\\s*(v?([0-9]+|[xX*])([.]([0-9]+|[xX*])){0,2}(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?)(\\s+-\\s+v?[0-9]+([.][0-9]+){0,2}(-[0-9A-Za-z.-]+)?)?\\s*([|][|]|,|\\s|$)\\s*)+$')",message="invalid version expression"
	// +optional
	Version string `json:"version,omitempty"`

	// channels limits the choice to bundles of these channels. At most 256 names, each a
	// DNS subdomain; when unset every channel is looked at.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="channels entries must be valid DNS1123 subdomains"
	// +listType=atomic
	// +optional
	Channels []string `json:"channels,omitempty"`

	// selector limits the choice to catalogs with these labels. Every catalog carries
	// the label olm.operatorframework.io/metadata.name with its own name. When unset
	// every available catalog is looked at.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="matchExpressions operators must be one of In, NotIn, Exists, DoesNotExist"
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// upgradeConstraintPolicy reports whether an update must follow the upgrade edges of
	// the catalog (CatalogProvided) or may go to any version, also back
	// (SelfCertified). When unset it is CatalogProvided.
	// +kubebuilder:default=CatalogProvided
	// +optional
	UpgradeConstraintPolicy UpgradeConstraintPolicy `json:"upgradeConstraintPolicy,omitempty"`
}

// ClusterExtensionInstallConfig tunes an installation.
// +kubebuilder:validation:XValidation:rule="has(self.preflight) || has(self.dependencies) || has(self.rollback) || has(self.accessRoles)",message="at least one of [preflight, dependencies, rollback, accessRoles] are required when install is specified"
type ClusterExtensionInstallConfig struct {
	// preflight configures the checks made before anything is changed.
	// +optional
	Preflight *PreflightConfig `json:"preflight,omitempty"`

	// dependencies says what happens when the bundle needs other packages or APIs that
	// are not on the cluster. When unset nothing is installed that was not asked for.
	// +optional
	Dependencies *DependenciesConfig `json:"dependencies,omitempty"`

	// rollback says what happens when an update is not complete within
	// progressDeadlineMinutes. When unset it only says so.
	// +optional
	Rollback *RollbackConfig `json:"rollback,omitempty"`

	// accessRoles is None, or Aggregated: three ClusterRoles for the APIs that the bundle
	// defines are installed with it, by which whoever has the roles view, edit and admin
	// may read, write and do everything with them. When unset it is None.
	// +optional
	AccessRoles AccessRoles `json:"accessRoles,omitempty"`
}

// RollbackConfig says what happens to an update that is not complete by its deadline.
type RollbackConfig struct {
	// policy is Never, the update goes on when it is late, or OnDeadline, it is given up
	// and what was installed before it is kept; the same bundle is not tried again until
	// the spec changes or another one is chosen. OnDeadline requires
	// spec.progressDeadlineMinutes. When rollback is unset it is Never.
	// +required
	Policy RollbackPolicy `json:"policy"`
}

// DependenciesConfig says what happens to what a bundle needs of others.
type DependenciesConfig struct {
	// policy is Block, the bundle waits until what it needs is there, or Install, a
	// ClusterExtension is created for each package that is chosen to provide it: named
	// after the package, with the namespace, serviceAccount and catalog selector of this
	// one. It stays when this one is removed. When dependencies is unset it is Block.
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
	// enforcement is Strict, a change that is not known to be safe stops the update, or
	// None, nothing is checked and data can be lost. When crdUpgradeSafety is unset it
	// is Strict.
	// +required
	Enforcement CRDUpgradeSafetyEnforcement `json:"enforcement"`
}

// ClusterExtensionConfig configures a bundle.
// +union
// +kubebuilder:validation:XValidation:rule="self.configType == 'Inline' ? has(self.inline) : !has(self.inline)",message="inline is required when configType is Inline, and forbidden otherwise"
type ClusterExtensionConfig struct {
	// configType chooses the way that configuration is given. The only way is Inline.
	// +unionDiscriminator
	// +required
	ConfigType ExtensionConfigType `json:"configType"`

	// inline is the configuration, an object with at least one field. For a registry+v1
	// bundle it knows watchNamespace (string) and deploymentConfig (the fields of a
	// Subscription's spec.config); it is checked against a schema that follows from the
	// bundle's install modes.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	// +optional
	Inline *apiextensionsv1.JSON `json:"inline,omitempty"`
}

// ClusterExtensionStatus is the observed state of a ClusterExtension.
type ClusterExtensionStatus struct {
	// conditions are Installed (which bundle is), Progressing (what is being done, or
	// why it cannot be), Available (do the objects pass their probes), and Deprecated,
	// PackageDeprecated, ChannelDeprecated and BundleDeprecated.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// install is what is installed. Unset while nothing is.
	// +optional
	Install *ClusterExtensionInstallStatus `json:"install,omitempty"`
	// activeRevisions are the revisions that own objects now: one in general, two during
	// an update, oldest first.
	// +listType=map
	// +listMapKey=name
	// +optional
	ActiveRevisions []RevisionStatus `json:"activeRevisions,omitempty"`
}

// ClusterExtensionInstallStatus is what is installed.
type ClusterExtensionInstallStatus struct {
	// bundle is the installed bundle.
	// +required
	Bundle BundleMetadata `json:"bundle"`
}

// BundleMetadata names a bundle.
type BundleMetadata struct {
	// name of the bundle, such as argocd-operator.v0.6.0.
	// +required
	Name string `json:"name"`
	// version of the bundle: a semantic version.
	// +required
	Version string `json:"version"`
	// release of the bundle, for bundles that have one beside their version.
	// +optional
	Release *string `json:"release,omitempty"`
}

// RevisionStatus is what an extension tells of one of its revisions.
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
