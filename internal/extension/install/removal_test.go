package install_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// TestRemovalIsNotHeldByTidying deletes an extension while ClusterObjectSets of others name
// no bundle, or nonsense, and while the cache of bundles cannot be tidied.
func TestRemovalIsNotHeldByTidying(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("tidying")
	w.createCatalog("tidied", "1.0.0")
	w.createCatalog("stays", "1.0.0")
	for name, annotations := range map[string]map[string]string{
		"foreign-without-bundle": nil,
		"foreign-with-empty":     {olmv1.AnnotationBundleReference: ""},
	} {
		w.CreateForTest(&olmv1.ClusterObjectSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec: olmv1.ClusterObjectSetSpec{
				LifecycleState: olmv1.LifecycleStateActive, Revision: 1, CollisionProtection: olmv1.CollisionProtectionPrevent,
			},
		})
	}

	w.CreateForTest(newExtension("stays", "tidying"))
	w.waitForRevision("stays-1")
	w.CreateForTest(newExtension("tidied", "tidying"))
	w.markSucceeded(w.waitForRevision("tidied-1"))
	w.expectCondition("tidied", olmv1.TypeInstalled, "True")
	// Neither does one with the labels of another extension that states that it requires this one.
	w.CreateForTest(&olmv1.ClusterObjectSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "foreign-dependent", Labels: map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: "stays"},
			Annotations: map[string]string{
				olmv1.AnnotationPackageName: "needy", olmv1.AnnotationBundleName: "needy.v1.0.0", olmv1.AnnotationBundleVersion: "1.0.0",
				olmv1.AnnotationRequires: `[{"type":"olm.package.required","value":{"packageName":"hello-operator","versionRange":">=1.0.0"}}]`,
			},
		},
		Spec: olmv1.ClusterObjectSetSpec{
			LifecycleState: olmv1.LifecycleStateActive, Revision: 7, CollisionProtection: olmv1.CollisionProtectionPrevent,
		},
	})

	w.mu.Lock()
	w.keepErr = errors.New("the disk is full")
	w.mu.Unlock()

	w.deleteAndWait("tidied")

	w.mu.Lock()
	defer w.mu.Unlock()
	want := [][]string{{"quay.io/example/hello:1.0.0" + digest}}
	if diff := cmp.Diff(want, w.kept); diff != "" {
		t.Errorf("bundles in use (-want +got):\n%s", diff)
	}
}
