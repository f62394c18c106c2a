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

// errNotYet says that a catalog is only being connected to.
var errNotYet = errors.New("a catalog is being connected to")

// catalogError says that a catalog cannot be read.
type catalogError struct {
	catalog types.NamespacedName
	err     error
}

func (e *catalogError) Error() string {
	return fmt.Sprintf("error using catalogsource %s: %v", e.catalog, e.err)
}
func (e *catalogError) Unwrap() error { return e.err }

// resolve has the operators of a namespace be chosen.
func (r *reconciler) resolve(ctx context.Context, v *view) ([]resolution.Choice, error) {
	catalogs := v.offering()
	for i := range catalogs {
		if r.isConnecting(&catalogs[i]) {
			return nil, errNotYet
		}
	}

	begin := r.Clock.Now()
	choices, err := r.resolveAmong(ctx, v, catalogs)
	observe(r.Clock.Since(begin), err)

	return choices, err
}

func observe(took time.Duration, err error) {
	outcome := "succeeded"
	if err != nil {
		outcome = "failed"
	}
	durations.WithLabelValues(outcome).Observe(took.Seconds())
}

func (r *reconciler) resolveAmong(ctx context.Context, v *view, catalogs []v1alpha1.CatalogSource) ([]resolution.Choice, error) {
	in := resolution.Input{
		Namespace: v.namespace, Offers: make([]resolution.Offer, len(catalogs)), Subscriptions: v.subs, CSVs: v.csvs, FailForward: v.failForward(),
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

// isConnecting reports whether nothing is known yet of a catalog, good or bad.
func (r *reconciler) isConnecting(catalog *v1alpha1.CatalogSource) bool {
	state, ok := r.Pool.State(client.ObjectKeyFromObject(catalog))
	if !ok {
		return catalog.Status.Reason == ""
	}
	return state.Err == nil && (state.Connectivity == connectivity.Idle || state.Connectivity == connectivity.Connecting)
}
