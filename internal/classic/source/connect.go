package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// connect keeps the connection to a catalog and says in the status how it is.
func (r *reconciler) connect(ctx context.Context, catalog *v1alpha1.CatalogSource) error {
	key, address := client.ObjectKeyFromObject(catalog), catalog.Address()
	if err := r.pool.Set(key, address); err != nil {
		catalog.Status.GRPCConnectionState = nil
		return reconcile.Stop(v1alpha1.CatalogSourceRegistryServerError, fmt.Errorf("couldn't connect to registry - %w", err))
	}

	state, ok := r.pool.State(key)
	if !ok {
		return nil // The program is ending.
	}

	catalog.Status.GRPCConnectionState = &v1alpha1.GRPCConnectionState{
		Address: state.Address, LastObservedState: state.Connectivity.String(), LastConnectTime: metav1.NewTime(state.Since).Rfc3339Copy(),
	}
	r.metrics.ready(key, state.Connectivity == connectivity.Ready)
	if state.Connectivity == connectivity.Ready {
		return nil
	}

	problem, err := r.unreachable(ctx, catalog, state)
	if err != nil {
		return registryError(err)
	}
	if problem != nil {
		return reconcile.Wait(v1alpha1.CatalogSourceRegistryServerError, r.again(catalog), fmt.Errorf("couldn't connect to registry - %w", problem))
	}

	return nil
}

// unreachable says what keeps a catalog from being reached, nil when nothing is known, or it is
// only beginning. It has one be tried at once that came to answer since it was tried last.
func (r *reconciler) unreachable(ctx context.Context, catalog *v1alpha1.CatalogSource, state dial.State) (error, error) {
	failed := state.Connectivity == connectivity.TransientFailure
	c := &objects.Catalog{CatalogSource: catalog}
	if !c.IsServed() {
		if failed {
			return failure(state), nil
		}
		return nil, nil
	}

	pods, err := r.pods(ctx, r.client, c, objects.LabelCatalog)
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
		problem = failure(state)
	}

	return problem, nil
}

// failure says why a connection is not made.
func failure(state dial.State) error {
	if state.Err != nil {
		return state.Err
	}
	return fmt.Errorf("what listens at %s does not answer by gRPC", state.Address)
}
