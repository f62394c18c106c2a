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

// CatalogSource makes a catalog of operators available to Subscriptions.
// Catalogs in the global namespace are available in all namespaces, other
// catalogs only in their own namespace.
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

	// spec defines where the content of the catalog comes from and how it is
	// served.
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

// CatalogSourceSpec defines where the content of a catalog comes from and how
// it is served.
type CatalogSourceSpec struct {
	// sourceType is the type of the source. "grpc" requires image or address;
	// "configmap" requires configMap. "internal" is an old name of "configmap".
	// Any other value sets the reason SpecInvalidError in the status.
	// +required
	SourceType SourceType `json:"sourceType"`
	// priority ranks this catalog among those that can provide a dependency of an
	// operator; higher values are preferred. The catalog of the dependent operator
	// is preferred regardless of priority. Defaults to 0.
	// +optional
	Priority int `json:"priority,omitempty"`
	// configMap is the name of the ConfigMap with the content, in the namespace of
	// the catalog. It is required for the types "configmap" and "internal", and
	// ignored for "grpc". A change of the ConfigMap restarts the catalog's pod.
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
	// address is the address of an existing server of the catalog, as host:port.
	// It is used for the type "grpc". If image is set too, the pod of the image
	// runs, but connections use this address.
	// +optional
	Address string `json:"address,omitempty"`
	// image is a container image that serves the catalog on port 50051. It is used
	// for the type "grpc"; the controller runs it as a pod. If the annotation
	// olm.catalogImageTemplate is set, the controller overwrites this field.
	// +optional
	Image string `json:"image,omitempty"`
	// grpcPodConfig configures the pod that serves the catalog. A change replaces
	// the pod. For a catalog with a ConfigMap, only securityContextConfig is used.
	// +optional
	GrpcPodConfig *GrpcPodConfig `json:"grpcPodConfig,omitempty"`
	// updateStrategy determines how the controller finds new content behind the
	// same image reference. It is used for the type "grpc" with an image. When
	// unset, the image is not polled.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	// secrets are the names of pull secrets in the namespace of the catalog. They
	// are used to pull the image of the catalog and the images of its bundles.
	// +optional
	Secrets []string `json:"secrets,omitempty"`

	// displayName is the name of the catalog for users. Consoles and
	// PackageManifests show it.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// description describes the content of the catalog for users. It has no
	// effect.
	// +optional
	Description string `json:"description,omitempty"`
	// publisher is the organization that publishes the catalog. PackageManifests
	// show it.
	// +optional
	Publisher string `json:"publisher,omitempty"`
	// icon is an image that represents the catalog in a console. It has no effect.
	// +optional
	Icon *Icon `json:"icon,omitempty"`
}

// GrpcPodConfig configures the pod that serves a catalog.
type GrpcPodConfig struct {
	// nodeSelector selects the nodes that the pod may run on. When set, it
	// replaces the default node selector kubernetes.io/os=linux.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations are the taints of nodes that the pod tolerates. When unset, the
	// pod has no tolerations of its own.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity constrains the nodes that the pod may be scheduled to. When unset,
	// the pod has no affinity.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// securityContextConfig is the pod security of the pod. "restricted" meets the
	// pod security standard of this name; "legacy" sets nothing, for images that
	// run as root. Defaults to "restricted" in a namespace that enforces this
	// standard, and to "legacy" elsewhere.
	// +optional
	SecurityContextConfig SecurityConfig `json:"securityContextConfig,omitempty"`
	// priorityClassName is the priority class of the pod. Unset and empty mean the
	// default of the cluster. The annotation operatorframework.io/priorityclass of
	// the CatalogSource overrides this field.
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// memoryTarget is the soft memory limit of the server, as a quantity such as
	// 100Mi. It becomes the memory request of the pod, but not its memory limit.
	// When unset, the request is 50Mi and there is no soft limit.
	// +optional
	MemoryTarget *resource.Quantity `json:"memoryTarget,omitempty"`
	// extractContent copies the catalog out of the image, and the opm of the
	// cluster serves it. The image then needs no program. When unset, the program
	// in the image serves the catalog.
	// +optional
	ExtractContent *ExtractContentConfig `json:"extractContent,omitempty"`
}

// ExtractContentConfig defines where the content of a catalog is in its image.
type ExtractContentConfig struct {
	// cacheDir is the absolute path, in the image, of a cache that was built from
	// catalogDir. It makes the pod start faster. When unset, the server builds a
	// cache at each start.
	// +optional
	CacheDir string `json:"cacheDir,omitempty"`
	// catalogDir is the absolute path, in the image, of the file-based catalog.
	// +required
	CatalogDir string `json:"catalogDir"`
}

// UpdateStrategy determines how the controller finds new content behind the
// same image reference.
type UpdateStrategy struct {
	// registryPoll pulls the image at an interval. If the reference then points to
	// another image, a pod with that image replaces the one that serves the
	// catalog. When unset, the image is not polled.
	// +optional
	RegistryPoll *RegistryPoll `json:"registryPoll,omitempty"`
}

// RegistryPoll configures how often an image is polled.
type RegistryPoll struct {
	// interval is the time between two polls, as a Go duration such as 45m or 24h.
	// If it is unset, invalid or not positive, 15m is used and the reason is
	// InvalidIntervalError. A reference with a digest is never polled.
	// +optional
	Interval string `json:"interval,omitempty"`
}

// CatalogSourceStatus is the observed state of a catalog.
type CatalogSourceStatus struct {
	// message explains why the catalog cannot be used or updated. It is empty when
	// there is no problem.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is the kind of problem: SpecInvalidError, ConfigMapError,
	// RegistryServerError or InvalidIntervalError. It is empty when there is no
	// problem. With InvalidIntervalError, the catalog is still served.
	// +optional
	Reason string `json:"reason,omitempty"`
	// latestImageRegistryPoll is when the last poll of the image started. It is
	// unset before the first poll.
	// +optional
	LatestImageRegistryPoll *metav1.Time `json:"latestImageRegistryPoll,omitempty"`
	// configMapReference is the ConfigMap whose content is served. It is unset for
	// the type "grpc".
	// +optional
	ConfigMapResource *ConfigMapResourceReference `json:"configMapReference,omitempty"`
	// registryService is the Service through which clients reach the server of the
	// catalog.
	// +optional
	RegistryServiceStatus *RegistryServiceStatus `json:"registryService,omitempty"`
	// connectionState is the state of the connection from the controller to the
	// server of the catalog.
	// +optional
	GRPCConnectionState *GRPCConnectionState `json:"connectionState,omitempty"`
	// conditions report the result of the image template in the annotation
	// olm.catalogImageTemplate. The types are TemplatesHaveResolved and
	// ResolvedImage. Without a template there are none.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConfigMapResourceReference identifies one version of a ConfigMap.
type ConfigMapResourceReference struct {
	// name is the name of the ConfigMap.
	// +required
	Name string `json:"name"`
	// namespace is the namespace of the ConfigMap, which is that of the
	// CatalogSource.
	// +required
	Namespace string `json:"namespace"`
	// uid is the UID of the ConfigMap. It changes if the ConfigMap is deleted and
	// created again.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// resourceVersion is the resource version of the ConfigMap that is served.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// lastUpdateTime is when the controller last observed a change of the
	// ConfigMap.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
}

// RegistryServiceStatus is the Service of a catalog. For a catalog that is
// only an address, it has no name.
type RegistryServiceStatus struct {
	// protocol is the protocol of the server, which is always "grpc".
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// serviceName is the name of the Service. It is the name of the CatalogSource,
	// with dashes instead of dots.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// serviceNamespace is the namespace of the Service, which is that of the
	// CatalogSource.
	// +optional
	ServiceNamespace string `json:"serviceNamespace,omitempty"`
	// port is the port of the Service as text, which is always "50051".
	// +optional
	Port string `json:"port,omitempty"`
	// createdAt is when the pod that serves the catalog was created. For a catalog
	// that is only an address, it is when the controller first recorded that.
	// +optional
	CreatedAt metav1.Time `json:"createdAt,omitzero"`
}

// GRPCConnectionState is the state of the connection to a catalog.
type GRPCConnectionState struct {
	// address is the address of the server that the controller connects to, as
	// host:port.
	// +optional
	Address string `json:"address,omitempty"`
	// lastObservedState is the state of the connection: IDLE, CONNECTING, READY,
	// TRANSIENT_FAILURE or SHUTDOWN. The content of the catalog is available only
	// in the state READY.
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
