package worker

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// listedFrom is how many objects of a kind a release has before the kind is listed: a
	// list of metadata costs about as much as reading a few objects.
	listedFrom = 4
	// pageSize and maxPages bound a list: 5,000 objects with 2 KiB of metadata each are
	// 10 MiB, read in about 0.1 s. Of larger kinds the objects are read one by one.
	pageSize, maxPages = 500, 10
	// surveyors list side by side.
	surveyors = 4
)

// survey is which objects of the release's kinds there were when a pass began, and in which
// version. It is what a pass looks at instead of reading objects that nobody changed.
type survey struct {
	kinds map[schema.GroupVersionKind]*surveyed
}

// surveyed are the objects of one kind.
type surveyed struct {
	namespaced bool
	objects    map[types.NamespacedName]seen
}

// seen is an object, and in which version it was seen.
type seen struct {
	uid     types.UID
	version string
}

// find returns an object of the survey. It is known only if its kind was listed.
func (s *survey) find(it *item) (found seen, exists, known bool) {
	kind, known := s.kinds[it.kind]
	if !known {
		return seen{}, false, false
	}

	name := types.NamespacedName{Name: it.key.Name}
	if kind.namespaced {
		name.Namespace = it.key.Namespace
	}

	found, exists = kind.objects[name]
	return found, exists, true
}

// newSurvey lists the metadata of the kinds of which there are several objects. A kind that
// cannot be listed is not known.
func newSurvey(ctx context.Context, c client.Client, items []item) *survey {
	counts := map[schema.GroupVersionKind]int{}
	for i := range items {
		if it := &items[i]; !it.deletes && it.excluded == "" {
			counts[it.kind]++
		}
	}

	result := &survey{kinds: map[schema.GroupVersionKind]*surveyed{}}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(surveyors)
	for kind, count := range counts {
		if count < listedFrom {
			continue
		}
		group.Go(func() error {
			if found := list(ctx, c, kind); found != nil {
				mu.Lock()
				result.kinds[kind] = found
				mu.Unlock()
			}
			return nil
		})
	}

	_ = group.Wait() // None of them fails.
	return result
}

// list returns the objects of a kind; nil when that is not possible.
func list(ctx context.Context, c client.Client, kind schema.GroupVersionKind) *surveyed {
	result := &surveyed{objects: map[types.NamespacedName]seen{}}
	mapping, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil
	}

	result.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for range maxPages {
		if err := c.List(ctx, page, client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil
		}
		for i := range page.Items {
			object := &page.Items[i]
			result.objects[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}] = seen{uid: object.UID, version: object.ResourceVersion}
		}
		if page.Continue == "" {
			return result
		}
	}

	return nil
}
