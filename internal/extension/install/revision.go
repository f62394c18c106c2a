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

// annotationInputs is the annotation of a revision that holds the digest of its inputs. While the
// digest is the same, nothing needs to be pulled or rendered.
const annotationInputs = "mainstay.dev/inputs"

// annotationImage is the annotation of a revision that holds the image reference of its bundle as
// the catalog states it.
const annotationImage = "mainstay.dev/bundle-image"

// selection is the bundle that was chosen for an extension.
type selection struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Release is the release of the bundle. It is empty for a bundle that has only a version.
	Release string `json:"release,omitempty"`
	// Image is the image reference as the catalog states it.
	Image string `json:"image"`

	// pinned is the installed image, by digest. It is empty for a bundle that is not installed.
	pinned string
	// catalog is the name of the catalog that has the bundle. It is empty for a bundle that is
	// kept for lack of catalogs.
	catalog string
	// properties are those of the bundle in the catalog, or on the revision that is kept.
	properties []fbc.Property
}

// selectionFromRevision returns the bundle of a revision as the selection to keep.
func selectionFromRevision(set *olmv1.ClusterObjectSet) selection {
	return selection{
		Name: set.Annotations[olmv1.AnnotationBundleName], Version: set.Annotations[olmv1.AnnotationBundleVersion],
		Release: set.Annotations[olmv1.AnnotationBundleRelease],
		Image:   cmp.Or(set.Annotations[annotationImage], set.Annotations[olmv1.AnnotationBundleReference]),
		pinned:  set.Annotations[olmv1.AnnotationBundleReference], properties: recordedProperties(set),
	}
}

// pinnedToInstalled returns the selection with the image that is installed, if it is the installed
// bundle. Bundles are immutable: an image that a catalog later lists under the same name and
// version is ignored.
func (s selection) pinnedToInstalled(installed *olmv1.ClusterObjectSet) selection {
	if !holdsBundle(installed, s) || installed.Annotations[annotationImage] == "" {
		return s
	}
	s.Image = installed.Annotations[annotationImage]
	s.pinned = installed.Annotations[olmv1.AnnotationBundleReference]
	return s
}

// holdsBundle reports whether a revision holds the bundle.
func holdsBundle(set *olmv1.ClusterObjectSet, chosen selection) bool {
	b := bundleMetadata(set)
	return b != nil && b.Name == chosen.Name && b.Version == chosen.Version && b.Release == chosen.Release
}

// digestRevisionInputs returns the digest of everything that determines the objects of a revision:
// the chosen bundle, the fields of the extension that rendering reads, the issuer of certificates,
// and the version of the program.
func digestRevisionInputs(ext *olmv1.ClusterExtension, chosen selection, issuer render.Issuer, program string) string {
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
		Program: program, Bundle: chosen, Namespace: ext.Spec.Namespace, ServiceAccount: serviceAccountName(ext),
		Watch: ext.Annotations[olmv1.AnnotationWatchNamespace], Config: ext.Spec.Config, Issuer: issuer,
		AccessRoles: wantsAccessRoles(ext),
	})

	sum := sha256.Sum256(encoded)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// newClusterObjectSet returns the ClusterObjectSet for a bundle, without its phases.
func newClusterObjectSet(ext *olmv1.ClusterExtension, number int64, annotations map[string]string) *olmv1.ClusterObjectSet {
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
			// The rollout controller would add it first.
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

// newRevisionAnnotations returns the annotations of a revision: its bundle, what the bundle
// provides and requires, its service account, and the digest of its inputs.
func newRevisionAnnotations(ext *olmv1.ClusterExtension, chosen selection, seen *dependency.Bundle, canonical, inputs string) (map[string]string, error) {
	result, err := dependencyAnnotations(seen)
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
	if name := serviceAccountName(ext); name != "" {
		result[olmv1.AnnotationServiceAccountName] = name
		result[olmv1.AnnotationServiceAccountNamespace] = ext.Spec.Namespace
	}

	return result, nil
}

// hasSameContent reports whether a revision already has the wanted phases and service account, so
// that only its annotations differ.
func hasSameContent(set *olmv1.ClusterObjectSet, wanted *olmv1.ClusterObjectSet) bool {
	return equality.Semantic.DeepEqual(set.Spec.Phases, wanted.Spec.Phases) &&
		set.Annotations[olmv1.AnnotationServiceAccountName] == wanted.Annotations[olmv1.AnnotationServiceAccountName] &&
		set.Annotations[olmv1.AnnotationServiceAccountNamespace] == wanted.Annotations[olmv1.AnnotationServiceAccountNamespace]
}

// effectiveExtension returns the extension as this installation interprets it. If service accounts
// are ignored, the result has none.
func (c *Controller) effectiveExtension(ext *olmv1.ClusterExtension) *olmv1.ClusterExtension {
	if !c.IgnoreServiceAccount || ext.Spec.ServiceAccount == nil {
		return ext
	}
	effective := ext.DeepCopy()
	effective.Spec.ServiceAccount = nil
	return effective
}

func serviceAccountName(ext *olmv1.ClusterExtension) string {
	if ext.Spec.ServiceAccount == nil {
		return ""
	}
	return ext.Spec.ServiceAccount.Name
}

// wantsAccessRoles reports whether roles are created for the users of the bundle's APIs.
func wantsAccessRoles(ext *olmv1.ClusterExtension) bool {
	return ext.Spec.Install != nil && ext.Spec.Install.AccessRoles == olmv1.AccessRolesAggregated
}
