package csvinfo

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Annotations of CSVs, which are also set on their pods.
const (
	// AnnotationOperatorGroup is the name of the OperatorGroup of a CSV.
	AnnotationOperatorGroup = "olm.operatorGroup"
	// AnnotationOperatorNamespace is the namespace of that group.
	AnnotationOperatorNamespace = "olm.operatorNamespace"
	// AnnotationTargetNamespaces are the namespaces that the group selects, sorted and
	// separated by commas; empty means all. Copied CSVs do not have it.
	AnnotationTargetNamespaces = "olm.targetNamespaces"
	// AnnotationProperties are the properties of the bundle, as JSON.
	AnnotationProperties = "operatorframework.io/properties"
	// AnnotationInstalledAlongside is the prefix of annotations of CRDs. The value of each is a
	// CSV, as NAMESPACE/NAME, that the CRD was installed with.
	AnnotationInstalledAlongside = "operatorframework.io/installed-alongside-"
	// AnnotationCAHash, on serving Secrets and pod templates, is the hash of the CA.
	AnnotationCAHash = "olmcahash"
)

// Labels.
const (
	// LabelManaged is on all objects that OLM creates, with the value "true".
	LabelManaged = "olm.managed"
	// LabelOwner, LabelOwnerNamespace and LabelOwnerKind identify the object that an object was
	// created for.
	LabelOwner          = "olm.owner"
	LabelOwnerNamespace = "olm.owner.namespace"
	LabelOwnerKind      = "olm.owner.kind"
	// LabelCopiedFrom is the namespace that a copied CSV was copied from.
	LabelCopiedFrom = "olm.copiedFrom"
	// LabelDeploymentHash is the hash of a Deployment's desired spec.
	LabelDeploymentHash = "olm.deployment-spec-hash"
	// LabelPermissionsHash is the hash of the rules of a role, or of the role reference and
	// subjects of a binding.
	LabelPermissionsHash = "olm.permissions.hash"
	// LabelComponent is the prefix of labels for the operator to which an object belongs.
	LabelComponent = "operators.coreos.com/"
)

// maxLabelNameLength is the maximum length of the part of a label's key after the slash.
const maxLabelNameLength = 63

// OperatorName returns the name of the Operator of a package that is subscribed to in a namespace.
func OperatorName(pkg, namespace string) string { return pkg + "." + namespace }

// ComponentKey returns the key of the label on the components of an Operator. Its value is empty.
// ok is false if the name of the Operator cannot be a part of a key.
func ComponentKey(operator string) (key string, ok bool) {
	key = LabelComponent + strings.TrimRight(operator[:min(len(operator), maxLabelNameLength)], "._-")
	return key, len(validation.IsQualifiedName(key)) == 0
}

// ComponentLabels returns the labels that state to which Operators an object belongs.
func ComponentLabels(labels map[string]string) map[string]string {
	components := maps.Clone(labels)
	maps.DeleteFunc(components, func(key, _ string) bool { return !strings.HasPrefix(key, LabelComponent) })
	return components
}

// OperatorsOfLabels returns the names of the Operators that labels refer to, sorted. It ignores
// keys that may be truncated, because such a key is not the name of an Operator.
func OperatorsOfLabels(labels map[string]string) []string {
	var names []string
	for key := range labels {
		name, ok := strings.CutPrefix(key, LabelComponent)
		if ok && strings.Contains(name, ".") && len(name) < maxLabelNameLength {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names
}

// Finalizer keeps a CSV until its cluster-scoped objects are deleted.
const Finalizer = "operators.coreos.com/csv-cleanup"

// HasCleanup reports whether cluster-scoped objects may be created for a CSV: they will be deleted with it, because it
// has the finalizer and is not being deleted.
func HasCleanup(csv metav1.Object) bool {
	return csv.GetDeletionTimestamp().IsZero() && slices.Contains(csv.GetFinalizers(), Finalizer)
}

// OwnerLabels returns the labels of objects that belong to a CSV.
func OwnerLabels(namespace, name string) map[string]string {
	return map[string]string{
		LabelOwner: name, LabelOwnerNamespace: namespace, LabelOwnerKind: v1alpha1.ClusterServiceVersionKind,
	}
}

// SelectOwned returns a selector of the objects with the owner labels of a CSV. It selects nothing if the name cannot be
// the value of a label, because it is longer than 63 characters: no object can have it then.
func SelectOwned(namespace, name string) labels.Selector {
	selector, err := labels.ValidatedSelectorFromSet(OwnerLabels(namespace, name))
	if err != nil {
		// The selector labels.Nothing is empty in a request, which selects everything.
		return labels.NewSelector().Add(hasOwner(selection.Exists), hasOwner(selection.DoesNotExist))
	}
	return selector
}

func hasOwner(operator selection.Operator) labels.Requirement {
	requirement, _ := labels.NewRequirement(LabelOwner, operator, nil) // The label is a constant.
	return *requirement
}

// OwnedByLabels returns the CSV that the labels of an object refer to; ok is false if there is
// none.
func OwnedByLabels(labels map[string]string) (namespace, name string, ok bool) {
	namespace, name = labels[LabelOwnerNamespace], labels[LabelOwner]
	return namespace, name, name != "" && namespace != "" && labels[LabelOwnerKind] == v1alpha1.ClusterServiceVersionKind
}

// OwnerReference returns the owner reference of namespaced objects to a CSV.
func OwnerReference(csv *v1alpha1.ClusterServiceVersion) metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ClusterServiceVersionKind, Name: csv.Name, UID: csv.UID,
		Controller: &no, BlockOwnerDeletion: &no,
	}
}

// AccountName returns the name of the service account of a permission.
func AccountName(p v1alpha1.StrategyDeploymentPermissions) string {
	return cmp.Or(p.ServiceAccountName, "default")
}

// IsOwner reports whether one of the owner references is to the CSV.
func IsOwner(references []metav1.OwnerReference, csv *v1alpha1.ClusterServiceVersion) bool {
	return slices.ContainsFunc(references, func(r metav1.OwnerReference) bool {
		return r.Kind == v1alpha1.ClusterServiceVersionKind && r.Name == csv.Name && r.UID == csv.UID
	})
}

// HasLabels reports whether labels contain all wanted ones.
func HasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if found, ok := labels[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// MergeLabels returns a copy of labels with others added. Later ones take precedence.
func MergeLabels(labels map[string]string, more ...map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	for _, m := range more {
		maps.Copy(all, m)
	}
	return all
}

// IsCopied reports whether a CSV is a copied CSV.
func IsCopied(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Reason == v1alpha1.CSVReasonCopied || HasCopiedMetadata(csv)
}

// HasCopiedMetadata is like IsCopied if only the metadata is known.
func HasCopiedMetadata(csv metav1.Object) bool {
	if _, ok := csv.GetLabels()[LabelCopiedFrom]; ok {
		return true
	}
	home, ok := csv.GetAnnotations()[AnnotationOperatorNamespace]
	return ok && home != csv.GetNamespace()
}

// uncopiableReasons are the reasons of CSVs that are not copied: copied CSVs, and CSVs without
// a valid OperatorGroup that has target namespaces.
var uncopiableReasons = []string{
	v1alpha1.CSVReasonCopied, v1alpha1.CSVReasonInvalidInstallModes, v1alpha1.CSVReasonNoTargetNamespaces,
	v1alpha1.CSVReasonUnsupportedOperatorGroup, v1alpha1.CSVReasonNoOperatorGroup, v1alpha1.CSVReasonTooManyOperatorGroups,
	v1alpha1.CSVReasonInterOperatorGroupOwnerConflict, v1alpha1.CSVReasonCannotModifyStaticOperatorGroupAPIs,
}

// IsUncopiable reports whether a CSV must not be copied.
func IsUncopiable(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Phase == v1alpha1.CSVPhaseNone || slices.Contains(uncopiableReasons, csv.Status.Reason)
}

// IsObsolete reports whether a CSV is being or was replaced by another.
func IsObsolete(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Reason == v1alpha1.CSVReasonReplaced || csv.Status.Reason == v1alpha1.CSVReasonBeingReplaced
}
