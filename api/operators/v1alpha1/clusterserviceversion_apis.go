package v1alpha1

import (
	"encoding/json"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WebhookAdmissionType is the type of a webhook.
// +kubebuilder:validation:Enum=ValidatingAdmissionWebhook;MutatingAdmissionWebhook;ConversionWebhook
type WebhookAdmissionType string

const (
	// ValidatingAdmissionWebhook decides whether an object may be written.
	ValidatingAdmissionWebhook WebhookAdmissionType = "ValidatingAdmissionWebhook"
	// MutatingAdmissionWebhook changes an object before it is written.
	MutatingAdmissionWebhook WebhookAdmissionType = "MutatingAdmissionWebhook"
	// ConversionWebhook converts an object to another version of its CRD.
	ConversionWebhook WebhookAdmissionType = "ConversionWebhook"
)

// CustomResourceDefinitions are the CustomResourceDefinitions that an operator
// provides and requires.
type CustomResourceDefinitions struct {
	// owned are the CustomResourceDefinitions that the operator provides. Each
	// must be in its bundle. In a namespace, only one operator may own a
	// CustomResourceDefinition.
	// +optional
	Owned []CRDDescription `json:"owned,omitempty"`
	// required are the CustomResourceDefinitions that the operator requires. Other
	// operators provide them, and are installed as dependencies.
	// +optional
	Required []CRDDescription `json:"required,omitempty"`
}

// CRDDescription describes one version of a CustomResourceDefinition. The
// operator is not installed until this version is served.
type CRDDescription struct {
	// name is the name of the CustomResourceDefinition: <plural>.<group>.
	// +required
	Name string `json:"name"`
	// version is the API version, such as v1.
	// +required
	Version string `json:"version"`
	// kind is the kind of the custom resources.
	// +required
	Kind string `json:"kind"`

	APIDescription `json:",inline"`
}

// APIServiceDefinitions are the aggregated APIs that an operator provides and
// requires.
type APIServiceDefinitions struct {
	// owned are the APIs that a Deployment of the operator serves. The controller
	// creates an APIService, a Service and a certificate for each.
	// +optional
	Owned []APIServiceDescription `json:"owned,omitempty"`
	// required are the APIs that the operator requires. Other operators provide
	// them. The operator is not installed until they are available.
	// +optional
	Required []APIServiceDescription `json:"required,omitempty"`
}

// APIServiceDescription describes one kind of an aggregated API. Its
// APIService is <version>.<group>.
type APIServiceDescription struct {
	// name is the plural name of the resource, and not the name of the APIService.
	// +required
	Name string `json:"name"`
	// group is the API group of the kind.
	// +required
	Group string `json:"group"`
	// version is the API version of the kind, such as v1alpha1.
	// +required
	Version string `json:"version"`
	// kind is the kind that the API serves.
	// +required
	Kind string `json:"kind"`
	// deploymentName is the name of the Deployment in install.spec.deployments
	// that serves the API. It is required for an owned API, and ignored for a
	// required one.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`
	// containerPort is the port of the Service of the API, and of the pods behind
	// it. Defaults to 443.
	// +optional
	ContainerPort int32 `json:"containerPort,omitempty"`

	APIDescription `json:",inline"`
}

// APIDescription describes an API for users.
type APIDescription struct {
	// displayName is the name of the API for users.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description describes the API to users.
	// +optional
	Description string `json:"description,omitempty"`
	// resources are the kinds that the operator creates for an object of this API.
	// A console may show them.
	// +optional
	Resources []APIResourceReference `json:"resources,omitempty"`
	// statusDescriptors describe fields in the status of the API, for consoles.
	// +optional
	StatusDescriptors []Descriptor `json:"statusDescriptors,omitempty"`
	// specDescriptors describe fields in the spec of the API, for consoles.
	// +optional
	SpecDescriptors []Descriptor `json:"specDescriptors,omitempty"`
	// actionDescriptors describe actions on objects of the API, for consoles.
	// +optional
	ActionDescriptors []Descriptor `json:"actionDescriptors,omitempty"`
}

// APIResourceReference is a kind that an operator creates.
type APIResourceReference struct {
	// name is the name of the resource or of its CustomResourceDefinition. It may
	// be empty.
	// +optional
	Name string `json:"name"`
	// kind is the kind that the operator creates.
	// +required
	Kind string `json:"kind"`
	// version is the API version of the kind.
	// +required
	Version string `json:"version"`
}

// Descriptor describes one field of an API to consoles. It has no effect on
// the cluster.
type Descriptor struct {
	// path is the path of the field, relative to the spec or the status of the
	// object.
	// +required
	Path string `json:"path"`
	// displayName is the name of the field for users.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description describes the field to users.
	// +optional
	Description string `json:"description,omitempty"`
	// x-descriptors are identifiers that determine how a console shows the field.
	// +optional
	XDescriptors []string `json:"x-descriptors,omitempty"`
	// value is a value of the field that a console may show.
	// +optional
	Value json.RawMessage `json:"value,omitempty"`
}

// WebhookDescription is an admission or conversion webhook that an operator
// serves. It is called only for the namespaces that the OperatorGroup selects;
// a conversion webhook is called for all.
type WebhookDescription struct {
	// generateName is the name of an admission webhook, and the prefix of the name
	// of its configuration. It must be unique in the ClusterServiceVersion.
	// +required
	GenerateName string `json:"generateName"`
	// type is ValidatingAdmissionWebhook, MutatingAdmissionWebhook or
	// ConversionWebhook. A ConversionWebhook requires that the operator supports
	// only the install mode AllNamespaces.
	// +required
	Type WebhookAdmissionType `json:"type"`
	// deploymentName is the name of the Deployment in install.spec.deployments
	// that serves the webhook. The serving certificate is mounted into its
	// containers.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`
	// containerPort is the port of the Service of the webhook. Defaults to 443.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ContainerPort int32 `json:"containerPort,omitempty"`
	// targetPort is the number or the name of the port of the pods that the
	// Service forwards to. Defaults to containerPort.
	// +optional
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`
	// rules select the requests for which an admission webhook is called. They
	// must not include all API groups, the group operators.coreos.com, or webhook
	// configurations.
	// +optional
	Rules []admissionregistrationv1.RuleWithOperations `json:"rules,omitempty"`
	// failurePolicy is "Fail" to reject a request when the webhook cannot be
	// called, or "Ignore" to allow it. The API server defaults it to "Fail".
	// +optional
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// matchPolicy is "Equivalent" to call the webhook also for other versions of
	// the APIs in rules, or "Exact" to call it only for those. The API server
	// defaults it to "Equivalent".
	// +optional
	MatchPolicy *admissionregistrationv1.MatchPolicyType `json:"matchPolicy,omitempty"`
	// objectSelector selects the objects for which an admission webhook is called,
	// by their labels. When unset, it is called for all objects.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// sideEffects is "None" if the webhook changes nothing outside of the request,
	// or "NoneOnDryRun" if it does not do so for dry runs. The API server rejects
	// any other value for an admission webhook.
	// +required
	SideEffects *admissionregistrationv1.SideEffectClass `json:"sideEffects"`
	// timeoutSeconds is the timeout of a call of an admission webhook in seconds,
	// from 1 to 30. The API server defaults it to 10.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// admissionReviewVersions are the versions of the review object that the
	// webhook accepts, the preferred one first. For a conversion webhook these are
	// versions of ConversionReview.
	// +required
	AdmissionReviewVersions []string `json:"admissionReviewVersions"`
	// reinvocationPolicy is "IfNeeded" to call a mutating webhook again after a
	// later one changed the object, or "Never". It is ignored for other types. The
	// API server defaults it to "Never".
	// +optional
	ReinvocationPolicy *admissionregistrationv1.ReinvocationPolicyType `json:"reinvocationPolicy,omitempty"`
	// webhookPath is the path of the URL at which the webhook is served. When
	// unset, the path is "/".
	// +optional
	WebhookPath *string `json:"webhookPath,omitempty"`
	// conversionCRDs are the names of the CustomResourceDefinitions that a
	// conversion webhook converts. The operator must own them. It is ignored for
	// other types.
	// +optional
	ConversionCRDs []string `json:"conversionCRDs,omitempty"`
}
