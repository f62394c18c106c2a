package rollout

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// freshClient is a client that tracks the resource version of its last write of each object.
//
// A managed object often changes a few milliseconds after the revision's status was written. A
// reconciliation of the stale revision in the cache would fail at the precondition of its status
// patch. So the revision is requeued until the cache has caught up.
type freshClient struct {
	client.Client

	mu       sync.Mutex
	versions map[types.UID]string
}

func newFreshClient(c client.Client) *freshClient {
	return &freshClient{Client: c, versions: map[types.UID]string{}}
}

// Get reads an object from the cache. It returns an error that waits if the object is older than its
// last write.
func (c *freshClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	if c.checkStaleness(object) {
		return reconcile.Wait("", cacheSyncRetryInterval, errors.New("the cache is older than the last write"))
	}
	return nil
}

// checkStaleness returns true if an object from the cache is older than its last write. Otherwise
// it forgets that write.
func (c *freshClient) checkStaleness(cached client.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	written, ok := c.versions[cached.GetUID()]
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), written); err == nil && order < 0 {
		return true
	}

	delete(c.versions, cached.GetUID())
	return false
}

func (c *freshClient) recordLastWrite(object client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions[object.GetUID()] = object.GetResourceVersion()
}

// forget drops an object that is deleted, because its last write removed its finalizer.
func (c *freshClient) forget(object client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.versions, object.GetUID())
}

// Patch patches an object.
func (c *freshClient) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, object, patch, opts...)
	switch {
	case err != nil:
	case object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0:
		c.forget(object)
	default:
		c.recordLastWrite(object)
	}

	return err
}

// Status returns the writer of the status.
func (c *freshClient) Status() client.SubResourceWriter {
	return &freshStatus{SubResourceWriter: c.Client.Status(), client: c}
}

type freshStatus struct {
	client.SubResourceWriter
	client *freshClient
}

// Patch patches the status of an object.
func (s *freshStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	err := s.SubResourceWriter.Patch(ctx, object, patch, opts...)
	if err == nil {
		s.client.recordLastWrite(object)
	}
	return err
}
