package worker

import (
	"context"
	"crypto/sha256"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/cluster/worker/merge"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// fieldManager is who writes, in the words of the API server.
const fieldManager = "mainstay"

// contention is how often an object that others change meanwhile is read and written
// before the attempt is given up.
const contention = 4

// ensure brings an object to what its manifest says, and looks whether it is well.
func (p *pass) ensure(ctx context.Context, it *item) error {
	wanted, asked, err := p.wanted(it)
	if err != nil {
		return err
	}

	found, exists, known := p.survey.find(it)
	if exists && p.worker.memory.recall(it.key, found, asked, p.mode != release.Initializing) {
		return nil
	}

	// Of a new cluster it is believed that an object is absent until its creation shows
	// otherwise.
	absent := !exists && (known || p.mode == release.Initializing)
	var live *unstructured.Unstructured
	for range contention {
		live, err = p.attempt(ctx, it, wanted, asked, absent)
		if !apierrors.IsConflict(err) && (!absent || !apierrors.IsAlreadyExists(err)) {
			break
		}
		absent = false
	}

	if err != nil {
		return err
	}

	if !it.createOnly {
		if live, err = p.healthy(ctx, it, live); err != nil {
			return err
		}
	}

	p.worker.memory.remember(it.key, live, asked, p.mode != release.Initializing)
	return nil
}

// attempt reads the object, unless it is believed absent, and writes it if it differs from
// what is wanted. It gives the object as it is then.
func (p *pass) attempt(ctx context.Context, it *item, wanted *unstructured.Unstructured, asked digest, absent bool) (*unstructured.Unstructured, error) {
	if absent {
		return p.create(ctx, it, wanted)
	}

	live := empty(it)
	err := p.worker.client.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	if apierrors.IsNotFound(err) {
		return p.create(ctx, it, wanted)
	}
	if err != nil || it.createOnly {
		return live, err
	}

	merged, differs := merge.Merge(live, wanted)
	if !differs || p.worker.memory.knows(it.key, live, asked) {
		return live, nil
	}

	written, err := p.update(ctx, it, live, merged)
	if field := fixedField(err); field != "" {
		return p.remake(ctx, it, live, merged, field, err)
	}

	return written, err
}

// update writes an object, unless that would leave it as it is.
func (p *pass) update(ctx context.Context, it *item, live, merged *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if p.mode == release.Reconciling || merge.IsCovered(merged.Object, live.Object) {
		// What differs is likely no more than defaults that the manifest does not state. The
		// API server tells, and nothing is written if it is so.
		if same, err := p.isSame(ctx, live, merged); same || err != nil {
			return live, err
		}
	}

	merged = merged.DeepCopy()
	if err := p.worker.client.Update(ctx, merged, client.FieldOwner(fieldManager)); err != nil {
		return nil, err
	}
	if merged.GetResourceVersion() != live.GetResourceVersion() {
		log.FromContext(ctx).Info("updated an object", "kind", it.key.Kind, "group", it.key.Group, "namespace", it.key.Namespace, "name", it.key.Name)
	}

	return merged, nil
}

// isSame asks the API server whether writing an object would leave it as it is. When the
// server cannot tell, because an admission webhook does not allow to be asked, the object
// is written.
func (p *pass) isSame(ctx context.Context, live, merged *unstructured.Unstructured) (bool, error) {
	asked := merged.DeepCopy()
	err := p.worker.client.Update(ctx, asked, client.FieldOwner(fieldManager), client.DryRunAll)
	switch {
	case apierrors.IsBadRequest(err):
		return false, nil
	case err != nil:
		return false, err
	}

	return shapeOf(asked) == shapeOf(live), nil
}

func (p *pass) create(ctx context.Context, it *item, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	created := wanted.DeepCopy()
	if err := p.worker.client.Create(ctx, created, client.FieldOwner(fieldManager)); err != nil {
		return nil, err
	}
	log.FromContext(ctx).V(1).Info("created an object", "kind", it.key.Kind, "group", it.key.Group, "namespace", it.key.Namespace, "name", it.key.Name)
	return created, nil
}

// empty returns an object of the item's kind to read into.
func empty(it *item) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(it.kind)
	return u
}

// wanted returns what is asked for an object, and the digest of that: the manifest without
// what only the API server sets, with its owner, and with what the cluster's configuration
// puts in it. It must not be changed.
func (p *pass) wanted(it *item) (*unstructured.Unstructured, digest, error) {
	u := &unstructured.Unstructured{Object: make(map[string]any, len(it.manifest.Object))}
	for field, value := range it.manifest.Object {
		u.Object[field] = value
	}

	given, _ := it.manifest.Object["metadata"].(map[string]any)
	u.Object["metadata"] = only(given, statedMetadata)
	if owner := p.job.work.Owner; owner.UID != "" && len(u.GetOwnerReferences()) == 0 && !it.createOnly {
		owner.Controller = new(true)
		u.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
	if refused := merge.Refused(u); refused != "" {
		return nil, digest{}, fault{errors.New(refused)}
	}

	u, injected, err := it.inject.into(u, p.environment)
	if err != nil {
		return nil, digest{}, fault{err}
	}

	hash := sha256.New()
	hash.Write(it.digest[:])
	hash.Write([]byte(p.job.work.Owner.UID))
	hash.Write([]byte(injected))

	return u, digest(hash.Sum(nil)), nil
}

// statedMetadata are the parts of an object's metadata that may be asked for. The others are
// the API server's.
var statedMetadata = []string{"name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"}

// only returns some fields of an object, as far as it has them.
func only(object map[string]any, fields []string) map[string]any {
	result := make(map[string]any, len(fields))
	for _, field := range fields {
		if value := object[field]; value != nil {
			result[field] = value
		}
	}
	return result
}
