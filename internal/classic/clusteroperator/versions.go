package clusteroperator

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// newMetadata makes what a ClusterServiceVersion is watched as: what it states of versions stands
// in an annotation.
func newMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind))
	return object
}

// newCSVs makes the cache of all ClusterServiceVersions of the cluster that are no copies. It is one
// of its own: others in the process hold other parts of them.
func newCSVs(mgr manager.Manager) (cache.Cache, error) {
	isCopy, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}

	csvs, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{newMetadata(): {Label: labels.NewSelector().Add(*isCopy), Transform: slim}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of ClusterServiceVersions: %w", err)
	}

	return csvs, mgr.Add(csvs)
}

// slim leaves of a ClusterServiceVersion what is read: its name, and what it states of versions.
func slim(object any) (any, error) {
	csv, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // It tells of a deletion.
	}

	kept := metav1.ObjectMeta{Namespace: csv.Namespace, Name: csv.Name, UID: csv.UID, ResourceVersion: csv.ResourceVersion}
	if states(csv) {
		kept.Annotations = map[string]string{csvinfo.AnnotationProperties: csv.Annotations[csvinfo.AnnotationProperties]}
	}

	csv.ObjectMeta = kept
	return csv, nil
}

// concerns lets through what changes a report: ClusterServiceVersions that state limits, and those
// of the component's own namespace as they come and go.
func concerns(namespace string) predicate.Predicate {
	may := func(object client.Object) bool { return object.GetNamespace() == namespace || states(object) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return may(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return may(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[csvinfo.AnnotationProperties] != e.ObjectNew.GetAnnotations()[csvinfo.AnnotationProperties]
		},
		GenericFunc: func(event.GenericEvent) bool { return true },
	}
}

// relatedTo returns references to the ClusterServiceVersions of a namespace, by name.
func relatedTo(csvs []metav1.PartialObjectMetadata, namespace string) []configv1.ObjectReference {
	var references []configv1.ObjectReference
	for i := range csvs {
		if csvs[i].Namespace == namespace {
			references = append(references, configv1.ObjectReference{
				Group: v1alpha1.GroupVersion.Group, Resource: "clusterserviceversions", Namespace: namespace, Name: csvs[i].Name,
			})
		}
	}

	slices.SortFunc(references, func(a, b configv1.ObjectReference) int { return strings.Compare(a.Name, b.Name) })
	return references
}
