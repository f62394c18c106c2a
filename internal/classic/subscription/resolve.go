package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// errCatalogConnecting is the error while the connection to a catalog is not established yet.
var errCatalogConnecting = errors.New("a catalog is being connected to")

// catalogError is the error for a catalog that cannot be read.
type catalogError struct {
	catalog types.NamespacedName
	err     error
}

func (e *catalogError) Error() string {
	return fmt.Sprintf("error using catalogsource %s: %v", e.catalog, e.err)
}
func (e *catalogError) Unwrap() error { return e.err }

// resolver resolves the Subscriptions of a namespace from the catalogs that it may use.
type resolver struct{ Options }

// resolveNamespace returns the bundles that the Subscriptions of a namespace resolve to, and records the duration.
func (r *resolver) resolveNamespace(ctx context.Context, v *view) ([]resolution.Choice, error) {
	catalogs := v.availableCatalogs()
	for i := range catalogs {
		if r.isCatalogConnecting(&catalogs[i]) {
			return nil, errCatalogConnecting
		}
	}

	begin := r.Clock.Now()
	choices, err := r.resolveFromCatalogs(ctx, v, catalogs)
	observeResolution(r.Clock.Since(begin), err)

	return choices, err
}

func observeResolution(took time.Duration, err error) {
	outcome := "succeeded"
	if err != nil {
		outcome = "failed"
	}
	resolutionDurations.WithLabelValues(outcome).Observe(took.Seconds())
}

func (r *resolver) resolveFromCatalogs(ctx context.Context, v *view, catalogs []v1alpha1.CatalogSource) ([]resolution.Choice, error) {
	in := resolution.Input{
		Namespace: v.namespace, Offers: make([]resolution.Offer, len(catalogs)), Subscriptions: v.subs, CSVs: v.csvs, FailForward: v.allowsFailForward(),
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range catalogs {
		group.Go(func() error {
			key := client.ObjectKeyFromObject(&catalogs[i])
			snapshot, err := r.Snapshots.Get(ctx, key)
			if err != nil {
				return &catalogError{key, err}
			}

			in.Offers[i] = resolution.Offer{Snapshot: snapshot, Priority: catalogs[i].Spec.Priority}
			return nil
		})
	}

	if err := group.Wait(); err != nil {
		return nil, err
	}

	return resolution.Resolve(in)
}

// isCatalogConnecting reports whether the connection to a catalog has neither succeeded nor failed yet.
func (r *resolver) isCatalogConnecting(catalog *v1alpha1.CatalogSource) bool {
	state, ok := r.Pool.State(client.ObjectKeyFromObject(catalog))
	if !ok {
		return catalog.Status.Reason == ""
	}
	return state.Err == nil && (state.Connectivity == connectivity.Idle || state.Connectivity == connectivity.Connecting)
}
