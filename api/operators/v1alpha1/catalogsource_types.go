package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SourceType is where the content of a catalog comes from.
type SourceType string

const (
	// SourceTypeGrpc means that an image that serves the catalog, or a server that runs already.
	SourceTypeGrpc SourceType = "grpc"
	// SourceTypeConfigmap means that a ConfigMap with package manifests.
	SourceTypeConfigmap SourceType = "configmap"
	// SourceTypeInternal is an old name of SourceTypeConfigmap.
	SourceTypeInternal SourceType = "internal"
)

// SecurityConfig is how a catalog's pod is confined.
// +kubebuilder:validation:Enum=legacy;restricted
type SecurityConfig string

const (
	// Legacy asks for nothing, which catalogs need that run as root.
	Legacy SecurityConfig = "legacy"
	// Restricted meets the pod security standard "restricted".
	Restricted SecurityConfig = "restricted"
)

// Reasons of a CatalogSource's status.
const (
	// CatalogSourceSpecInvalidError means that the spec must be changed.
	CatalogSourceSpecInvalidError = "SpecInvalidError"
	// CatalogSourceConfigMapError means that the ConfigMap of the catalog cannot be used.
	CatalogSourceConfigMapError = "ConfigMapError"
	// CatalogSourceRegistryServerError means that what serves the catalog could not be set up or reached.
	CatalogSourceRegistryServerError = "RegistryServerError"
	// CatalogSourceIntervalInvalidError means that the interval of polls is none.
	CatalogSourceIntervalInvalidError = "InvalidIntervalError"
)

// Conditions of a CatalogSource with an image template, and their reasons.
const (
	// CatalogSourceTemplatesHaveResolved means that every variable of the template has a value.
	CatalogSourceTemplatesHaveResolved = "TemplatesHaveResolved"
	// CatalogSourceResolvedImage means that the message is the image that the template gives.
	CatalogSourceResolvedImage = "ResolvedImage"

	// ReasonAllTemplatesResolved means that the template gives an image.
	ReasonAllTemplatesResolved = "AllTemplatesResolved"
	// ReasonUnableToResolve means that it does not, and the image of the spec stays.
	ReasonUnableToResolve = "UnableToResolve"
)

// Annotations of a CatalogSource.
const (
	// AnnotationCatalogImageTemplate is a template of the catalog's image, with the variables
	// {kube_major_version}, {kube_minor_version} and {kube_patch_version}.
	AnnotationCatalogImageTemplate = "olm.catalogImageTemplate"
	// AnnotationPriorityClass is the priority class of the catalog's pod. It wins over the spec.
	AnnotationPriorityClass = "operatorframework.io/priorityclass"
)

// CatalogSource is a catalog of operators that the cluster is offered.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=catsrc,categories=olm
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Display",type=string,JSONPath=`.spec.displayName`,description="The name of the catalog for people."
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.sourceType`,description="Where the content comes from."
// +kubebuilder:printcolumn:name="Publisher",type=string,JSONPath=`.spec.publisher`,description="Who publishes the catalog."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CatalogSource struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is where the catalog is and how it is served.
	// +required
	Spec CatalogSourceSpec `json:"spec"`
	// status is what is known of the catalog. The controller alone writes it.
	// +optional
	Status CatalogSourceStatus `json:"status,omitzero"`
}

// CatalogSourceList is a list of CatalogSources.
// +kubebuilder:object:root=true
type CatalogSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CatalogSource `json:"items"`
}

// CatalogSourceSpec is where a catalog is and how it is served.
type CatalogSourceSpec struct {
	// sourceType is where the content comes from: "grpc" for spec.image or spec.address,
	// "configmap" for spec.configMap, for which "internal" is an old name.
	// +required
	SourceType SourceType `json:"sourceType"`
	// priority ranks catalogs when one of several could meet a dependency: the higher, the
	// sooner it is taken. Unset is 0.
	// +optional
	Priority int `json:"priority,omitempty"`
	// configMap is the name of the ConfigMap with the content, in the namespace of the
	// catalog. Only with the types "configmap" and "internal".
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
	// address is where a server of the catalog runs already, as host:port. Only with the type
	// "grpc"; it is dialled also when there is an image.
	// +optional
	Address string `json:"address,omitempty"`
	// image serves the catalog on port 50051 when it is run. Only with the type "grpc". An image
	// template in the annotations overwrites it.
	// +optional
	Image string `json:"image,omitempty"`
	// grpcPodConfig is how the catalog's pod differs from others. Only with an image.
	// +optional
	GrpcPodConfig *GrpcPodConfig `json:"grpcPodConfig,omitempty"`
	// updateStrategy is how new content behind the same image reference is found.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	// secrets are names of Secrets with logins of registries, in the namespace of the catalog.
	// +optional
	Secrets []string `json:"secrets,omitempty"`

	// displayName is the name of the catalog for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description says what the catalog holds.
	// +optional
	Description string `json:"description,omitempty"`
	// publisher is who publishes the catalog.
	// +optional
	Publisher string `json:"publisher,omitempty"`
	// icon is a picture of the catalog.
	// +optional
	Icon *Icon `json:"icon,omitempty"`
}

// GrpcPodConfig is how a catalog's pod differs from others.
type GrpcPodConfig struct {
	// nodeSelector chooses the nodes that the pod may run on, in place of kubernetes.io/os: linux.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations let the pod run on nodes with taints.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity draws the pod to nodes, or away from them.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// securityContextConfig is how the pod is confined. Unset is "restricted" in a namespace
	// that enforces that pod security standard, and "legacy" elsewhere.
	// +optional
	SecurityContextConfig SecurityConfig `json:"securityContextConfig,omitempty"`
	// priorityClassName is the priority class of the pod. Unset and empty are that of the cluster.
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// memoryTarget is how much memory the server tries to stay below, as a quantity in bytes. It is
	// what the pod asks for and no limit. Unset: it asks for 50Mi and has no target.
	// +optional
	MemoryTarget *resource.Quantity `json:"memoryTarget,omitempty"`
	// extractContent has the content be taken out of the image and served by the cluster's own
	// opm, not by the program in the image. Unset: the image is run.
	// +optional
	ExtractContent *ExtractContentConfig `json:"extractContent,omitempty"`
}

// ExtractContentConfig is where the content of a catalog is in its image.
type ExtractContentConfig struct {
	// cacheDir is the folder of a cache that was built from catalogDir, as an absolute path. Unset:
	// one is built at each start.
	// +optional
	CacheDir string `json:"cacheDir,omitempty"`
	// catalogDir is the folder of the file-based catalog, as an absolute path.
	// +required
	CatalogDir string `json:"catalogDir"`
}

// UpdateStrategy is how new content behind the same image reference is found.
type UpdateStrategy struct {
	// registryPoll has the image be pulled from time to time.
	// +optional
	RegistryPoll *RegistryPoll `json:"registryPoll,omitempty"`
}

// RegistryPoll is how often an image is pulled.
type RegistryPoll struct {
	// interval is the time between two polls, as a duration such as 45m or 24h. Unset, and one
	// that cannot be read, is 15m.
	// +optional
	Interval string `json:"interval,omitempty"`
}

// CatalogSourceStatus is what is known of a catalog.
type CatalogSourceStatus struct {
	// message is for people: what keeps the catalog from being used.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is one word for programs: SpecInvalidError, ConfigMapError, RegistryServerError or
	// InvalidIntervalError.
	// +optional
	Reason string `json:"reason,omitempty"`
	// latestImageRegistryPoll is when the image was last polled.
	// +optional
	LatestImageRegistryPoll *metav1.Time `json:"latestImageRegistryPoll,omitempty"`
	// configMapReference is the ConfigMap that is served.
	// +optional
	ConfigMapResource *ConfigMapResourceReference `json:"configMapReference,omitempty"`
	// registryService is the Service of the catalog.
	// +optional
	RegistryServiceStatus *RegistryServiceStatus `json:"registryService,omitempty"`
	// connectionState is how the connection to the catalog is.
	// +optional
	GRPCConnectionState *GRPCConnectionState `json:"connectionState,omitempty"`
	// conditions are TemplatesHaveResolved and ResolvedImage, of a catalog with an image template.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConfigMapResourceReference is a ConfigMap in one of its versions.
type ConfigMapResourceReference struct {
	// +required
	Name string `json:"name"`
	// +required
	Namespace string `json:"namespace"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// lastUpdateTime is when this reference was written.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}

// RegistryServiceStatus is the Service of a catalog.
type RegistryServiceStatus struct {
	// protocol is grpc.
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// +optional
	ServiceNamespace string `json:"serviceNamespace,omitempty"`
	// port is a number.
	// +optional
	Port string `json:"port,omitempty"`
	// createdAt is when what serves the catalog was last set up.
	// +optional
	CreatedAt metav1.Time `json:"createdAt,omitzero"`
}

// GRPCConnectionState is how the connection to a catalog is.
type GRPCConnectionState struct {
	// address is where the catalog is, as host:port.
	// +optional
	Address string `json:"address,omitempty"`
	// lastObservedState is IDLE, CONNECTING, READY, TRANSIENT_FAILURE or SHUTDOWN. Only in READY
	// the catalog answers.
	// +required
	LastObservedState string `json:"lastObservedState"`
	// lastConnect is when the connection came into this state.
	// +optional
	LastConnectTime metav1.Time `json:"lastConnect,omitzero"`
}

// Address is where the catalog can be reached, as host:port: spec.address, or else the Service
// of the status. It is empty while there is none.
func (c *CatalogSource) Address() string {
	if c.Spec.Address != "" {
		return c.Spec.Address
	}

	service := c.Status.RegistryServiceStatus
	if service == nil || service.ServiceName == "" {
		return ""
	}
	return service.ServiceName + "." + service.ServiceNamespace + ".svc:" + service.Port
}
