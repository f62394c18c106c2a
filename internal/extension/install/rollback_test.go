package install_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
)

// startUpdate installs version 1.0.0 of an extension, and starts an update to 1.1.0.
func (w *fixture) startUpdate(name string, change func(*olmv1.ClusterExtension)) (catalog *olmv1.ClusterCatalog, second *olmv1.ClusterObjectSet) {
	w.T.Helper()
	w.createNamespace(name)
	catalog = w.createCatalog(name, "1.0.0")
	ext := newExtension(name, name)
	ext.Spec.ProgressDeadlineMinutes = ptr.To[int32](10)
	if change != nil {
		change(ext)
	}

	w.CreateForTest(ext)
	w.markSucceeded(w.waitForRevision(name + "-1"))
	w.expectCondition(name, olmv1.TypeInstalled, "True Succeeded")
	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")

	return catalog, w.waitForRevision(name + "-2")
}

func rollBackOnDeadline(ext *olmv1.ClusterExtension) {
	ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Rollback: &olmv1.RollbackConfig{Policy: olmv1.RollbackPolicyOnDeadline}}
}

const tooLate = "Revision has not rolled out for 10 minute(s). Last status: it waits"

// markLate simulates a rollout that is not complete by its deadline.
func (w *fixture) markLate(set *olmv1.ClusterObjectSet) {
	w.T.Helper()
	before := set.DeepCopy()
	meta.SetStatusCondition(&set.Status.Conditions, metav1.Condition{
		Type: olmv1.TypeProgressing, Status: metav1.ConditionFalse, Reason: olmv1.ReasonProgressDeadlineExceeded, Message: tooLate,
		ObservedGeneration: set.Generation,
	})
	w.Must(w.Status().Patch(w.T.Context(), set, client.MergeFrom(before)))
}

// waitForLifecycleState waits until a revision has a lifecycle state.
func (w *fixture) waitForLifecycleState(name string, state olmv1.LifecycleState) *olmv1.ClusterObjectSet {
	w.T.Helper()
	set := &olmv1.ClusterObjectSet{}
	w.Eventually(fmt.Sprintf("revision %s is %s", name, state), func() error {
		if err := w.Get(w.T.Context(), client.ObjectKey{Name: name}, set); err != nil {
			return err
		}
		if set.Spec.LifecycleState != state {
			return fmt.Errorf("got state %s", set.Spec.LifecycleState)
		}
		return nil
	})

	return set
}

// expectNoRevision fails if a revision exists.
func (w *fixture) expectNoRevision(name string) {
	w.T.Helper()
	if err := w.Get(w.T.Context(), client.ObjectKey{Name: name}, &olmv1.ClusterObjectSet{}); client.IgnoreNotFound(err) != nil || err == nil {
		w.T.Errorf("revision %s exists (error %v)", name, err)
	}
}

func TestRollsBackByItself(t *testing.T) {
	w := newFixture(t)
	catalog, second := w.startUpdate("by-itself", rollBackOnDeadline)
	w.markLate(second)
	second = w.waitForLifecycleState("by-itself-2", olmv1.LifecycleStateArchived)
	if got := second.Annotations[olmv1.AnnotationFailure]; got != tooLate {
		t.Errorf("got the failure %q of the revision", got)
	}

	const refused = `False ProgressDeadlineExceeded the update to bundle "hello-operator.v1.1.0" was abandoned, and bundle "hello-operator.v1.0.0" stays installed; ` +
		"it is tried again when the spec changes, and another bundle as soon as the catalogs offer it: " + tooLate
	w.expectCondition("by-itself", olmv1.TypeProgressing, refused)
	w.expectCondition("by-itself", olmv1.TypeInstalled, "True Succeeded Installed bundle quay.io/example/hello:1.0.0")
	if active := w.getExtension("by-itself").Status.ActiveRevisions; len(active) != 1 || active[0].Name != "by-itself-1" {
		t.Errorf("got the active revisions %+v", active)
	}

	// An unrelated change of the catalog does not trigger a retry. A change of the spec does.
	w.setCatalogVersions(catalog, "1.0.0", "1.1.0")
	w.expectCondition("by-itself", olmv1.TypeProgressing, refused)
	w.expectNoRevision("by-itself-3")
	ext := w.getExtension("by-itself")
	w.PatchObject(ext, func() { ext.Spec.ProgressDeadlineMinutes = ptr.To[int32](20) })
	third := w.waitForRevision("by-itself-3")
	if third.Annotations[olmv1.AnnotationBundleVersion] != "1.1.0" || *third.Spec.ProgressDeadlineMinutes != 20 {
		t.Errorf("got version %s of the third revision", third.Annotations[olmv1.AnnotationBundleVersion])
	}

	w.markLate(third)
	w.waitForLifecycleState("by-itself-3", olmv1.LifecycleStateArchived)
	w.expectCondition("by-itself", olmv1.TypeProgressing, refused)
	w.waitForLifecycleState("by-itself-1", olmv1.LifecycleStateActive)
}

func TestStaysLateWithoutConsent(t *testing.T) {
	w := newFixture(t)
	for name, change := range map[string]func(*olmv1.ClusterExtension){
		"unset": nil,
		"never": func(ext *olmv1.ClusterExtension) {
			ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Rollback: &olmv1.RollbackConfig{Policy: olmv1.RollbackPolicyNever}}
		},
	} {
		_, second := w.startUpdate("late-"+name, change)
		w.markLate(second)
		w.expectCondition("late-"+name, olmv1.TypeProgressing, "False ProgressDeadlineExceeded "+tooLate)
		w.waitForLifecycleState("late-"+name+"-2", olmv1.LifecycleStateActive)
	}
}

func TestFirstInstallationHasNothingToGoBackTo(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("first")
	w.createCatalog("first", "1.0.0")
	ext := newExtension("first", "first")
	ext.Spec.ProgressDeadlineMinutes = ptr.To[int32](10)
	rollBackOnDeadline(ext)
	w.CreateForTest(ext)
	w.markLate(w.waitForRevision("first-1"))
	w.expectCondition("first", olmv1.TypeProgressing, "False ProgressDeadlineExceeded "+tooLate)
	w.waitForLifecycleState("first-1", olmv1.LifecycleStateActive)
}

// A longer deadline extends the time of a late rollout.
func TestALongerDeadlineIsAnotherChance(t *testing.T) {
	w := newFixture(t)
	_, second := w.startUpdate("patient", nil)
	w.markLate(second)
	w.expectCondition("patient", olmv1.TypeProgressing, "False ProgressDeadlineExceeded")
	ext := w.getExtension("patient")
	w.PatchObject(ext, func() {
		rollBackOnDeadline(ext)
		ext.Spec.ProgressDeadlineMinutes = ptr.To[int32](60)
	})
	w.Eventually("the revision has the deadline", func() error {
		if minutes := *w.waitForRevision("patient-2").Spec.ProgressDeadlineMinutes; minutes != 60 {
			return fmt.Errorf("got %d minutes", minutes)
		}
		return nil
	})

	w.waitForLifecycleState("patient-2", olmv1.LifecycleStateActive)
}

// Requesting the bundle of the revision that is still active archives the unfinished
// update, and creates no third revision.
func TestGoingBackToWhatIsInPlace(t *testing.T) {
	w := newFixture(t)
	w.startUpdate("back", nil)
	ext := w.getExtension("back")
	w.PatchObject(ext, func() {
		ext.Spec.Source.Catalog.Version = "1.0.0"
		ext.Spec.Source.Catalog.UpgradeConstraintPolicy = olmv1.UpgradeConstraintPolicySelfCertified
	})
	second := w.waitForLifecycleState("back-2", olmv1.LifecycleStateArchived)
	if second.Annotations[olmv1.AnnotationFailure] == "" || second.Annotations[olmv1.AnnotationRefusedGeneration] != "" {
		t.Errorf("got the annotations %v of the archived revision", second.Annotations)
	}

	w.expectCondition("back", olmv1.TypeProgressing, "True Succeeded desired state reached")
	w.waitForLifecycleState("back-1", olmv1.LifecycleStateActive)
	w.expectNoRevision("back-3")

	// Following the catalog again tries the update again.
	ext = w.getExtension("back")
	w.PatchObject(ext, func() { ext.Spec.Source.Catalog.Version = "" })
	if third := w.waitForRevision("back-3"); third.Annotations[olmv1.AnnotationBundleVersion] != "1.1.0" {
		t.Errorf("got version %s of the third revision", third.Annotations[olmv1.AnnotationBundleVersion])
	}
}

// The same if another version of the program created the revision, so that its inputs
// differ but not its objects.
func TestGoingBackToWhatIsInPlaceByItsContent(t *testing.T) {
	w := newFixture(t)
	w.startUpdate("content", nil)
	first := w.waitForRevision("content-1")
	w.PatchObject(first, func() { first.Annotations["mainstay.dev/inputs"] = "sha256:of-another-program" })
	ext := w.getExtension("content")
	w.PatchObject(ext, func() {
		ext.Spec.Source.Catalog.Version = "1.0.0"
		ext.Spec.Source.Catalog.UpgradeConstraintPolicy = olmv1.UpgradeConstraintPolicySelfCertified
	})
	w.waitForLifecycleState("content-2", olmv1.LifecycleStateArchived)
	w.expectCondition("content", olmv1.TypeProgressing, "True Succeeded desired state reached")
	w.expectNoRevision("content-3")
}

// checker is a preflight that rejects changes of CRDs while it is set to.
type checker struct{ refuse chan bool }

func (c checker) Check(_ context.Context, _ *olmv1.ClusterExtension, change preflight.Change) error {
	refuse := <-c.refuse
	c.refuse <- refuse
	for i := range change.Written {
		if refuse && change.Written[i].GetKind() == "CustomResourceDefinition" {
			return errors.New("a field would be lost")
		}
	}
	return nil
}

// setRefusing sets whether the checker refuses changes.
func (c checker) setRefusing(refuse bool) {
	<-c.refuse
	c.refuse <- refuse
}

// A rollback is checked like an update, so that no data is lost.
func TestGoingBackIsChecked(t *testing.T) {
	check := checker{refuse: make(chan bool, 1)}
	check.refuse <- false
	w := newFixture(t, func(c *install.Controller) { c.Preflight = check })
	_, second := w.startUpdate("checked", rollBackOnDeadline)
	check.setRefusing(true)
	w.markLate(second)
	w.expectCondition("checked", olmv1.TypeProgressing, `False ProgressDeadlineExceeded the update to bundle "hello-operator.v1.1.0" is late, but cannot be abandoned: a field would be lost`)
	w.waitForLifecycleState("checked-2", olmv1.LifecycleStateActive)
	check.setRefusing(false)
	w.waitForLifecycleState("checked-2", olmv1.LifecycleStateArchived)
}

func TestAccessRolesArePartOfTheRevision(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("access")
	w.createCatalog("access", "1.0.0")
	w.CreateForTest(newExtension("access", "access"))
	w.markSucceeded(w.waitForRevision("access-1"))
	ext := w.getExtension("access")
	w.PatchObject(ext, func() {
		ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{AccessRoles: olmv1.AccessRolesAggregated}
	})
	found := map[string]bool{}
	for _, phase := range w.waitForRevision("access-2").Spec.Phases {
		for _, object := range phase.Objects {
			found[object.Object.GetKind()+" "+object.Object.GetName()] = true
		}
	}

	for _, role := range []string{"view", "edit", "admin"} {
		if !found["ClusterRole hello-operator."+role] {
			t.Errorf("the role %s is not among the objects: %v", role, found)
		}
	}

	ext = w.getExtension("access")
	w.PatchObject(ext, func() { ext.Spec.Install.AccessRoles = olmv1.AccessRolesNone })
	w.waitForLifecycleState("access-2", olmv1.LifecycleStateArchived)
}
