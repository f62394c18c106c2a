package v1alpha1

import (
	"encoding/json"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// InstallStrategyDeployment is the only install strategy: Deployments and the RBAC
// that they need.
const InstallStrategyDeployment = "deployment"

// InstallModeType is a way to choose the namespaces that an operator watches.
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

// WebhookAdmissionType is what a webhook is asked for.
// +kubebuilder:validation:Enum=ValidatingAdmissionWebhook;MutatingAdmissionWebhook;ConversionWebhook
type WebhookAdmissionType string

const (
	// ValidatingAdmissionWebhook means that may an object be written.
	ValidatingAdmissionWebhook WebhookAdmissionType = "ValidatingAdmissionWebhook"
	// MutatingAdmissionWebhook means that how is an object changed before it is written.
	MutatingAdmissionWebhook WebhookAdmissionType = "MutatingAdmissionWebhook"
	// ConversionWebhook means that what is an object in another version of its CRD.
	ConversionWebhook WebhookAdmissionType = "ConversionWebhook"
)

// ClusterServiceVersion describes one version of an operator: what it is, what it
// provides and needs, and how it is run.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterserviceversions,shortName={csv,csvs},categories=olm,scope=Namespaced
// +kubebuilder:printcolumn:name="Display",type=string,JSONPath=`.spec.displayName`,description="The name of the operator for people"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`,description="The version of the operator"
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release`,description="The build of the version"
// +kubebuilder:printcolumn:name="Replaces",type=string,JSONPath=`.spec.replaces`,description="The ClusterServiceVersion that this one is an update of"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="How far the installation is"
type ClusterServiceVersion struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the operator's author says.
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

// ClusterServiceVersionSpec is what an operator's author says about one version of it.
type ClusterServiceVersionSpec struct {
	// install says how the operator is run.
	// +required
	InstallStrategy NamedInstallStrategy `json:"install"`
	// version is the operator's semantic version. When unset it counts as 0.0.0 in OLM
	// Classic; a bundle must set it.
	// +optional
	Version LooseVersion `json:"version,omitempty"`
	// release tells builds of one version apart: dot-separated semver pre-release
	// identifiers, at most 20 characters. Unset comes before any release.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Za-z-]+(\\\\.[0-9A-Za-z-]+)*$')",message="release version must be composed of dot-separated identifiers containing only alphanumerics and hyphens"
	// +kubebuilder:validation:XValidation:rule="!self.split('.').exists(x, x.matches('^0[0-9]+$'))",message="numeric identifiers in release version must not have leading zeros"
	// +optional
	Release LooseVersion `json:"release,omitempty"`
	// maturity is the author's free word for how finished this version is.
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
	// nativeAPIs are other APIs that must be served by the cluster.
	// +optional
	NativeAPIs []metav1.GroupVersionKind `json:"nativeAPIs,omitempty"`
	// minKubeVersion is the lowest version of Kubernetes that the operator runs on, a
	// semantic version. When unset any will do.
	// +optional
	MinKubeVersion LooseVersion `json:"minKubeVersion,omitempty"`

	// displayName is the operator's name for people.
	// +required
	DisplayName string `json:"displayName"`
	// description is a text about the operator, in Markdown.
	// +optional
	Description string `json:"description,omitempty"`
	// keywords help to find the operator.
	// +optional
	Keywords []string `json:"keywords,omitempty"`
	// maintainers are the people to turn to.
	// +optional
	Maintainers []Maintainer `json:"maintainers,omitempty"`
	// provider is who publishes the operator.
	// +optional
	Provider AppLink `json:"provider,omitzero"`
	// links lead to more about the operator.
	// +optional
	Links []AppLink `json:"links,omitempty"`
	// icon is the operator's picture; the first entry is used.
	// +optional
	Icon []Icon `json:"icon,omitempty"`

	// installModes say which ways of choosing namespaces the operator supports. A mode
	// that is not listed is not supported.
	// +optional
	InstallModes []InstallMode `json:"installModes,omitempty"`
	// replaces is the name of the ClusterServiceVersion that this one is an update of.
	// +optional
	Replaces string `json:"replaces,omitempty"`
	// skips names further ClusterServiceVersions that this one is an update of.
	// +optional
	Skips []string `json:"skips,omitempty"`

	// labels and annotations describe the operator to people; nothing copies them.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// selector finds the operator's resources.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// cleanup is read by nothing; it is kept because existing manifests carry it.
	// +optional
	Cleanup CleanupSpec `json:"cleanup,omitzero"`
	// relatedImages are the images that the operator and what it manages run.
	// +optional
	RelatedImages []RelatedImage `json:"relatedImages,omitempty"`
}

// NamedInstallStrategy says how an operator is run.
type NamedInstallStrategy struct {
	// strategy is the way; only "deployment" is known.
	// +required
	StrategyName string `json:"strategy"`
	// spec is what the way needs.
	// +optional
	StrategySpec StrategyDetailsDeployment `json:"spec,omitzero"`
}

// StrategyDetailsDeployment is an operator as Deployments and the rights they need.
type StrategyDetailsDeployment struct {
	// deployments are made in the namespace of the operator.
	// +required
	DeploymentSpecs []StrategyDeploymentSpec `json:"deployments"`
	// permissions are rights in each watched namespace.
	// +optional
	Permissions []StrategyDeploymentPermissions `json:"permissions,omitempty"`
	// clusterPermissions are rights in the whole cluster.
	// +optional
	ClusterPermissions []StrategyDeploymentPermissions `json:"clusterPermissions,omitempty"`
}

// StrategyDeploymentPermissions are rights of one ServiceAccount. Names of roles are
// computed from its JSON encoding: its fields and their order must not change.
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
	// label holds the labels of the Deployment itself.
	// +optional
	Label map[string]string `json:"label,omitempty"`
}

// CustomResourceDefinitions are the CRDs that an operator provides and needs.
type CustomResourceDefinitions struct {
	// owned CRDs are part of the bundle.
	// +optional
	Owned []CRDDescription `json:"owned,omitempty"`
	// required CRDs come from elsewhere.
	// +optional
	Required []CRDDescription `json:"required,omitempty"`
}

// CRDDescription is one version of a CRD, told to people.
type CRDDescription struct {
	// name of the CRD: <plural>.<group>.
	// +required
	Name string `json:"name"`
	// +required
	Version string `json:"version"`
	// +required
	Kind string `json:"kind"`

	APIDescription `json:",inline"`
}

// APIServiceDefinitions are the aggregated APIs that an operator provides and needs.
type APIServiceDefinitions struct {
	// owned APIs are served by a Deployment of the operator.
	// +optional
	Owned []APIServiceDescription `json:"owned,omitempty"`
	// required APIs come from elsewhere.
	// +optional
	Required []APIServiceDescription `json:"required,omitempty"`
}

// APIServiceDescription is one kind of an aggregated API.
type APIServiceDescription struct {
	// name is the plural name of the resource.
	// +required
	Name string `json:"name"`
	// +required
	Group string `json:"group"`
	// +required
	Version string `json:"version"`
	// +required
	Kind string `json:"kind"`
	// deploymentName is the Deployment of the operator that serves an owned API.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`
	// containerPort is the port that it serves on. When unset it is 443.
	// +optional
	ContainerPort int32 `json:"containerPort,omitempty"`

	APIDescription `json:",inline"`
}

// APIDescription tells people what an API is for.
type APIDescription struct {
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// +optional
	Description string `json:"description,omitempty"`
	// resources are kinds that the operator makes for an object of this API.
	// +optional
	Resources []APIResourceReference `json:"resources,omitempty"`
	// statusDescriptors, specDescriptors and actionDescriptors explain single fields.
	// +optional
	StatusDescriptors []Descriptor `json:"statusDescriptors,omitempty"`
	// +optional
	SpecDescriptors []Descriptor `json:"specDescriptors,omitempty"`
	// +optional
	ActionDescriptors []Descriptor `json:"actionDescriptors,omitempty"`
}

// APIResourceReference is a kind that an operator makes.
type APIResourceReference struct {
	// name may be empty, as in many bundles.
	// +optional
	Name string `json:"name"`
	// +required
	Kind string `json:"kind"`
	// +required
	Version string `json:"version"`
}

// Descriptor explains one field of an API.
type Descriptor struct {
	// path of the field, below spec or status.
	// +required
	Path string `json:"path"`
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// +optional
	Description string `json:"description,omitempty"`
	// x-descriptors say how a console shows the field.
	// +optional
	XDescriptors []string `json:"x-descriptors,omitempty"`
	// value is any JSON value.
	// +optional
	Value json.RawMessage `json:"value,omitempty"`
}

// WebhookDescription is a webhook that an operator serves.
type WebhookDescription struct {
	// generateName is unique in the ClusterServiceVersion; an admission webhook and its
	// configuration are named for it.
	// +required
	GenerateName string `json:"generateName"`
	// +required
	Type WebhookAdmissionType `json:"type"`
	// deploymentName is the Deployment of the operator that serves the webhook.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`
	// containerPort is the port of the Service in front of it. When unset it is 443.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ContainerPort int32 `json:"containerPort,omitempty"`
	// targetPort is the port of the pod. When unset it is containerPort.
	// +optional
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`
	// rules say which requests an admission webhook is asked about.
	// +optional
	Rules []admissionregistrationv1.RuleWithOperations `json:"rules,omitempty"`
	// +optional
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// +optional
	MatchPolicy *admissionregistrationv1.MatchPolicyType `json:"matchPolicy,omitempty"`
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// +required
	SideEffects *admissionregistrationv1.SideEffectClass `json:"sideEffects"`
	// timeoutSeconds is how long, in seconds, the webhook may take.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// admissionReviewVersions are the versions of the review that the webhook
	// understands, the preferred one first.
	// +required
	AdmissionReviewVersions []string `json:"admissionReviewVersions"`
	// reinvocationPolicy is for mutating webhooks only.
	// +optional
	ReinvocationPolicy *admissionregistrationv1.ReinvocationPolicyType `json:"reinvocationPolicy,omitempty"`
	// webhookPath is the path of the URL.
	// +optional
	WebhookPath *string `json:"webhookPath,omitempty"`
	// conversionCRDs names the owned CRDs that a conversion webhook converts.
	// +optional
	ConversionCRDs []string `json:"conversionCRDs,omitempty"`
}

// Maintainer is a person or a team to turn to.
type Maintainer struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Email string `json:"email,omitempty"`
}

// AppLink is a name and where it leads.
type AppLink struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	URL string `json:"url,omitempty"`
}

// Icon is a picture.
type Icon struct {
	// base64data is the picture in base64. It is kept as text: some authors break the
	// lines, some leave it empty.
	// +required
	Data string `json:"base64data"`
	// mediatype is the media type, such as image/svg+xml.
	// +required
	MediaType string `json:"mediatype"`
}

// InstallMode reports whether a way of choosing namespaces is supported.
type InstallMode struct {
	// +required
	Type InstallModeType `json:"type"`
	// +required
	Supported bool `json:"supported"`
}

// CleanupSpec is read by nothing.
type CleanupSpec struct {
	// +required
	Enabled bool `json:"enabled"`
}

// RelatedImage is an image under a name.
type RelatedImage struct {
	// +required
	Name string `json:"name"`
	// +required
	Image string `json:"image"`
}
