// Package objects makes the objects that serve a catalog in a cluster: pod, Service, accounts and
// network policies of a CatalogSource, as OLM Classic has them. It tells too whether what is there
// is as it is meant to be.
//
// It is pure: it takes objects and gives back objects. Who writes them and when is in
// internal/classic/source.
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
	// LabelManaged is on everything that OLM makes.
	LabelManaged = "olm.managed"
	// LabelCatalog names the catalog that a pod serves. It is empty on a pod that is run to find
	// out whether there is another image.
	LabelCatalog = "olm.catalogSource"
	// LabelUpdate names the catalog that such a pod is run for.
	LabelUpdate = "catalogsource.operators.coreos.com/update"
	// LabelPodHash and LabelServiceHash are hashes of the specs that were asked for.
	LabelPodHash     = "olm.pod-spec-hash"
	LabelServiceHash = "olm.service-spec-hash"
	// LabelConfigMapVersion is the version of the ConfigMap that a pod serves.
	LabelConfigMapVersion = "olm.configMapResourceVersion"
	// LabelBundleUnpack is on the pods that unpack bundles of a catalog.
	LabelBundleUnpack = "operatorframework.io/bundle-unpack-ref"
	// LabelEnforce is the pod security standard that a namespace enforces.
	LabelEnforce = "pod-security.kubernetes.io/enforce"
)

const (
	// Port is where catalogs are served.
	Port = 50051
	// portName is its name in pods and Services.
	portName = "grpc"
	// maxNameLength is that of the value of a label, and of a Service.
	maxNameLength = 63
)

// Images are those that are run beside the ones that catalogs name. An image comes with the
// program in it.
type Images struct {
	// OPM serves a catalog whose content is taken out of its image: the program is called with
	// `serve` and its arguments.
	OPM Program
	// Copy is the image that a program is taken from which copies content out of images, and how
	// that is done: Program gives the command by which it puts itself into a folder.
	Copy CopyProgram
	// ConfigMapServer serves the content of a ConfigMap: the program is called with `-c NAME -n
	// NAMESPACE`.
	ConfigMapServer Program
}

// Program is a program in an image.
type Program struct {
	Image string
	// Command is the program and its first arguments.
	Command []string
}

// CopyProgram is a program that copies content out of the image that it runs in.
type CopyProgram struct {
	Image string
	// Install puts the program into the folder /utilities.
	Install []string
	// Command is the program there, with its first arguments.
	Command []string
}

// Catalog is what is known of a CatalogSource when its objects are made.
type Catalog struct {
	*v1alpha1.CatalogSource
	// NamespaceLabels are those of its namespace.
	NamespaceLabels map[string]string
	// ConfigMapVersion is the resource version of its ConfigMap, if it has one.
	ConfigMapVersion string
	// Images are those that are run beside its own.
	Images Images
	// SetUserID has confined pods run as a user of their own, where nobody else sets one.
	SetUserID bool
}

// IsConfigMap reports whether the content is a ConfigMap's.
func (c *Catalog) IsConfigMap() bool {
	return c.Spec.SourceType == v1alpha1.SourceTypeConfigmap || c.Spec.SourceType == v1alpha1.SourceTypeInternal
}

// IsServed reports whether the catalog has objects at all. One that is only an address has none.
func (c *Catalog) IsServed() bool { return c.IsConfigMap() || c.Spec.Image != "" }

// MissingImage names the flag of catalog-operator without which it has no image that the catalog
// needs beside its own. It is empty when nothing is missing.
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

// ServiceName is the name of the Service, which has no dots.
func (c *Catalog) ServiceName() string { return strings.ReplaceAll(c.Name, ".", "-") }

// AccountName is the name of the ServiceAccount.
func (c *Catalog) AccountName() string {
	if c.IsConfigMap() {
		return c.Name + "-configmap-server"
	}
	return c.Name
}

// NameTooLong reports whether the name can be no value of a label, so that the catalog can have no
// pod.
func (c *Catalog) NameTooLong() bool { return len(c.Name) > maxNameLength }

// Meta is the metadata of an object of the catalog.
func (c *Catalog) Meta(name string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{LabelManaged: "true"}
	for key, value := range labels {
		all[key] = value
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: c.Namespace, Labels: all,
		OwnerReferences: []metav1.OwnerReference{c.Owner()},
	}
}

// Owner is the reference by which objects go when their catalog does.
func (c *Catalog) Owner() metav1.OwnerReference {
	yes := true
	no := false
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.CatalogSourceKind, Name: c.Name, UID: c.UID,
		Controller: &yes, BlockOwnerDeletion: &no,
	}
}

// podLabels are those by which the pods of the catalog are found.
func (c *Catalog) podLabels() map[string]string {
	if c.IsConfigMap() {
		return map[string]string{LabelCatalog: c.Name}
	}
	return map[string]string{LabelCatalog: c.Name, LabelManaged: "true"}
}

func servicePort() corev1.ServicePort {
	return corev1.ServicePort{Name: portName, Port: Port, TargetPort: intstr.FromInt32(Port), Protocol: corev1.ProtocolTCP}
}
