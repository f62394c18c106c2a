package worker

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// objectRemover deletes the objects of tombstones.
type objectRemover struct {
	client   client.Client
	mode     release.Mode
	recorder recorder
}

// removeTombstonedObject deletes the object of a tombstone, once and only in Updating. It does
// not wait for the deletion; the status reports objects that still exist. An object that exists
// after that, or in another mode, was created again by someone else and is left: deleting it
// would only lead to a loop.
func (r objectRemover) removeTombstonedObject(ctx context.Context, it *item) error {
	isThere, isGoing, err := r.getObjectMetadata(ctx, it)
	if err != nil {
		return err
	}

	if isThere != nil && !isGoing {
		if r.mode != release.Updating || r.recorder.wasRecreatedAfterDeletion(it, isThere.UID) {
			log.FromContext(ctx).Info("left an object that the release removes and that was created again", "object", it.String())
			isThere = nil
		} else if isThere, err = r.deleteObject(ctx, it, isThere); err != nil {
			return err
		}
	}

	r.recorder.recordPendingDeletion(it.String(), isThere != nil)
	return nil
}

func (r objectRemover) deleteObject(ctx context.Context, it *item, live *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	err := r.client.Delete(ctx, live, client.Preconditions{UID: &live.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("deleting it: %w", err)
	}

	r.recorder.recordDeletion(it, live.UID)
	log.FromContext(ctx).Info("deleted an object that the release removes", "object", it.String())
	after, _, err := r.getObjectMetadata(ctx, it)
	if after != nil && after.UID != live.UID {
		after = nil // It was already created again.
	}

	return after, err
}

// getObjectMetadata reads the metadata of an item's object, and whether it is being deleted. It
// returns nil if the object does not exist or its kind is not served.
func (r objectRemover) getObjectMetadata(ctx context.Context, it *item) (live *metav1.PartialObjectMetadata, isGoing bool, err error) {
	live = &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(it.kind)
	err = r.client.Get(ctx, client.ObjectKey{Namespace: it.key.Namespace, Name: it.key.Name}, live)
	switch {
	case apierrors.IsNotFound(err), isKindNotServed(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}

	live.SetGroupVersionKind(it.kind)
	return live, live.DeletionTimestamp != nil, nil
}
