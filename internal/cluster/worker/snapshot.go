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

	"github.com/mainstay-dev/mainstay/internal/apply/memory"
)

const (
	// minObjectsToList is the number of objects of a kind from which on the kind is listed. A
	// list of metadata costs about as much as reading a few objects.
	minObjectsToList = 4
	// listPageSize and maxListPages limit a list: 5,000 objects with 2 KiB of metadata each are
	// 10 MiB, read in about 0.1 s. The objects of larger kinds are read one by one.
	listPageSize, maxListPages = 500, 10
	// maxParallelLists is how many kinds are listed in parallel.
	maxParallelLists = 4
)

// objectSnapshot holds the objects of the release's kinds with their resource versions, listed
// at the start of a pass. The pass uses it to skip objects that did not change.
type objectSnapshot struct {
	kinds map[schema.GroupVersionKind]*kindSnapshot
}

// kindSnapshot holds the objects of one kind.
type kindSnapshot struct {
	namespaced bool
	objects    map[types.NamespacedName]memory.Object
}

// findObject returns an object of the snapshot. known is false if its kind was not listed.
func (s *objectSnapshot) findObject(it *item) (found memory.Object, exists, known bool) {
	kind, known := s.kinds[it.kind]
	if !known {
		return memory.Object{}, false, false
	}

	name := types.NamespacedName{Name: it.key.Name}
	if kind.namespaced {
		name.Namespace = it.key.Namespace
	}

	found, exists = kind.objects[name]
	return found, exists, true
}

// newObjectSnapshot lists the metadata of the kinds with several objects in the release. A kind
// that cannot be listed is left out.
func newObjectSnapshot(ctx context.Context, c client.Client, items []item) *objectSnapshot {
	counts := map[schema.GroupVersionKind]int{}
	for i := range items {
		if it := &items[i]; !it.isTombstone && it.exclusionReason == "" {
			counts[it.kind]++
		}
	}

	result := &objectSnapshot{kinds: map[schema.GroupVersionKind]*kindSnapshot{}}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(maxParallelLists)
	for kind, count := range counts {
		if count < minObjectsToList {
			continue
		}
		group.Go(func() error {
			if found := listKindMetadata(ctx, c, kind); found != nil {
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

// listKindMetadata lists the objects of a kind. It returns nil if the kind cannot be listed
// completely.
func listKindMetadata(ctx context.Context, c client.Client, kind schema.GroupVersionKind) *kindSnapshot {
	result := &kindSnapshot{objects: map[types.NamespacedName]memory.Object{}}
	mapping, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil
	}

	result.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for range maxListPages {
		if err := c.List(ctx, page, client.Limit(listPageSize), client.Continue(page.Continue)); err != nil {
			return nil
		}
		for i := range page.Items {
			object := &page.Items[i]
			result.objects[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}] = memory.Object{UID: object.UID, Version: object.ResourceVersion}
		}
		if page.Continue == "" {
			return result
		}
	}

	return nil
}
