// Package collect removes, once at the start of every replica, the stored content of
// catalogs that were deleted while the program did not run.
package collect

import (
	"context"
	"fmt"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// contents is what the collector needs of the store: a *store.Store.
type contents interface {
	Names() []string
	Delete(name string) error
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=list

// Collector is a Runnable of a manager that collects once.
type Collector struct {
	// Reader reads ClusterCatalogs from the API server: a cache could be behind.
	Reader client.Reader
	// Store has the content.
	Store contents
}

// NeedLeaderElection is false: every replica has a store of its own.
func (*Collector) NeedLeaderElection() bool { return false }

// Start collects. That it fails is no reason to end the program: what is left over only
// takes space until the next start.
func (c *Collector) Start(ctx context.Context) error {
	if err := c.Collect(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Content of deleted catalogs was not removed")
	}
	return nil
}

// Collect removes the content of catalogs that do not exist or are not available.
func (c *Collector) Collect(ctx context.Context) error {
	// The store is listed first: a catalog that is created meanwhile is not in the list.
	names := c.Store.Names()
	if len(names) == 0 {
		return nil
	}

	list := &olmv1.ClusterCatalogList{}
	if err := c.Reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing the catalogs: %w", err)
	}

	for _, name := range names {
		wanted := slices.ContainsFunc(list.Items, func(catalog olmv1.ClusterCatalog) bool {
			return catalog.Name == name && catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeUnavailable
		})
		if wanted {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Removing the content of a catalog that is gone", "catalog", name)
		if err := c.Store.Delete(name); err != nil {
			return err
		}
	}

	return nil
}
