package install

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// annotationInputs, on a revision, is a digest of all that its objects follow from.
// While it is the same nothing needs to be pulled or rendered.
const annotationInputs = "mainstay.dev/inputs"

// annotationImage, on a revision, is the image of its bundle as the catalog gave it.
const annotationImage = "mainstay.dev/bundle-image"

// selection is the bundle that was chosen for an extension.
type selection struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Release of the bundle; empty for one that has none beside its version.
	Release string `json:"release,omitempty"`
	// Image is the reference as the catalog gives it.
	Image string `json:"image"`

	// pinned is the image with digest that is installed already; empty for a bundle that
	// is not.
	pinned string
	// catalog that it was chosen from; empty for a bundle that is kept for lack of catalogs.
	catalog string
	// properties as they stand in that catalog, or on the revision that is kept.
	properties []fbc.Property
}

// selectionOf returns the bundle of a revision as the selection to keep.
func selectionOf(set *olmv1.ClusterObjectSet) selection {
	return selection{
		Name: set.Annotations[olmv1.AnnotationBundleName], Version: set.Annotations[olmv1.AnnotationBundleVersion],
		Release: set.Annotations[olmv1.AnnotationBundleRelease],
		Image:   cmp.Or(set.Annotations[annotationImage], set.Annotations[olmv1.AnnotationBundleReference]),
		pinned:  set.Annotations[olmv1.AnnotationBundleReference], properties: recordedProperties(set),
	}
}

// asInstalled is the selection as it is installed, if it is: bundles do not change, and an
// image that a catalog later gives under the same name and version is not looked at.
func (s selection) asInstalled(installed *olmv1.ClusterObjectSet) selection {
	if !holds(installed, s) || installed.Annotations[annotationImage] == "" {
		return s
	}
	s.Image = installed.Annotations[annotationImage]
	s.pinned = installed.Annotations[olmv1.AnnotationBundleReference]
	return s
}

// holds reports whether a revision holds the bundle.
func holds(set *olmv1.ClusterObjectSet, chosen selection) bool {
	b := bundleOf(set)
	return b != nil && b.Name == chosen.Name && b.Version == chosen.Version && b.Release == chosen.Release
}

// inputs digests all that the objects of a revision follow from: the chosen bundle,
// the parts of the extension's spec that rendering reads, who issues certificates, and
// the version of the program that renders.
func inputs(ext *olmv1.ClusterExtension, chosen selection, issuer render.Issuer, program string) string {
	encoded, _ := json.Marshal(struct { // plain values always encode
		Program        string
		Bundle         selection
		Namespace      string
		ServiceAccount string
		Watch          string
		Config         *olmv1.ClusterExtensionConfig
		Issuer         render.Issuer `json:",omitempty"`
		AccessRoles    bool          `json:",omitempty"`
	}{
		Program: program, Bundle: chosen, Namespace: ext.Spec.Namespace, ServiceAccount: accountName(ext),
		Watch: ext.Annotations[olmv1.AnnotationWatchNamespace], Config: ext.Spec.Config, Issuer: issuer,
		AccessRoles: wantsAccessRoles(ext),
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
			// Who rolls it out would set it first of all.
			Finalizers: []string{olmv1.FinalizerTeardown},
		},
		Spec: olmv1.ClusterObjectSetSpec{
			LifecycleState:          olmv1.LifecycleStateActive,
			Revision:                number,
			CollisionProtection:     olmv1.CollisionProtectionPrevent,
			ProgressDeadlineMinutes: ext.Spec.ProgressDeadlineMinutes,
		},
	}
}

// annotationsFor returns the annotations of a revision: which bundle it holds, what that
// provides and needs, as whom it is written, and what it follows from.
func annotationsFor(ext *olmv1.ClusterExtension, chosen selection, seen *dependency.Bundle, canonical, inputs string) (map[string]string, error) {
	result, err := record(seen)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, err)
	}

	result[olmv1.AnnotationPackageName] = ext.Spec.Source.Catalog.PackageName
	result[olmv1.AnnotationBundleName] = chosen.Name
	result[olmv1.AnnotationBundleVersion] = chosen.Version
	result[olmv1.AnnotationBundleReference] = canonical
	result[annotationImage] = chosen.Image
	result[annotationInputs] = inputs
	if chosen.Release != "" {
		result[olmv1.AnnotationBundleRelease] = chosen.Release
	}
	if name := accountName(ext); name != "" {
		result[olmv1.AnnotationServiceAccountName] = name
		result[olmv1.AnnotationServiceAccountNamespace] = ext.Spec.Namespace
	}

	return result, nil
}

// sameContent reports whether a revision already holds the phases and is written as
// the same account, so that only its annotations differ.
func sameContent(set *olmv1.ClusterObjectSet, wanted *olmv1.ClusterObjectSet) bool {
	return equality.Semantic.DeepEqual(set.Spec.Phases, wanted.Spec.Phases) &&
		set.Annotations[olmv1.AnnotationServiceAccountName] == wanted.Annotations[olmv1.AnnotationServiceAccountName] &&
		set.Annotations[olmv1.AnnotationServiceAccountNamespace] == wanted.Annotations[olmv1.AnnotationServiceAccountNamespace]
}

// honored returns the extension as this installation understands it: where service accounts
// are ignored, without its own.
func (c *Controller) honored(ext *olmv1.ClusterExtension) *olmv1.ClusterExtension {
	if !c.IgnoreServiceAccount || ext.Spec.ServiceAccount == nil {
		return ext
	}
	understood := ext.DeepCopy()
	understood.Spec.ServiceAccount = nil
	return understood
}

func accountName(ext *olmv1.ClusterExtension) string {
	if ext.Spec.ServiceAccount == nil {
		return ""
	}
	return ext.Spec.ServiceAccount.Name
}

// wantsAccessRoles reports whether users of the bundle's APIs get roles.
func wantsAccessRoles(ext *olmv1.ClusterExtension) bool {
	return ext.Spec.Install != nil && ext.Spec.Install.AccessRoles == olmv1.AccessRolesAggregated
}
