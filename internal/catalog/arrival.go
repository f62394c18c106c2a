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

// isOffered reports whether a catalog has content that clients may ask any replica for.
func isOffered(catalog *olmv1.ClusterCatalog) bool {
	return catalog.Status.ResolvedSource != nil && catalog.DeletionTimestamp.IsZero() &&
		catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable
}

// shelf is a store that tells content that this replica does not have yet from content that
// there is not: to its reader the first is no reason to give up.
type shelf struct {
	store interface {
		Content(name string) (*catalogstore.Content, error)
	}
	// reader reads ClusterCatalogs from a cache.
	reader client.Reader
}

// lookTimeout bounds the look at a ClusterCatalog, which waits only while the cache is being
// filled.
const lookTimeout = time.Second

// Content returns the content of a catalog, see serve.NewHandler.
func (s *shelf) Content(name string) (*catalogstore.Content, error) {
	content, err := s.store.Content(name)
	if !errors.Is(err, catalogstore.ErrNotFound) {
		return content, err
	}

	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	catalog := &olmv1.ClusterCatalog{}
	// Where that cannot be told, there is no content.
	if s.reader.Get(ctx, client.ObjectKey{Name: name}, catalog) == nil && isOffered(catalog) {
		return nil, serve.ErrComing
	}

	return nil, err
}

// arrivalGrace is how long a replica that has just started may be without content that
// others serve before it is taken for ready all the same: a registry that does not answer
// for one catalog must not keep the others from being served.
const arrivalGrace = time.Minute

// arrival is the health check that a replica that has just started has what the others
// serve, so that no client is sent to one that answers that there is no such catalog. Once
// it has passed it always does.
type arrival struct {
	// reader reads ClusterCatalogs.
	reader client.Reader
	// serves reports whether the replica serves a catalog.
	serves func(name string) bool
	clock  clock.PassiveClock

	mu      sync.Mutex
	until   time.Time
	arrived bool
}

// check implements healthz.Checker.
func (a *arrival) check(r *http.Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.arrived {
		return nil
	}

	now := a.clock.Now()
	if a.until.IsZero() {
		a.until = now.Add(arrivalGrace)
	}
	if err := a.missing(r); err != nil && now.Before(a.until) {
		return err
	}

	a.arrived = true
	return nil
}

// missing names a catalog that is served by others and not here.
func (a *arrival) missing(r *http.Request) error {
	list := &olmv1.ClusterCatalogList{}
	if err := a.reader.List(r.Context(), list); err != nil {
		return fmt.Errorf("listing the catalogs: %w", err)
	}

	for i := range list.Items {
		if catalog := &list.Items[i]; isOffered(catalog) && !a.serves(catalog.Name) {
			return fmt.Errorf("the content of catalog %q is not here yet", catalog.Name)
		}
	}
	return nil
}
