package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	// collectInterval is how long changes are collected before Subscriptions are reconciled. An
	// installation creates some ten objects in a short time. Labels that are added to them meanwhile would
	// make the writes of the other controllers fail with conflicts.
	collectInterval = time.Second
	// reportInterval is the same for Operators, which are reported after their components were labelled.
	reportInterval = 3 * collectInterval / 2
	// pageSize is how many objects one answer to a list request has.
	pageSize = 500
)

// labelledObjects has the metadata of the labelled objects of the kinds that are not in the
// manager's cache. It is a source of the controller of Operators, which it enqueues when a labelled
// object changes.
//
// The API server cannot select labels by a prefix of their keys. Therefore there is one watch for
// the metadata of all objects of a kind, of which only labelled ones are kept: the memory depends on
// their number alone, and the number of watches on nothing.
type labelledObjects struct {
	client metadata.Interface
	mapper meta.RESTMapper
	// operatorsOf returns the names of the Operators to which an object with the given labels belongs.
	operatorsOf func(ctx context.Context, labels map[string]string) []string

	// stores are those of the kinds. WaitForSync waits until they are complete.
	stores map[schema.GroupVersionKind]*labelledStore
}

// newLabelledObjects returns the labelled objects of a manager's cluster.
func newLabelledObjects(mgr ctrl.Manager, operatorsOf func(context.Context, map[string]string) []string) (*labelledObjects, error) {
	c, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating the client for the metadata of components: %w", err)
	}

	l := &labelledObjects{client: c, mapper: mgr.GetRESTMapper(), operatorsOf: operatorsOf, stores: map[schema.GroupVersionKind]*labelledStore{}}
	for _, kind := range componentKinds {
		if !kind.isShared {
			l.stores[kind.GroupVersionKind] = &labelledStore{objects: map[types.NamespacedName]metav1.ObjectMeta{}, synced: make(chan struct{})}
		}
	}
	return l, nil
}

// Start starts the watches. It implements source.Source.
func (l *labelledObjects) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	for _, kind := range componentKinds {
		if kind.isShared {
			continue
		}

		mapping, err := l.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("watching the components of kind %s: %w", kind.Kind, err)
		}

		store := l.stores[kind.GroupVersionKind]
		store.enqueue = func(labels map[string]string) {
			for _, name := range l.operatorsOf(ctx, labels) {
				queue.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}, reportInterval)
			}
		}
		reflector := toolscache.NewReflectorWithOptions(
			newLabelledListWatch(l.client.Resource(mapping.Resource), kind.selector), &metav1.PartialObjectMetadata{}, store,
			toolscache.ReflectorOptions{Name: "components of kind " + kind.Kind},
		)
		go reflector.RunWithContext(ctx)
	}

	return nil
}

// WaitForSync waits for the first list of each kind. It implements source.SyncingSource.
func (l *labelledObjects) WaitForSync(ctx context.Context) error {
	for kind, store := range l.stores {
		select {
		case <-store.synced:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the components of kind %s: %w", kind.Kind, ctx.Err())
		}
	}
	return nil
}

// listByKey returns the metadata of the objects of a kind that have a label.
func (l *labelledObjects) listByKey(kind schema.GroupVersionKind, key string) []metav1.ObjectMeta {
	store := l.stores[kind]
	store.mu.Lock()
	defer store.mu.Unlock()
	var found []metav1.ObjectMeta
	for _, object := range store.objects {
		if _, ok := object.Labels[key]; ok {
			found = append(found, object)
		}
	}
	return found
}

// labelledStore has the metadata of the labelled objects of a kind. It implements
// cache.ReflectorStore of client-go.
type labelledStore struct {
	// enqueue enqueues the Operators to which an object with the given labels belongs.
	enqueue func(labels map[string]string)
	// synced is closed by the first Replace.
	synced   chan struct{}
	syncOnce sync.Once

	mu      sync.Mutex
	objects map[types.NamespacedName]metav1.ObjectMeta
}

// Add implements cache.ReflectorStore.
func (s *labelledStore) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s *labelledStore) Update(object any) error {
	found, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("%T is not the metadata of an object", object)
	}
	s.setObject(client.ObjectKeyFromObject(found), keepComponentMetadata(&found.ObjectMeta))
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *labelledStore) Delete(object any) error {
	found, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("%T is not the metadata of an object", object)
	}
	s.setObject(client.ObjectKeyFromObject(found), metav1.ObjectMeta{})
	return nil
}

// setObject keeps the metadata of an object, or removes it if it has no label. It enqueues the
// Operators to which the object belongs or belonged.
func (s *labelledStore) setObject(key types.NamespacedName, object metav1.ObjectMeta) {
	s.mu.Lock()
	before := s.objects[key]
	if len(object.Labels) == 0 {
		delete(s.objects, key)
	} else {
		s.objects[key] = object
	}
	s.mu.Unlock()

	for _, labels := range []map[string]string{before.Labels, object.Labels} {
		if len(labels) > 0 {
			s.enqueue(labels)
		}
	}
}

// Replace implements cache.ReflectorStore.
func (s *labelledStore) Replace(list []any, _ string) error {
	s.mu.Lock()
	gone := slices.Collect(maps.Keys(s.objects))
	s.mu.Unlock()

	current := map[types.NamespacedName]bool{}
	for _, object := range list {
		if found, ok := object.(*metav1.PartialObjectMetadata); ok {
			current[client.ObjectKeyFromObject(found)] = true
		}
		if err := s.Update(object); err != nil {
			return err
		}
	}
	for _, key := range gone {
		if !current[key] {
			s.setObject(key, metav1.ObjectMeta{})
		}
	}

	s.syncOnce.Do(func() { close(s.synced) })
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do.
func (*labelledStore) Resync() error { return nil }

// keepComponentMetadata returns the part of an object's metadata that is kept: its name, version and
// the labels of components.
func keepComponentMetadata(object *metav1.ObjectMeta) metav1.ObjectMeta {
	var labels map[string]string
	for key, value := range object.Labels {
		if strings.HasPrefix(key, csvinfo.LabelComponent) {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = value
		}
	}
	return metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion, Labels: labels}
}

// labelledListWatch lists the labelled objects of a kind, page by page, and watches all.
type labelledListWatch struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported returns true: the reflector would keep all objects of a streamed
// list until it ends.
func (labelledListWatch) IsWatchListSemanticsUnSupported() bool { return true }

// newLabelledListWatch returns the list and watch of a resource. Only objects that the selector
// selects are sent.
func newLabelledListWatch(resource metadata.Getter, selector string) labelledListWatch {
	return labelledListWatch{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return listLabelled(ctx, resource, selector)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return resource.Watch(ctx, options)
		},
	}}
}

// listLabelled lists the labelled objects of a resource. Other objects are dropped with their page.
func listLabelled(ctx context.Context, resource metadata.Getter, selector string) (*metav1.PartialObjectMetadataList, error) {
	found := &metav1.PartialObjectMetadataList{}
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := resource.List(ctx, options)
		if err != nil {
			return nil, err
		}

		for i := range page.Items {
			if kept := keepComponentMetadata(&page.Items[i].ObjectMeta); len(kept.Labels) > 0 {
				found.Items = append(found.Items, metav1.PartialObjectMetadata{ObjectMeta: kept})
			}
		}

		found.ResourceVersion, options.Continue = page.ResourceVersion, page.Continue
		if page.Continue == "" {
			return found, nil
		}
	}
}
