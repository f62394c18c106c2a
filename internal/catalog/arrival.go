package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// isOffered reports whether a catalog has content that clients can request from any replica.
func isOffered(catalog *olmv1.ClusterCatalog) bool {
	return catalog.Status.ResolvedSource != nil && catalog.DeletionTimestamp.IsZero() &&
		catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable
}

// replicaStore is a content source that distinguishes content that this replica does not have yet from
// content that does not exist. Clients retry in the first case.
type replicaStore struct {
	store interface {
		Content(name string) (*catalogstore.Content, error)
	}
	// reader reads ClusterCatalogs from a cache.
	reader client.Reader
}

// catalogLookupTimeout is the timeout for reading a ClusterCatalog, which blocks only until the cache is
// synced.
const catalogLookupTimeout = time.Second

// Content returns the content of a catalog. It returns serve.ErrContentPending if the content is not available on
// this replica yet.
func (s *replicaStore) Content(name string) (*catalogstore.Content, error) {
	content, err := s.store.Content(name)
	if !errors.Is(err, catalogstore.ErrNotFound) {
		return content, err
	}

	ctx, cancel := context.WithTimeout(context.Background(), catalogLookupTimeout)
	defer cancel()
	catalog := &olmv1.ClusterCatalog{}
	// If the catalog cannot be read, it is treated as a catalog without content.
	if s.reader.Get(ctx, client.ObjectKey{Name: name}, catalog) == nil && isOffered(catalog) {
		return nil, serve.ErrContentPending
	}

	return nil, err
}

// contentGracePeriod is the time after which a replica that has just started becomes ready although it
// lacks content that others serve. A registry that does not respond for one catalog must not prevent
// the others from being served.
const contentGracePeriod = time.Minute

// contentReadiness is the readiness check of a replica that has just started. It fails until the replica
// has the content that other replicas serve, so that no client is routed to a replica that does not know
// its catalog. After it has passed once, it always passes.
type contentReadiness struct {
	// reader reads ClusterCatalogs.
	reader client.Reader
	// serves reports whether the replica serves a catalog.
	serves func(name string) bool
	clock  clock.PassiveClock

	mu       sync.Mutex
	deadline time.Time
	passed   bool
}

// checkContent implements healthz.Checker.
func (a *contentReadiness) checkContent(r *http.Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.passed {
		return nil
	}

	now := a.clock.Now()
	if a.deadline.IsZero() {
		a.deadline = now.Add(contentGracePeriod)
	}
	if err := a.findMissingContent(r); err != nil && now.Before(a.deadline) {
		return err
	}

	a.passed = true
	return nil
}

// findMissingContent returns an error that names a catalog that other replicas serve and this one does not.
func (a *contentReadiness) findMissingContent(r *http.Request) error {
	list := &olmv1.ClusterCatalogList{}
	if err := a.reader.List(r.Context(), list); err != nil {
		return fmt.Errorf("listing the catalogs: %w", err)
	}

	for i := range list.Items {
		if catalog := &list.Items[i]; isOffered(catalog) && !a.serves(catalog.Name) {
			return fmt.Errorf("the content of catalog %q is not available on this replica yet", catalog.Name)
		}
	}
	return nil
}
