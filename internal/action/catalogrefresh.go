package action

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// CatalogRefresh makes catalogd poll the registry of a catalog immediately instead of at
// the end of the poll interval.
type CatalogRefresh struct {
	Client client.Client
	Name   string
	// Now is the time of the request.
	Now time.Time
}

// Run requests the refresh. It does not wait for it.
func (a *CatalogRefresh) Run(ctx context.Context) error {
	catalog := &metav1.PartialObjectMetadata{}
	catalog.SetGroupVersionKind(olmv1.GroupVersion.WithKind(olmv1.ClusterCatalogKind))
	catalog.Name = a.Name
	before := catalog.DeepCopy()
	catalog.Annotations = map[string]string{olmv1.AnnotationRefresh: a.Now.UTC().Format(time.RFC3339Nano)}
	if err := a.Client.Patch(ctx, catalog, client.MergeFrom(before)); err != nil {
		return NewNotFoundError(describeCatalog(a.Name), "mainstay catalog list", err)
	}

	return nil
}
