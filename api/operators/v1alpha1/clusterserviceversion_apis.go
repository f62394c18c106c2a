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

// CustomResourceDefinitions are the CRDs that an operator provides and needs.
type CustomResourceDefinitions struct {
	// owned CRDs are part of the bundle.
	// +optional
	Owned []CRDDescription `json:"owned,omitempty"`
	// required CRDs are provided by other operators.
	// +optional
	Required []CRDDescription `json:"required,omitempty"`
}

// CRDDescription describes one version of a CRD.
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
	// required APIs are provided by other operators.
	// +optional
	Required []APIServiceDescription `json:"required,omitempty"`
}

// APIServiceDescription describes one kind of an aggregated API.
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
	// containerPort is the port of the API's Service. Defaults to 443.
	// +optional
	ContainerPort int32 `json:"containerPort,omitempty"`

	APIDescription `json:",inline"`
}

// APIDescription describes an API for users.
type APIDescription struct {
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// +optional
	Description string `json:"description,omitempty"`
	// resources are the kinds that the operator creates for an object of this API.
	// +optional
	Resources []APIResourceReference `json:"resources,omitempty"`
	// statusDescriptors, specDescriptors and actionDescriptors describe single fields.
	// +optional
	StatusDescriptors []Descriptor `json:"statusDescriptors,omitempty"`
	// +optional
	SpecDescriptors []Descriptor `json:"specDescriptors,omitempty"`
	// +optional
	ActionDescriptors []Descriptor `json:"actionDescriptors,omitempty"`
}

// APIResourceReference is a kind that an operator creates.
type APIResourceReference struct {
	// name may be empty, as in many bundles.
	// +optional
	Name string `json:"name"`
	// +required
	Kind string `json:"kind"`
	// +required
	Version string `json:"version"`
}

// Descriptor describes one field of an API.
type Descriptor struct {
	// path of the field, below spec or status.
	// +required
	Path string `json:"path"`
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// +optional
	Description string `json:"description,omitempty"`
	// x-descriptors determine how a console shows the field.
	// +optional
	XDescriptors []string `json:"x-descriptors,omitempty"`
	// value is any JSON value.
	// +optional
	Value json.RawMessage `json:"value,omitempty"`
}

// WebhookDescription is a webhook that an operator serves.
type WebhookDescription struct {
	// generateName is unique in the ClusterServiceVersion. It is the name of an admission
	// webhook, and the prefix of its configuration's name.
	// +required
	GenerateName string `json:"generateName"`
	// +required
	Type WebhookAdmissionType `json:"type"`
	// deploymentName is the Deployment of the operator that serves the webhook.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`
	// containerPort is the port of the webhook's Service. Defaults to 443.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ContainerPort int32 `json:"containerPort,omitempty"`
	// targetPort is the port of the pod. Defaults to containerPort.
	// +optional
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`
	// rules select the requests for which an admission webhook is called.
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
	// timeoutSeconds is the timeout of the webhook in seconds.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// admissionReviewVersions are the versions of the review that the webhook supports, the
	// preferred one first.
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
