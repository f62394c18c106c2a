package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// annotationInputs, on a revision, is a digest of all that its objects follow from.
// While it is the same nothing needs to be pulled or rendered.
const annotationInputs = "mainstay.dev/inputs"

// selection is the bundle that was chosen for an extension.
type selection struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Image is the reference as the catalog gives it.
	Image string `json:"image"`
}

// inputs digests all that the objects of a revision follow from: the chosen bundle,
// the parts of the extension's spec that rendering reads, and the version of the
// program that renders.
func inputs(ext *olmv1.ClusterExtension, chosen selection, program string) string {
	encoded, _ := json.Marshal(struct { // plain values always encode
		Program        string
		Bundle         selection
		Namespace      string
		ServiceAccount string
		Watch          string
		Config         *olmv1.ClusterExtensionConfig
	}{
		Program: program, Bundle: chosen, Namespace: ext.Spec.Namespace, ServiceAccount: accountName(ext),
		Watch: ext.Annotations[olmv1.AnnotationWatchNamespace], Config: ext.Spec.Config,
	})
	sum := sha256.Sum256(encoded)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// revision makes the ClusterObjectSet for a bundle, without its phases.
func revision(ext *olmv1.ClusterExtension, number int64, annotations map[string]string) *olmv1.ClusterObjectSet {
	controller := true
	return &olmv1.ClusterObjectSet{
		TypeMeta: metav1.TypeMeta{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", ext.Name, number),
			Labels: map[string]string{
				olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind,
				olmv1.LabelOwnerName: ext.Name,
			},
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterExtensionKind,
				Name: ext.Name, UID: ext.UID, Controller: &controller, BlockOwnerDeletion: &controller,
			}},
		},
		Spec: olmv1.ClusterObjectSetSpec{
			LifecycleState:          olmv1.LifecycleStateActive,
			Revision:                number,
			CollisionProtection:     olmv1.CollisionProtectionPrevent,
			ProgressDeadlineMinutes: ext.Spec.ProgressDeadlineMinutes,
		},
	}
}

// annotationsFor gives the annotations of a revision: which bundle it holds, as whom
// it is written, and what it follows from.
func annotationsFor(ext *olmv1.ClusterExtension, chosen selection, canonical, inputs string) map[string]string {
	result := map[string]string{
		olmv1.AnnotationPackageName:     ext.Spec.Source.Catalog.PackageName,
		olmv1.AnnotationBundleName:      chosen.Name,
		olmv1.AnnotationBundleVersion:   chosen.Version,
		olmv1.AnnotationBundleReference: canonical,
		annotationInputs:                inputs,
	}
	if name := accountName(ext); name != "" {
		result[olmv1.AnnotationServiceAccountName] = name
		result[olmv1.AnnotationServiceAccountNamespace] = ext.Spec.Namespace
	}
	return result
}

// sameContent tells whether a revision already holds the phases and is written as
// the same account, so that only its annotations differ.
func sameContent(set *olmv1.ClusterObjectSet, wanted *olmv1.ClusterObjectSet) bool {
	return equality.Semantic.DeepEqual(set.Spec.Phases, wanted.Spec.Phases) &&
		set.Annotations[olmv1.AnnotationServiceAccountName] == wanted.Annotations[olmv1.AnnotationServiceAccountName] &&
		set.Annotations[olmv1.AnnotationServiceAccountNamespace] == wanted.Annotations[olmv1.AnnotationServiceAccountNamespace]
}

func accountName(ext *olmv1.ClusterExtension) string {
	if ext.Spec.ServiceAccount == nil {
		return ""
	}
	return ext.Spec.ServiceAccount.Name
}

// holdsReferences tells whether objects of a revision stand in Secrets.
func holdsReferences(set *olmv1.ClusterObjectSet) bool {
	return slices.ContainsFunc(set.Spec.Phases, func(phase olmv1.ClusterObjectSetPhase) bool {
		return slices.ContainsFunc(phase.Objects, func(object olmv1.ClusterObjectSetObject) bool { return object.Ref != nil })
	})
}
