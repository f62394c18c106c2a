package migration

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
)

// maxPatchAttempts limits how often the metadata of an object is patched while other clients change
// the object.
const maxPatchAttempts = 10

// newMetadata returns an object whose metadata alone is read.
func newMetadata(object plan.Object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(object.Reference().GroupVersionKind())
	m.Namespace, m.Name = object.Namespace, object.Name
	return m
}

// patchMetadata changes the metadata of an object, unless it does not exist. edit reports whether it
// changed anything. patchMetadata reports whether it wrote.
func patchMetadata(ctx context.Context, c client.Client, object plan.Object, edit func(*metav1.PartialObjectMetadata) (bool, error)) (bool, error) {
	var err error
	for range maxPatchAttempts {
		live := newMetadata(object)
		ok, readErr := getOptional(ctx, c, client.ObjectKeyFromObject(live), live)
		if readErr != nil || !ok {
			return false, readErr
		}

		before := live.DeepCopy()
		changed, editErr := edit(live)
		if editErr != nil || !changed {
			return false, editErr
		}

		err = c.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err == nil || apierrors.IsNotFound(err) {
			return err == nil, nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}

	return false, fmt.Errorf("patching the metadata of %s %s: %w", object.Kind, client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, err)
}

// setValues sets the values in a map, which may be nil. It reports whether the map changed.
func setValues(values *map[string]string, wanted map[string]string) bool {
	changed := false
	for key, value := range wanted {
		if got, ok := (*values)[key]; ok && got == value {
			continue
		}
		if *values == nil {
			*values = map[string]string{}
		}
		(*values)[key] = value
		changed = true
	}
	return changed
}
