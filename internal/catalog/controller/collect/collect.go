// Package collect removes the stored content of catalogs that were deleted while the program was not running.
// It runs once at the start of every replica.
package collect

import (
	"context"
	"fmt"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// contentStore is the part of *catalogstore.Store that the collector uses.
type contentStore interface {
	Names() []string
	Delete(name string) error
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=list

// Collector is a manager.Runnable that collects once.
type Collector struct {
	// Reader reads ClusterCatalogs from the API server, because a cache can be stale.
	Reader client.Reader
	// Store contains the content.
	Store contentStore
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has its own store.
func (*Collector) NeedLeaderElection() bool { return false }

// Start calls Collect and logs its error. A failure does not terminate the program, because leftover
// content only takes space until the next start.
func (c *Collector) Start(ctx context.Context) error {
	if err := c.Collect(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Content of deleted catalogs was not removed")
	}
	return nil
}

// Collect removes the content of catalogs that do not exist or are not available.
func (c *Collector) Collect(ctx context.Context) error {
	// The store is listed first, so that a catalog that is created in the meantime is not in the list.
	names := c.Store.Names()
	if len(names) == 0 {
		return nil
	}

	list := &olmv1.ClusterCatalogList{}
	if err := c.Reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing the catalogs: %w", err)
	}

	for _, name := range findUnwanted(names, list.Items) {
		ctrl.LoggerFrom(ctx).Info("Removing the content of a deleted catalog", "catalog", name)
		if err := c.Store.Delete(name); err != nil {
			return err
		}
	}

	return nil
}

// findUnwanted returns the names of stored contents whose catalog does not exist or is not available.
func findUnwanted(stored []string, catalogs []olmv1.ClusterCatalog) []string {
	return slices.DeleteFunc(slices.Clone(stored), func(name string) bool {
		return slices.ContainsFunc(catalogs, func(catalog olmv1.ClusterCatalog) bool {
			return catalog.Name == name && catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable
		})
	})
}
