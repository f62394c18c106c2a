package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictRetryInterval is the retry interval after a conflict, which means that the cache is
// stale. Mostly the watch delivers the change sooner, and enqueues the object by itself.
const conflictRetryInterval = time.Second

// PatchStatus patches the status of an object if the object differs from what it was before. The
// resource version is a precondition: it protects the status against a second controller that
// still believes it is the leader. An object that does not exist any more is no error.
func PatchStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	if isEqual(obj, before) {
		return nil
	}

	if before.GetResourceVersion() != obj.GetResourceVersion() { // It may be shared with a cache.
		before = before.DeepCopyObject().(client.Object)
		before.SetResourceVersion(obj.GetResourceVersion())
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, obj, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of %s: %w", describeObject(c, obj), err)
	}

	return nil
}

// PatchStatusLive does what PatchStatus does, and also patches the status if labels, annotations, finalizers or owner
// references of the object have changed since it was read. It is for statuses that do not depend on these. live reads the
// object from the API server after a conflict.
func PatchStatusLive(ctx context.Context, c client.Client, live client.Reader, obj, before client.Object) error {
	conflict := PatchStatus(ctx, c, obj, before)
	if !apierrors.IsConflict(conflict) {
		return conflict
	}

	found := before.DeepCopyObject().(client.Object)
	if err := live.Get(ctx, client.ObjectKeyFromObject(obj), found); err != nil {
		return errors.Join(conflict, client.IgnoreNotFound(err))
	}

	// A deletion changes what must be done.
	same := before.DeepCopyObject().(client.Object)
	copyMetadata(same, found)
	if found.GetUID() != before.GetUID() || !found.GetDeletionTimestamp().Equal(before.GetDeletionTimestamp()) || !isEqual(same, found) {
		return conflict
	}

	copyMetadata(obj, found)
	return PatchStatus(ctx, c, obj, found)
}

// copyMetadata sets the metadata that any client may change to that of another object, and the kind, which only objects
// of a cache have.
func copyMetadata(to, from client.Object) {
	to.GetObjectKind().SetGroupVersionKind(from.GetObjectKind().GroupVersionKind())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetManagedFields(from.GetManagedFields())
	to.SetLabels(from.GetLabels())
	to.SetAnnotations(from.GetAnnotations())
	to.SetOwnerReferences(from.GetOwnerReferences())
	to.SetFinalizers(from.GetFinalizers())
}

// IsStale reports whether a write failed because the object changed, or was created, after it was
// read. The cause is a stale cache or a concurrent writer, and the next pass sees what they wrote.
func IsStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// IgnoreStale returns nil for an error that IsStale reports and for an object that does not exist
// any more, and otherwise the error. It is for writes that the event of the concurrent change
// repeats.
func IgnoreStale(err error) error {
	if IsStale(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// RetryStale runs a function that reads an object and writes it, again after each conflict, up to
// five times.
func RetryStale(write func() error) error {
	return retry.OnError(retry.DefaultRetry, IsStale, write)
}

// toResult returns what controller-runtime needs to know of a pass that returned an interval or an
// error.
func toResult(after time.Duration, err error) (ctrl.Result, error) {
	var e *Error
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: after}, nil
	case IsStop(err):
		return ctrl.Result{}, ctrlreconcile.TerminalError(err)
	case errors.As(err, &e) && e.next == nextWait:
		return ctrl.Result{RequeueAfter: e.after}, nil
	case IsStale(err):
		return ctrl.Result{RequeueAfter: conflictRetryInterval}, nil
	default:
		return ctrl.Result{}, err
	}
}

// joinWriteError returns the error of a pass whose status could not be written. A conflict replaces
// the error of the pass, which was computed from an outdated object.
func joinWriteError(err, writing error) error {
	if IsStale(writing) {
		return writing
	}
	return errors.Join(err, writing)
}

// addFinalizers adds the finalizers that an object lacks.
func addFinalizers(ctx context.Context, c client.Client, obj client.Object, finalizers []string) error {
	before := obj.DeepCopyObject().(client.Object)
	changed := false
	for _, name := range finalizers {
		changed = controllerutil.AddFinalizer(obj, name) || changed
	}

	if !changed {
		return nil
	}

	return patchFinalizers(ctx, c, obj, before)
}

// removeFinalizers removes finalizers from an object. The object may be gone afterwards.
func removeFinalizers(ctx context.Context, c client.Client, obj client.Object, finalizers []string) error {
	if !hasAnyFinalizer(obj, finalizers) {
		return nil
	}

	before := obj.DeepCopyObject().(client.Object)
	for _, name := range finalizers {
		controllerutil.RemoveFinalizer(obj, name)
	}

	return client.IgnoreNotFound(patchFinalizers(ctx, c, obj, before))
}

// patchFinalizers patches the finalizers. The resource version is a precondition, because a merge
// patch replaces the whole list.
func patchFinalizers(ctx context.Context, c client.Client, obj, before client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, obj, patch); err != nil {
		return fmt.Errorf("updating the finalizers of %s: %w", describeObject(c, obj), err)
	}
	return nil
}

func hasAnyFinalizer(obj client.Object, finalizers []string) bool {
	for _, name := range finalizers {
		if controllerutil.ContainsFinalizer(obj, name) {
			return true
		}
	}
	return false
}

func isEqual(a, b client.Object) bool { return equality.Semantic.DeepEqual(a, b) }

// describeObject returns the kind and the name of an object.
func describeObject(c client.Client, obj client.Object) string {
	kind := "object"
	if gvk, err := c.GroupVersionKindFor(obj); err == nil {
		kind = gvk.Kind
	}
	if obj.GetNamespace() == "" {
		return fmt.Sprintf("%s %q", kind, obj.GetName())
	}
	return fmt.Sprintf("%s %s/%s", kind, obj.GetNamespace(), obj.GetName())
}
