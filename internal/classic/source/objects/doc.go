// Package objects builds the objects that serve a catalog in a cluster: the pod, Service,
// service account, RBAC objects and network policies of a CatalogSource, as OLM Classic creates
// them. It also compares existing objects with the desired ones.
//
// The package has no side effects. Package internal/classic/source reads and writes the
// objects.
package objects

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Labels of the objects.
const (
	// LabelManaged is on all objects that OLM creates.
	LabelManaged = "olm.managed"
	// LabelCatalog is the name of the catalog that a pod serves. It is empty on an update pod,
	// which a poll creates to find out whether there is another image.
	LabelCatalog = "olm.catalogSource"
	// LabelUpdate is the name of the catalog of an update pod.
	LabelUpdate = "catalogsource.operators.coreos.com/update"
	// LabelPodHash and LabelServiceHash are hashes of the desired specs.
	LabelPodHash     = "olm.pod-spec-hash"
	LabelServiceHash = "olm.service-spec-hash"
	// LabelConfigMapVersion is the resource version of the ConfigMap that a pod serves.
	LabelConfigMapVersion = "olm.configMapResourceVersion"
	// LabelBundleUnpack is on the pods that unpack bundles of a catalog.
	LabelBundleUnpack = "operatorframework.io/bundle-unpack-ref"
	// LabelEnforce is the pod security standard that a namespace enforces.
	LabelEnforce = "pod-security.kubernetes.io/enforce"
)

const (
	// Port is the port of registry servers.
	Port = 50051
	// portName is the name of the port in pods and Services.
	portName = "grpc"
	// maxNameLength is the maximum length of a label's value, and of a Service's name.
	maxNameLength = 63
)

// Images are the images that run in addition to those of the catalogs, with their programs.
type Images struct {
	// OPM serves a catalog whose content is extracted from its image. Its command is called
	// with `serve` and arguments.
	OPM Program
	// Copy contains the program that copies content out of images.
	Copy CopyProgram
	// ConfigMapServer serves the content of a ConfigMap. Its command is called with `-c NAME -n
	// NAMESPACE`.
	ConfigMapServer Program
}

// Program is a program in an image.
type Program struct {
	Image string
	// Command is the program with its first arguments.
	Command []string
}

// CopyProgram is a program that copies content out of the image that it runs in.
type CopyProgram struct {
	Image string
	// Install copies the program into the folder /utilities.
	Install []string
	// Command is the installed program with its first arguments.
	Command []string
}

// Catalog is a CatalogSource with the input that its objects depend on.
type Catalog struct {
	*v1alpha1.CatalogSource
	// NamespaceLabels are the labels of its namespace.
	NamespaceLabels map[string]string
	// ConfigMapVersion is the resource version of its ConfigMap, if it has one.
	ConfigMapVersion string
	// Images are the images that run in addition to that of the catalog.
	Images Images
	// SetUserID sets a user ID in restricted pods, for clusters that do not assign one.
	SetUserID bool
	// IsInline is set if the content of the image is served by catalog-operator, without a pod.
	IsInline bool
	// InlineHost is the DNS name of the Service that leads to catalog-operator, for a catalog that is served
	// inline. If it is empty, the catalog has no Service.
	InlineHost string
}

// IsConfigMap reports whether the content is in a ConfigMap.
func (c *Catalog) IsConfigMap() bool {
	return c.Spec.SourceType == v1alpha1.SourceTypeConfigmap || c.Spec.SourceType == v1alpha1.SourceTypeInternal
}

// IsServed reports whether the catalog has objects that serve it. A catalog that is only an
// address has none.
func (c *Catalog) IsServed() bool { return c.IsConfigMap() || c.Spec.Image != "" }

// MissingImage returns the flag of catalog-operator that sets an image which the catalog needs,
// if it is not set, or "".
func (c *Catalog) MissingImage() string {
	config := c.Spec.GrpcPodConfig
	extracts := !c.IsConfigMap() && c.IsServed() && config != nil && config.ExtractContent != nil
	switch {
	case c.IsConfigMap() && c.Images.ConfigMapServer.Image == "":
		return "--configmapServerImage"
	case extracts && c.Images.OPM.Image == "":
		return "--opmImage"
	case extracts && c.Images.Copy.Image == "":
		return "--util-image"
	}

	return ""
}

// ServiceName returns the name of the Service, which has no dots.
func (c *Catalog) ServiceName() string { return strings.ReplaceAll(c.Name, ".", "-") }

// AccountName returns the name of the service account.
func (c *Catalog) AccountName() string {
	if c.IsConfigMap() {
		return c.Name + "-configmap-server"
	}
	return c.Name
}

// NameTooLong reports whether the name is too long for a label's value. The catalog can then
// have no pod.
func (c *Catalog) NameTooLong() bool { return len(c.Name) > maxNameLength }

// newObjectMeta returns the metadata of an object of a catalog.
func newObjectMeta(c *Catalog, name string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{LabelManaged: "true"}
	for key, value := range labels {
		all[key] = value
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: c.Namespace, Labels: all,
		OwnerReferences: []metav1.OwnerReference{c.Owner()},
	}
}

// Owner returns the owner reference to the catalog.
func (c *Catalog) Owner() metav1.OwnerReference {
	yes := true
	no := false
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.CatalogSourceKind, Name: c.Name, UID: c.UID,
		Controller: &yes, BlockOwnerDeletion: &no,
	}
}

// podSelectorLabels returns the labels that select the pods of a catalog.
func podSelectorLabels(c *Catalog) map[string]string {
	if c.IsConfigMap() {
		return map[string]string{LabelCatalog: c.Name}
	}
	return map[string]string{LabelCatalog: c.Name, LabelManaged: "true"}
}

func newServicePort() corev1.ServicePort {
	return corev1.ServicePort{Name: portName, Port: Port, TargetPort: intstr.FromInt32(Port), Protocol: corev1.ProtocolTCP}
}
