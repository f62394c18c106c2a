package worker

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// remove deletes the object of a tombstone, once while the cluster is being updated. It does
// not wait until the object is gone; as long as it is not, the status tells. An object that is
// there afterwards, or in another mode, was made anew by somebody, and is left: who wants it
// would make it again and again.
func (p *pass) remove(ctx context.Context, it *item) error {
	isThere, isGoing, err := p.look(ctx, it)
	if err != nil {
		return err
	}

	if isThere != nil && !isGoing {
		if p.mode != release.Updating || p.worker.wasRemoved(p.job, it, isThere.UID) {
			log.FromContext(ctx).Info("an object that the release removes is there, and is left", "object", it.String())
			isThere = nil
		} else if isThere, err = p.delete(ctx, it, isThere); err != nil {
			return err
		}
	}

	p.worker.noteDeletion(p.job, it.String(), isThere != nil)
	return nil
}

func (p *pass) delete(ctx context.Context, it *item, live *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	err := p.worker.client.Delete(ctx, live, client.Preconditions{UID: &live.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("deleting it: %w", err)
	}

	p.worker.noteRemoval(p.job, it, live.UID)
	log.FromContext(ctx).Info("deleted an object that the release removes", "object", it.String())
	after, _, err := p.look(ctx, it)
	if after != nil && after.UID != live.UID {
		after = nil // Somebody made it anew already.
	}

	return after, err
}

// look returns the object; nil when there is none. An object of a kind that is not served is
// gone.
func (p *pass) look(ctx context.Context, it *item) (live *metav1.PartialObjectMetadata, isGoing bool, err error) {
	live = &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(it.kind)
	err = p.worker.client.Get(ctx, client.ObjectKey{Namespace: it.key.Namespace, Name: it.key.Name}, live)
	switch {
	case apierrors.IsNotFound(err), isKindMissing(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}

	live.SetGroupVersionKind(it.kind)
	return live, live.DeletionTimestamp != nil, nil
}

// noteRemoval keeps which object was deleted.
func (w *Worker) noteRemoval(j *job, it *item, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job == j {
		w.progress.removed[it.key] = uid
	}
}

// wasRemoved reports whether another object than this one was deleted in its place.
func (w *Worker) wasRemoved(j *job, it *item, uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.progress.removed[it.key]
	return w.job == j && ok && before != uid
}
