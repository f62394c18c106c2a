package subscription

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// resolveNamespace resolves the Subscriptions of a namespace, and records the duration.
func (r *resolver) resolveNamespace(input resolution.Input) *resolution.Outcome {
	begin := r.Clock.Now()
	outcome := resolution.ResolveEach(input)
	observeResolution(r.Clock.Since(begin), len(outcome.Failures) == 0)

	return outcome
}

func observeResolution(took time.Duration, isResolved bool) {
	outcome := "succeeded"
	if !isResolved {
		outcome = "failed"
	}
	resolutionDurations.WithLabelValues(outcome).Observe(took.Seconds())
}

// gatherInput reads the catalogs. Those that cannot be read are part of the input.
func (r *resolver) gatherInput(ctx context.Context, v *view) resolution.Input {
	catalogs := v.availableCatalogs()
	snapshots, errs := make([]*resolution.Snapshot, len(catalogs)), make([]error, len(catalogs))
	var group sync.WaitGroup
	for i := range catalogs {
		group.Go(func() {
			key := client.ObjectKeyFromObject(&catalogs[i])
			if r.isCatalogConnecting(&catalogs[i]) {
				errs[i] = errCatalogConnecting
				return
			}
			var err error
			if snapshots[i], err = r.Snapshots.Get(ctx, key); err != nil {
				errs[i] = &catalogError{key, err}
			}
		})
	}
	group.Wait()

	in := resolution.Input{
		Namespace: v.namespace, Subscriptions: v.subs, CSVs: v.csvs, FailForward: v.allowsFailForward(), InstallsPlan: v.isInstalling(),
	}
	for i := range catalogs {
		if errs[i] != nil {
			in.Unread = append(in.Unread, resolution.UnreadCatalog{Catalog: client.ObjectKeyFromObject(&catalogs[i]), Priority: catalogs[i].Spec.Priority, Err: errs[i]})
			continue
		}
		in.Offers = append(in.Offers, resolution.Offer{Snapshot: snapshots[i], Priority: catalogs[i].Spec.Priority})
	}
	return in
}

// isCatalogConnecting reports whether the connection to a catalog has neither succeeded nor failed yet.
func (r *resolver) isCatalogConnecting(catalog *v1alpha1.CatalogSource) bool {
	state, ok := r.Pool.State(client.ObjectKeyFromObject(catalog))
	if !ok {
		return catalog.Status.Reason == ""
	}
	return state.Err == nil && (state.Connectivity == connectivity.Idle || state.Connectivity == connectivity.Connecting)
}
