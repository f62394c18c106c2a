package subscription

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// catalogUsers enqueues the namespaces that use a catalog whose connection has changed.
type catalogUsers struct {
	Options

	client client.Client
	queue  workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// enqueueNamespaces enqueues the namespaces that may use a catalog. It drops the snapshot of a deleted one.
func (r *catalogUsers) enqueueNamespaces(ctx context.Context, catalog types.NamespacedName) (time.Duration, error) {
	err := r.client.Get(ctx, catalog, &v1alpha1.CatalogSource{})
	switch {
	case apierrors.IsNotFound(err):
		r.Snapshots.Remove(catalog)
	case err != nil:
		return 0, fmt.Errorf("reading CatalogSource %s: %w", catalog, err)
	}

	namespaces, err := r.listNamespacesUsing(ctx, catalog.Namespace)
	for _, namespace := range namespaces {
		r.queue.Add(newRequest(namespace))
	}

	return 0, err
}

func newRequest(namespace string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}

// listNamespacesUsing returns the namespaces that may use the catalogs of a namespace.
func (r *catalogUsers) listNamespacesUsing(ctx context.Context, namespace string) ([]string, error) {
	if namespace != r.GlobalNamespace {
		return []string{namespace}, nil
	}

	var subs v1alpha1.SubscriptionList
	if err := r.client.List(ctx, &subs, client.UnsafeDisableDeepCopy); err != nil { // They are only read.
		return nil, fmt.Errorf("listing Subscriptions: %w", err)
	}

	seen := map[string]bool{}
	var all []string
	for i := range subs.Items {
		if name := subs.Items[i].Namespace; !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}

	return all, nil
}

// enqueueCatalog is a map function that returns the request for a catalog.
func enqueueCatalog(_ context.Context, catalog client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(catalog)}}
}

// newConnectionSource returns a source that enqueues catalogs whose connection was established or has failed.
func (r *catalogUsers) newConnectionSource() source.Source {
	var once sync.Once
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		once.Do(func() {
			r.queue = queue
			r.Pool.OnChange(func(catalog types.NamespacedName) {
				state, ok := r.Pool.State(catalog)
				switch {
				case !ok:
					return
				case state.Connectivity == connectivity.Ready:
					r.Snapshots.Invalidate(catalog)
				case state.Connectivity != connectivity.TransientFailure:
					return
				}
				queue.Add(ctrl.Request{NamespacedName: catalog})
			})
		})
		return nil
	})
}
