package migration

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// MigrateCatalogs creates the ClusterCatalogs with the content of CatalogSources. It leaves the
// CatalogSources as they are.
type MigrateCatalogs struct {
	// Client needs the kinds of Scheme, and must not read from a cache.
	Client   client.Client
	Progress report.Progress
	// Namespace limits the CatalogSources that get a ClusterCatalog. Empty means all namespaces.
	Namespace string
	// DryRun returns the plans, and creates nothing.
	DryRun bool
}

// Run returns what becomes of each CatalogSource, and creates the ClusterCatalogs. A ClusterCatalog
// that cannot be created does not stop the others.
func (m *MigrateCatalogs) Run(ctx context.Context) ([]plan.CatalogPlan, error) {
	var sources v1alpha1.CatalogSourceList
	var catalogs olmv1.ClusterCatalogList
	if err := errors.Join(m.Client.List(ctx, &sources, client.InNamespace(m.Namespace)), m.Client.List(ctx, &catalogs)); err != nil {
		return nil, newServerError("catalogs", err)
	}

	plans := plan.NewCatalogs(sources.Items, catalogs.Items)
	if m.DryRun {
		return plans, nil
	}

	var failed []error
	for _, p := range plans {
		if p.Create == nil {
			continue
		}
		if err := m.Client.Create(ctx, p.Create.DeepCopy()); err != nil {
			failed = append(failed, newServerError("catalogsource "+p.Source, fmt.Errorf("creating clustercatalog %s: %w", p.Catalog, err)))
			continue
		}
		report.OrQuiet(m.Progress).Done(fmt.Sprintf("clustercatalog %s created", p.Catalog))
	}

	return plans, errors.Join(failed...)
}
