package worker

import (
	"context"
	"crypto/sha256"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/apply/memory"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker/merge"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// fieldManager is the name of the field manager in all writes.
const fieldManager = "mainstay"

// objectApplier creates and updates the objects of a pass.
type objectApplier struct {
	client  client.Client
	clock   clock.Clock
	applied *appliedMemory
	// owner is the controller of the objects. Without a UID they get none.
	owner metav1.OwnerReference
	mode  release.Mode
	// snapshot has the objects that exist, and environment the values to inject.
	snapshot    *objectSnapshot
	environment environment
}

// ensureObject creates or updates the object of a manifest and waits until it is healthy.
func (a *objectApplier) ensureObject(ctx context.Context, it *item) error {
	wanted, desiredDigest, err := a.desiredObject(it)
	if err != nil {
		return err
	}

	found, exists, known := a.snapshot.findObject(it)
	mustBeHealthy := a.mode != release.Initializing
	if healthy, ok := a.applied.Recall(found, desiredDigest); exists && ok && (healthy || !mustBeHealthy) {
		return nil
	}

	// In a new cluster, an object is assumed to be absent until its creation shows otherwise.
	absent := !exists && (known || a.mode == release.Initializing)
	var live *unstructured.Unstructured
	err = reconcile.RetryStale(func() error {
		var err error
		live, err = a.createOrUpdateObject(ctx, it, wanted, desiredDigest, absent)
		absent = false
		return err
	})
	if err != nil {
		return err
	}

	if !it.createOnly {
		if live, err = a.awaitHealthyObject(ctx, it, live); err != nil {
			return err
		}
	}

	a.applied.Record(versionOf(live), desiredDigest, digestContent(live), mustBeHealthy)
	return nil
}

// createOrUpdateObject reads the object, unless it is assumed to be absent, and writes it if it
// differs from the desired object. It returns the object as it is afterwards.
func (a *objectApplier) createOrUpdateObject(ctx context.Context, it *item, wanted *unstructured.Unstructured, desiredDigest memory.Digest, absent bool) (*unstructured.Unstructured, error) {
	if absent {
		return a.createObject(ctx, it, wanted)
	}

	live := newEmptyObject(it)
	err := a.client.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	if apierrors.IsNotFound(err) {
		return a.createObject(ctx, it, wanted)
	}
	if err != nil || it.createOnly {
		return live, err
	}

	merged, differs := merge.Merge(live, wanted)
	if !differs || a.applied.IsUnchanged(versionOf(live), desiredDigest, func() memory.Digest { return digestContent(live) }) {
		return live, nil
	}

	written, err := a.updateObject(ctx, it, live, merged)
	if field := immutableField(err); field != "" {
		return a.recreateBinding(ctx, it, live, merged, field, err)
	}

	return written, err
}

// updateObject writes the merged object, unless that would not change it.
func (a *objectApplier) updateObject(ctx context.Context, it *item, live, merged *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if a.mode == release.Reconciling || merge.IsCovered(merged.Object, live.Object) {
		// The difference is likely a default that the manifest does not state. A dry run shows
		// whether a write would change anything.
		if same, err := a.isUpdateNoOp(ctx, live, merged); same || err != nil {
			return live, err
		}
	}

	merged = merged.DeepCopy()
	if err := a.client.Update(ctx, merged, client.FieldOwner(fieldManager)); err != nil {
		return nil, err
	}
	if merged.GetResourceVersion() != live.GetResourceVersion() {
		log.FromContext(ctx).Info("updated an object", "kind", it.key.Kind, "group", it.key.Group, "namespace", it.key.Namespace, "name", it.key.Name)
	}

	return merged, nil
}

// isUpdateNoOp reports, by a dry run, whether writing the merged object would leave it
// unchanged. If the API server rejects dry runs, because an admission webhook does not support
// them, it returns false.
func (a *objectApplier) isUpdateNoOp(ctx context.Context, live, merged *unstructured.Unstructured) (bool, error) {
	dryRun := merged.DeepCopy()
	err := a.client.Update(ctx, dryRun, client.FieldOwner(fieldManager), client.DryRunAll)
	switch {
	case apierrors.IsBadRequest(err):
		return false, nil
	case err != nil:
		return false, err
	}

	return digestContent(dryRun) == digestContent(live), nil
}

// createObject creates an object and returns it as the API server stored it.
func (a *objectApplier) createObject(ctx context.Context, it *item, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	created := wanted.DeepCopy()
	if err := a.client.Create(ctx, created, client.FieldOwner(fieldManager)); err != nil {
		return nil, err
	}
	log.FromContext(ctx).V(1).Info("created an object", "kind", it.key.Kind, "group", it.key.Group, "namespace", it.key.Namespace, "name", it.key.Name)
	return created, nil
}

// newEmptyObject returns an object of the item's kind to read into.
func newEmptyObject(it *item) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(it.kind)
	return u
}

// desiredObject returns the object that the release requests, and its digest. The object is the
// manifest without the metadata that only the API server sets, with its owner reference and the
// injected configuration of the cluster. Callers must not change it.
func (a *objectApplier) desiredObject(it *item) (*unstructured.Unstructured, memory.Digest, error) {
	u := &unstructured.Unstructured{Object: make(map[string]any, len(it.manifest.Object))}
	for field, value := range it.manifest.Object {
		u.Object[field] = value
	}

	given, _ := it.manifest.Object["metadata"].(map[string]any)
	u.Object["metadata"] = selectFields(given, desiredMetadataFields)
	if owner := a.owner; owner.UID != "" && len(u.GetOwnerReferences()) == 0 && !it.createOnly {
		owner.Controller = new(true)
		u.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
	if refused := merge.InvalidReason(u); refused != "" {
		return nil, memory.Digest{}, manifestError{errors.New(refused)}
	}

	u, injected, err := it.injection.injectInto(u, a.environment)
	if err != nil {
		return nil, memory.Digest{}, manifestError{err}
	}

	hash := sha256.New()
	hash.Write(it.digest[:])
	hash.Write([]byte(a.owner.UID))
	hash.Write([]byte(injected))

	return u, memory.Digest(hash.Sum(nil)), nil
}

// desiredMetadataFields are the metadata fields that a manifest may set. The API server sets the
// others.
var desiredMetadataFields = []string{"name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"}

// selectFields returns the named fields of an object that are not null.
func selectFields(object map[string]any, fields []string) map[string]any {
	result := make(map[string]any, len(fields))
	for _, field := range fields {
		if value := object[field]; value != nil {
			result[field] = value
		}
	}
	return result
}
