package csvinfo

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Annotations of ClusterServiceVersions, which their pods get as well.
const (
	// AnnotationOperatorGroup is the name of the OperatorGroup that a ClusterServiceVersion is a
	// member of.
	AnnotationOperatorGroup = "olm.operatorGroup"
	// AnnotationOperatorNamespace is the namespace of that group.
	AnnotationOperatorNamespace = "olm.operatorNamespace"
	// AnnotationTargetNamespaces are the namespaces that the group selects, sorted and joined by
	// commas; empty means all. Copies have none.
	AnnotationTargetNamespaces = "olm.targetNamespaces"
	// AnnotationProperties are the properties of the bundle, as JSON.
	AnnotationProperties = "operatorframework.io/properties"
	// AnnotationInstalledAlongside is the beginning of annotations of CRDs, each of which names, as
	// NAMESPACE/NAME, a ClusterServiceVersion that the CRD was installed with.
	AnnotationInstalledAlongside = "operatorframework.io/installed-alongside-"
	// AnnotationCAHash, on serving Secrets and pod templates, is the hash of the authority.
	AnnotationCAHash = "olmcahash"
)

// Labels.
const (
	// LabelManaged is on everything that OLM makes, with the value "true".
	LabelManaged = "olm.managed"
	// LabelOwner, LabelOwnerNamespace and LabelOwnerKind name the object that something was made for.
	LabelOwner          = "olm.owner"
	LabelOwnerNamespace = "olm.owner.namespace"
	LabelOwnerKind      = "olm.owner.kind"
	// LabelCopiedFrom is, on a copy, the namespace that it was copied from.
	LabelCopiedFrom = "olm.copiedFrom"
	// LabelDeploymentHash is the hash of what a Deployment was made to be.
	LabelDeploymentHash = "olm.deployment-spec-hash"
	// LabelPermissionsHash is the hash of the rules of a role, or of what a binding binds.
	LabelPermissionsHash = "olm.permissions.hash"
	// LabelComponent is the beginning of the labels that tell of which operator an object is part.
	LabelComponent = "operators.coreos.com/"
)

// Finalizer keeps a ClusterServiceVersion until its cluster-scoped objects are gone.
const Finalizer = "operators.coreos.com/csv-cleanup"

// OwnerLabels tell the objects of a ClusterServiceVersion.
func OwnerLabels(namespace, name string) map[string]string {
	return map[string]string{
		LabelOwner: name, LabelOwnerNamespace: namespace, LabelOwnerKind: v1alpha1.ClusterServiceVersionKind,
	}
}

// OwnedByLabels returns the ClusterServiceVersion that the labels of an object name; ok is false when
// they name none.
func OwnedByLabels(labels map[string]string) (namespace, name string, ok bool) {
	namespace, name = labels[LabelOwnerNamespace], labels[LabelOwner]
	return namespace, name, name != "" && namespace != "" && labels[LabelOwnerKind] == v1alpha1.ClusterServiceVersionKind
}

// OwnerReference is what a namespaced object of a ClusterServiceVersion is collected by.
func OwnerReference(csv *v1alpha1.ClusterServiceVersion) metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ClusterServiceVersionKind, Name: csv.Name, UID: csv.UID,
		Controller: &no, BlockOwnerDeletion: &no,
	}
}

// IsOwner reports whether one of the references is to the ClusterServiceVersion.
func IsOwner(references []metav1.OwnerReference, csv *v1alpha1.ClusterServiceVersion) bool {
	return slices.ContainsFunc(references, func(r metav1.OwnerReference) bool {
		return r.Kind == v1alpha1.ClusterServiceVersionKind && r.Name == csv.Name && r.UID == csv.UID
	})
}

// Matches reports whether labels hold all of the wanted ones.
func Matches(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if found, ok := labels[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// With returns labels with others added, which win.
func With(labels map[string]string, more ...map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	for _, m := range more {
		maps.Copy(all, m)
	}
	return all
}

// IsCopied reports whether a ClusterServiceVersion is a copy of one in another namespace.
func IsCopied(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Reason == v1alpha1.CSVReasonCopied || HasCopyMarks(csv)
}

// HasCopyMarks is IsCopied of which only the metadata is known.
func HasCopyMarks(csv metav1.Object) bool {
	if _, ok := csv.GetLabels()[LabelCopiedFrom]; ok {
		return true
	}
	home, ok := csv.GetAnnotations()[AnnotationOperatorNamespace]
	return ok && home != csv.GetNamespace()
}

// uncopiable are the reasons of a ClusterServiceVersion that no copies are made of: it is one, or
// it belongs to no group that could say where to.
var uncopiable = []string{
	v1alpha1.CSVReasonCopied, v1alpha1.CSVReasonInvalidInstallModes, v1alpha1.CSVReasonNoTargetNamespaces,
	v1alpha1.CSVReasonUnsupportedOperatorGroup, v1alpha1.CSVReasonNoOperatorGroup, v1alpha1.CSVReasonTooManyOperatorGroups,
	v1alpha1.CSVReasonInterOperatorGroupOwnerConflict, v1alpha1.CSVReasonCannotModifyStaticOperatorGroupAPIs,
}

// IsUncopiable reports whether no copies are made of a ClusterServiceVersion.
func IsUncopiable(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Phase == v1alpha1.CSVPhaseNone || slices.Contains(uncopiable, csv.Status.Reason)
}

// IsObsolete reports whether a ClusterServiceVersion is, or was, replaced by another.
func IsObsolete(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Reason == v1alpha1.CSVReasonReplaced || csv.Status.Reason == v1alpha1.CSVReasonBeingReplaced
}
