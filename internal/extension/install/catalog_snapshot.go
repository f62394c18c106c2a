package install

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// catalogSnapshot is the part of a catalog that affects resolution.
type catalogSnapshot struct {
	labels   string
	priority int32
	serving  bool
	content  string
}

func snapshotCatalog(catalog *olmv1.ClusterCatalog) catalogSnapshot {
	result := catalogSnapshot{
		labels:   labels.Set(catalog.Labels).String(),
		priority: catalog.Spec.Priority,
		serving:  meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing),
	}
	if source := catalog.Status.ResolvedSource; source != nil && source.Image != nil {
		result.content = source.Image.Ref
	}
	return result
}
