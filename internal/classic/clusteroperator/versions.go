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

// newCSVMetadata returns an empty object for watching the metadata of CSVs. Limits are in an
// annotation.
func newCSVMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind))
	return object
}

// newCSVCache returns a cache of all CSVs of the cluster except copied CSVs. It is a separate
// cache, because other caches of the process hold other parts of CSVs.
func newCSVCache(mgr manager.Manager) (cache.Cache, error) {
	isNoCopy, err := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}

	csvs, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{newCSVMetadata(): {Label: labels.NewSelector().Add(*isNoCopy), Transform: trimCSVMetadata}},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of ClusterServiceVersions: %w", err)
	}

	return csvs, mgr.Add(csvs)
}

// trimCSVMetadata is a transform function that keeps only the name of a CSV and the annotation
// with its limit.
func trimCSVMetadata(object any) (any, error) {
	csv, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // For example, a DeletedFinalStateUnknown.
	}

	kept := metav1.ObjectMeta{Namespace: csv.Namespace, Name: csv.Name, UID: csv.UID, ResourceVersion: csv.ResourceVersion}
	if mayDeclareLimit(csv) {
		kept.Annotations = map[string]string{csvinfo.AnnotationProperties: csv.Annotations[csvinfo.AnnotationProperties]}
	}

	csv.ObjectMeta = kept
	return csv, nil
}

// newReportPredicate returns a predicate for events that change a report: of CSVs that declare
// limits, and creations and deletions of CSVs in the component's namespace.
func newReportPredicate(namespace string) predicate.Predicate {
	isRelevant := func(object client.Object) bool { return object.GetNamespace() == namespace || mayDeclareLimit(object) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isRelevant(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return isRelevant(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[csvinfo.AnnotationProperties] != e.ObjectNew.GetAnnotations()[csvinfo.AnnotationProperties]
		},
		GenericFunc: func(event.GenericEvent) bool { return true },
	}
}

// newCSVReferences returns references to the CSVs of a namespace, sorted by name.
func newCSVReferences(csvs []metav1.PartialObjectMetadata, namespace string) []configv1.ObjectReference {
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
