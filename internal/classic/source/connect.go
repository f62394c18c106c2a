package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/source/inline"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// connector keeps the connections to catalogs.
type connector struct {
	pods podWriter
	pool *dial.Pool
	// inline is nil if catalogs are served by pods.
	inline   *inline.Server
	schedule schedule
	metrics  catalogMetrics
}

// closeConnection closes the connection to a catalog that cannot be served.
func (r *connector) closeConnection(catalog types.NamespacedName) {
	r.pool.Remove(catalog)
	r.metrics.setReadyMetric(catalog, false)
}

// removeCatalog closes the connection to a deleted catalog.
func (r *connector) removeCatalog(catalog types.NamespacedName) {
	r.pool.Remove(catalog)
	r.metrics.removeCatalog(catalog)
}

// ensureConnection opens or keeps the connection to a catalog and sets its state in the status. served is the state of a
// catalog that is served from within the process, and nil for others.
func (r *connector) ensureConnection(ctx context.Context, catalog *v1alpha1.CatalogSource, served *inline.State) error {
	key := client.ObjectKeyFromObject(catalog)
	if err := r.setConnection(key, catalog.Address(), served); err != nil {
		catalog.Status.GRPCConnectionState = nil
		return reconcile.Stop(v1alpha1.CatalogSourceRegistryServerError, fmt.Errorf("couldn't connect to registry - %w", err))
	}

	state, ok := r.pool.State(key)
	if !ok {
		return nil // The program is shutting down.
	}

	catalog.Status.GRPCConnectionState = &v1alpha1.GRPCConnectionState{
		Address: state.Address, LastObservedState: state.Connectivity.String(), LastConnectTime: metav1.NewTime(state.Since).Rfc3339Copy(),
	}
	r.metrics.setReadyMetric(key, state.Connectivity == connectivity.Ready)
	if state.Connectivity == connectivity.Ready {
		return nil
	}

	problem, err := r.findConnectionProblem(ctx, catalog, state, served)
	if err != nil {
		return newRegistryError(err)
	}
	if problem != nil {
		return reconcile.Wait(v1alpha1.CatalogSourceRegistryServerError, retryAfter(served, r.schedule.nextReconcile(catalog)), fmt.Errorf("couldn't connect to registry - %w", problem))
	}

	return nil
}

// setConnection sets the address of a catalog in the pool. It connects again to content that has changed, so that all who
// use the connection read it.
func (r *connector) setConnection(catalog types.NamespacedName, address string, served *inline.State) error {
	if served == nil {
		return r.pool.Set(catalog, address)
	}
	if served.Changed {
		r.pool.Remove(catalog)
	}
	return r.pool.SetLocal(catalog, address, r.inline.Dialer(catalog))
}

// findConnectionProblem returns why a catalog cannot be reached, or nil if there is no known
// problem. It retries the connection at once if a pod has become ready since the last try.
func (r *connector) findConnectionProblem(ctx context.Context, catalog *v1alpha1.CatalogSource, state dial.State, served *inline.State) (error, error) {
	if served != nil {
		return served.Err, nil
	}

	failed := state.Connectivity == connectivity.TransientFailure
	c := &objects.Catalog{CatalogSource: catalog}
	if !c.IsServed() {
		if failed {
			return connectionError(state), nil
		}
		return nil, nil
	}

	pods, err := r.pods.listOwnedPods(ctx, r.pods.client, c, objects.LabelCatalog)
	if err != nil {
		return nil, err
	}

	var problem error
	for i := range pods {
		if text := objects.Problem(&pods[i]); text != "" && pods[i].DeletionTimestamp.IsZero() {
			problem = errors.New(text)
		}
		if !failed || !objects.IsReady(&pods[i]) {
			continue
		}
		// The time of a pod has whole seconds.
		if objects.ReadySince(&pods[i]).Add(time.Second).After(state.Tried) {
			r.pool.Retry(client.ObjectKeyFromObject(catalog))
		}
		problem = connectionError(state)
	}

	return problem, nil
}

// connectionError returns why a connection has failed.
func connectionError(state dial.State) error {
	if state.Err != nil {
		return state.Err
	}
	return fmt.Errorf("the server at %s does not answer with gRPC", state.Address)
}
