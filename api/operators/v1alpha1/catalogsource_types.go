package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SourceType is the type of a catalog's source.
type SourceType string

const (
	// SourceTypeGrpc is an image that serves the catalog, or an existing server.
	SourceTypeGrpc SourceType = "grpc"
	// SourceTypeConfigmap is a ConfigMap with package manifests.
	SourceTypeConfigmap SourceType = "configmap"
	// SourceTypeInternal is an old name of SourceTypeConfigmap.
	SourceTypeInternal SourceType = "internal"
)

// SecurityConfig is the pod security of a catalog's pod.
// +kubebuilder:validation:Enum=legacy;restricted
type SecurityConfig string

const (
	// Legacy has no restrictions, for catalogs that run as root.
	Legacy SecurityConfig = "legacy"
	// Restricted meets the pod security standard "restricted".
	Restricted SecurityConfig = "restricted"
)

// Reasons of a CatalogSource's status.
const (
	// CatalogSourceSpecInvalidError means that the spec is invalid.
	CatalogSourceSpecInvalidError = "SpecInvalidError"
	// CatalogSourceConfigMapError means that the ConfigMap of the catalog cannot be used.
	CatalogSourceConfigMapError = "ConfigMapError"
	// CatalogSourceRegistryServerError means that the catalog's server could not be created or reached.
	CatalogSourceRegistryServerError = "RegistryServerError"
	// CatalogSourceIntervalInvalidError means that the poll interval is invalid.
	CatalogSourceIntervalInvalidError = "InvalidIntervalError"
)

// Conditions of a CatalogSource with an image template, and their reasons.
const (
	// CatalogSourceTemplatesHaveResolved means that every variable of the template has a value.
	CatalogSourceTemplatesHaveResolved = "TemplatesHaveResolved"
	// CatalogSourceResolvedImage has the resolved image of the template in its message.
	CatalogSourceResolvedImage = "ResolvedImage"

	// ReasonAllTemplatesResolved means that the template was resolved to an image.
	ReasonAllTemplatesResolved = "AllTemplatesResolved"
	// ReasonUnableToResolve means that the template could not be resolved. The image of the spec is
	// kept.
	ReasonUnableToResolve = "UnableToResolve"
)

// Annotations of a CatalogSource.
const (
	// AnnotationCatalogImageTemplate is a template of the catalog's image, with the variables
	// {kube_major_version}, {kube_minor_version} and {kube_patch_version}.
	AnnotationCatalogImageTemplate = "olm.catalogImageTemplate"
	// AnnotationPriorityClass is the priority class of the catalog's pod. It takes precedence over
	// the spec.
	AnnotationPriorityClass = "operatorframework.io/priorityclass"
)

// CatalogSource makes a catalog of operators available to the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=catsrc,categories=olm
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Display",type=string,JSONPath=`.spec.displayName`,description="The display name of the catalog."
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.sourceType`,description="The type of the source."
// +kubebuilder:printcolumn:name="Publisher",type=string,JSONPath=`.spec.publisher`,description="The publisher of the catalog."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CatalogSource struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is the source of the catalog and how it is served.
	// +required
	Spec CatalogSourceSpec `json:"spec"`
	// status is the observed state of the catalog. Only the controller writes it.
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

// CatalogSourceSpec is the source of a catalog and how it is served.
type CatalogSourceSpec struct {
	// sourceType is the type of the source: "grpc" for spec.image or spec.address, "configmap"
	// for spec.configMap. "internal" is an old name of "configmap".
	// +required
	SourceType SourceType `json:"sourceType"`
	// priority ranks the catalogs that can meet a dependency. Higher priorities are preferred.
	// Defaults to 0.
	// +optional
	Priority int `json:"priority,omitempty"`
	// configMap is the name of the ConfigMap with the content, in the namespace of the
	// catalog. It is used only with the types "configmap" and "internal".
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
	// address is the address of an existing server of the catalog, as host:port. It is used only
	// with the type "grpc", and takes precedence over image for connections.
	// +optional
	Address string `json:"address,omitempty"`
	// image is a container image that serves the catalog on port 50051. It is used only with the
	// type "grpc". An image template in the annotations overwrites it.
	// +optional
	Image string `json:"image,omitempty"`
	// grpcPodConfig configures the catalog's pod. It is used only with an image.
	// +optional
	GrpcPodConfig *GrpcPodConfig `json:"grpcPodConfig,omitempty"`
	// updateStrategy determines how new content of the same image reference is detected.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	// secrets are the names of pull secrets in the namespace of the catalog.
	// +optional
	Secrets []string `json:"secrets,omitempty"`

	// displayName is the display name of the catalog.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description of the catalog's content.
	// +optional
	Description string `json:"description,omitempty"`
	// publisher of the catalog.
	// +optional
	Publisher string `json:"publisher,omitempty"`
	// icon of the catalog.
	// +optional
	Icon *Icon `json:"icon,omitempty"`
}

// GrpcPodConfig configures a catalog's pod.
type GrpcPodConfig struct {
	// nodeSelector selects the nodes that the pod may run on. It replaces kubernetes.io/os: linux.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of the pod.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity of the pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// securityContextConfig is the pod security of the pod. Defaults to "restricted" in a
	// namespace that enforces this pod security standard, and to "legacy" elsewhere.
	// +optional
	SecurityContextConfig SecurityConfig `json:"securityContextConfig,omitempty"`
	// priorityClassName is the priority class of the pod. Unset and empty mean the cluster's
	// default.
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// memoryTarget is the soft memory limit of the server, as a quantity in bytes. It is the
	// memory request of the pod, but not its limit. When unset the request is 50Mi and there is no
	// soft limit.
	// +optional
	MemoryTarget *resource.Quantity `json:"memoryTarget,omitempty"`
	// extractContent extracts the content from the image. The cluster's own opm serves it instead
	// of the program in the image. When unset the image is run.
	// +optional
	ExtractContent *ExtractContentConfig `json:"extractContent,omitempty"`
}

// ExtractContentConfig states where the content of a catalog is in its image.
type ExtractContentConfig struct {
	// cacheDir is the absolute path of a cache that was built from catalogDir. When unset a cache
	// is built at each start.
	// +optional
	CacheDir string `json:"cacheDir,omitempty"`
	// catalogDir is the absolute path of the file-based catalog.
	// +required
	CatalogDir string `json:"catalogDir"`
}

// UpdateStrategy determines how new content of the same image reference is detected.
type UpdateStrategy struct {
	// registryPoll pulls the image periodically.
	// +optional
	RegistryPoll *RegistryPoll `json:"registryPoll,omitempty"`
}

// RegistryPoll configures the periodic pull of an image.
type RegistryPoll struct {
	// interval is the time between two polls, as a duration such as 45m or 24h. Unset or invalid
	// means 15m.
	// +optional
	Interval string `json:"interval,omitempty"`
}

// CatalogSourceStatus is the observed state of a catalog.
type CatalogSourceStatus struct {
	// message is a human-readable explanation of why the catalog cannot be used.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is SpecInvalidError, ConfigMapError, RegistryServerError or InvalidIntervalError.
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
	// connectionState is the state of the connection to the catalog.
	// +optional
	GRPCConnectionState *GRPCConnectionState `json:"connectionState,omitempty"`
	// conditions are TemplatesHaveResolved and ResolvedImage, of a catalog with an image template.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConfigMapResourceReference refers to a resource version of a ConfigMap.
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
	// createdAt is when the catalog's server was last created.
	// +optional
	CreatedAt metav1.Time `json:"createdAt,omitzero"`
}

// GRPCConnectionState is the state of the connection to a catalog.
type GRPCConnectionState struct {
	// address of the catalog, as host:port.
	// +optional
	Address string `json:"address,omitempty"`
	// lastObservedState is IDLE, CONNECTING, READY, TRANSIENT_FAILURE or SHUTDOWN. The catalog can
	// be read only in the state READY.
	// +required
	LastObservedState string `json:"lastObservedState"`
	// lastConnect is when the connection entered this state.
	// +optional
	LastConnectTime metav1.Time `json:"lastConnect,omitzero"`
}

// Address returns the address of the catalog as host:port: spec.address, or else the Service in
// the status. It returns an empty string while there is none.
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
