package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// rollBack returns up an update that is late, where the extension asks for that: what was
// installed before is kept, and takes back what the update had taken over. A first
// installation has nothing to go back to, and stays late.
func (a *attempt) rollBack(ctx context.Context, ext *olmv1.ClusterExtension) error {
	installed, newest := a.revs.installed(), a.revs.newest()
	if installed == nil || rollbackPolicy(ext) != olmv1.RollbackPolicyOnDeadline || !isLate(newest, ext) {
		return nil
	}

	err := a.giveBack(ctx, ext, installed, ext.Generation)
	if apierrors.IsConflict(err) {
		return nil // it changed meanwhile, and perhaps became complete: the change wakes this controller
	}
	if err != nil {
		return reconcile.Wait(olmv1.ReasonProgressDeadlineExceeded, recheck, fmt.Errorf(
			"the update to bundle %q is late, but cannot be given up: %w", bundleOf(newest).Name, err))
	}

	return nil
}

func rollbackPolicy(ext *olmv1.ClusterExtension) olmv1.RollbackPolicy {
	if ext.Spec.Install == nil || ext.Spec.Install.Rollback == nil {
		return olmv1.RollbackPolicyNever
	}
	return ext.Spec.Install.Rollback.Policy
}

// isLate reports whether a revision was not complete by the deadline that holds now. One
// that was given another deadline is judged anew first.
func isLate(set *olmv1.ClusterObjectSet, ext *olmv1.ClusterExtension) bool {
	c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	return !hasSucceeded(set) && c != nil && c.Status == metav1.ConditionFalse && c.Reason == olmv1.ReasonProgressDeadlineExceeded &&
		c.ObservedGeneration == set.Generation && ptr.Equal(set.Spec.ProgressDeadlineMinutes, ext.Spec.ProgressDeadlineMinutes)
}

// checkRefused stops when what is wanted was given up before, for the same spec.
func (a *attempt) checkRefused(ext *olmv1.ClusterExtension, wanted string) error {
	refused, installed := a.revs.refused(wanted, ext.Generation), a.revs.installed()
	if refused == nil || installed == nil {
		return nil
	}
	return reconcile.Stop(olmv1.ReasonProgressDeadlineExceeded, fmt.Errorf(
		"the update to bundle %q was given up, and bundle %q stays installed; it is tried again when the spec changes, and another bundle as soon as the catalogs offer it: %s",
		bundleOf(refused).Name, bundleOf(installed).Name, refused.Annotations[olmv1.AnnotationFailure]))
}

// giveBack archives the active revisions after one that is still in place, which becomes
// the newest by that. It does nothing when there are none. What going back writes and
// removes is checked first, as for an update. With a generation they are refused for that.
func (a *attempt) giveBack(ctx context.Context, ext *olmv1.ClusterExtension, to *olmv1.ClusterObjectSet, refusedFor int64) error {
	after := a.revs.activeAfter(to)
	if len(after) == 0 {
		return nil
	}

	objects, err := a.objects(ctx, to)
	if err != nil {
		return err
	}
	if err := a.preflight(ctx, ext, objects); err != nil {
		return err
	}

	for _, set := range slices.Backward(after) {
		if err := a.archive(ctx, set, refusedFor); err != nil {
			return err
		}
	}

	return nil
}

// objects reads what a revision holds.
func (a *attempt) objects(ctx context.Context, set *olmv1.ClusterObjectSet) ([]unstructured.Unstructured, error) {
	content, err := apply.Load(ctx, a.Reader, set, a.SystemNamespace)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading what revision %q holds: %w", set.Name, err)
	case len(content.Missing) > 0:
		return nil, fmt.Errorf("objects of revision %q are missing, as there is no Secret %s", set.Name, strings.Join(content.Missing, ", "))
	case len(content.Malformed) > 0:
		return nil, fmt.Errorf("revision %q: %w", set.Name, errors.Join(content.Malformed...))
	}

	var objects []unstructured.Unstructured
	for _, phase := range content.Phases {
		for _, object := range phase.Objects {
			objects = append(objects, *object.Manifest)
		}
	}

	return objects, nil
}

// archive archives a revision, here and on the cluster. One that never was complete keeps
// a note of what it failed with: the condition that says so changes now. With a generation
// other than zero the same is not tried again for that.
func (a *attempt) archive(ctx context.Context, set *olmv1.ClusterObjectSet, refusedFor int64) error {
	patch := client.MergeFrom(set.DeepCopy())
	archived := set.DeepCopy()
	archived.Spec.LifecycleState = olmv1.LifecycleStateArchived
	if !hasSucceeded(set) {
		metav1.SetMetaDataAnnotation(&archived.ObjectMeta, olmv1.AnnotationFailure, failure(set))
	}

	if refusedFor != 0 {
		metav1.SetMetaDataAnnotation(&archived.ObjectMeta, olmv1.AnnotationRefusedGeneration, strconv.FormatInt(refusedFor, 10))
		// The lock keeps one from being given up as late that has just become complete.
		patch = client.MergeFromWithOptions(set.DeepCopy(), client.MergeFromWithOptimisticLock{})
	}

	if err := a.Client.Patch(ctx, archived, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("archiving revision %q: %w", set.Name, err)
	}

	*set = *archived
	return nil
}

// failure is what a revision that is not complete says of itself.
func failure(set *olmv1.ClusterObjectSet) string {
	message := ""
	if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing); c != nil {
		message = c.Message
	}
	return cmp.Or(message, "it was given up before it was rolled out completely")
}
