package operator

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// componentReader reads the components of Operators. Their metadata is watched. Their conditions are
// read when the resource version changes.
type componentReader struct {
	// live reads from the API server.
	live client.Reader
	// shared has the metadata of the shared kinds.
	shared client.Reader
	// crds has the CRDs.
	crds client.Reader
	// caches have the objects of some kinds with their conditions.
	caches   map[schema.GroupVersionKind]cachedKind
	labelled *labelledObjects

	mu sync.Mutex
	// known has the components of each Operator, as they were read last.
	known map[string]map[componentID]component
}

// componentID identifies a component.
type componentID struct {
	kind schema.GroupVersionKind
	key  types.NamespacedName
}

// component is an object that belongs to an operator.
type component struct {
	componentID

	resourceVersion string
	// status has statusFields of the status.
	status map[string]any
}

// statusFields are the fields of the status that are kept of components.
var statusFields = []string{"conditions", "phase", "reason", "message", "lastUpdateTime", "lastTransitionTime"}

// readComponents returns the components of an Operator: the objects with the label.
func (r *componentReader) readComponents(ctx context.Context, operator, label string) ([]component, error) {
	r.mu.Lock()
	before := r.known[operator]
	r.mu.Unlock()

	var all []component
	current := map[componentID]component{}
	for _, kind := range componentKinds {
		objects, err := r.listKind(ctx, kind, label)
		if err != nil {
			return nil, err
		}

		for i := range objects {
			id := componentID{kind.GroupVersionKind, types.NamespacedName{Namespace: objects[i].Namespace, Name: objects[i].Name}}
			found, ok := before[id]
			if !ok || found.resourceVersion != objects[i].ResourceVersion {
				if found, err = r.readComponent(ctx, kind, id, objects[i].ResourceVersion); client.IgnoreNotFound(err) != nil {
					return nil, err
				}
			}
			if err == nil {
				all = append(all, found)
				current[id] = found
			}
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[operator] = current
	if len(current) == 0 {
		delete(r.known, operator)
	}

	return all, nil
}

// listKind returns the metadata of the objects of a kind with a label.
func (r *componentReader) listKind(ctx context.Context, kind componentKind, label string) ([]metav1.ObjectMeta, error) {
	if !kind.isShared {
		return r.labelled.listByKey(kind.GroupVersionKind, label), nil
	}

	reader := r.shared
	if kind.GroupVersionKind == crdKind {
		reader = r.crds
	}
	objects, err := listCached(ctx, reader, kind.GroupVersionKind, client.HasLabels{label})
	if err != nil {
		return nil, fmt.Errorf("listing the components of kind %s: %w", kind.Kind, err)
	}
	return objects, nil
}

// cachedKind is a kind whose objects are in a cache with their conditions.
type cachedKind struct {
	reader    client.Reader
	newObject func() client.Object
	// status returns a pointer to the status of an object.
	status func(client.Object) any
}

// readComponent reads the conditions of a component: from a cache if it has the wanted version, else from the API server.
func (r *componentReader) readComponent(ctx context.Context, kind componentKind, id componentID, version string) (component, error) {
	found := component{componentID: id}
	if !kind.hasConditions {
		return found, nil
	}

	if known := r.findStatus(ctx, id, version); known != nil {
		status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(known)
		if err != nil {
			return found, fmt.Errorf("converting the status of %s %q: %w", id.kind.Kind, id.key.Name, err)
		}
		found.resourceVersion, found.status = version, keepConditions(status)
		return found, nil
	}

	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(id.kind)
	if err := r.live.Get(ctx, id.key, object); err != nil {
		return found, fmt.Errorf("reading %s %q: %w", id.kind.Kind, id.key.Name, err)
	}

	status, _, _ := unstructured.NestedMap(object.Object, "status") // A status of another type has no conditions.
	found.resourceVersion, found.status = object.GetResourceVersion(), keepConditions(status)
	return found, nil
}

// findStatus returns a pointer to the status of a component in a version if a cache has it, else nil.
func (r *componentReader) findStatus(ctx context.Context, id componentID, version string) any {
	cached, ok := r.caches[id.kind]
	if !ok {
		return nil
	}
	object := cached.newObject()
	if err := cached.reader.Get(ctx, id.key, object); err != nil || object.GetResourceVersion() != version {
		return nil
	}
	return cached.status(object)
}

// keepConditions returns statusFields of a status.
func keepConditions(status map[string]any) map[string]any {
	kept := map[string]any{}
	for _, field := range statusFields {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	return kept
}
