package apply

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// store reads and writes single objects.
type store interface {
	// locate says where objects of a kind are.
	locate(kind schema.GroupVersionKind) (location, error)
	get(ctx context.Context, at location, key Key) (*unstructured.Unstructured, error)
	// apply applies the object in the name of a field manager, and gives it as it is
	// then.
	apply(ctx context.Context, at location, u *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error)
	// delete deletes the object if it still is the given one, unchanged.
	delete(ctx context.Context, at location, key Key, uid types.UID, version string) error
	// annotate sets an annotation of the object, if it still is the one with the UID.
	annotate(ctx context.Context, at location, key Key, uid types.UID, name, value string) error
	// release replaces the owner references of the object, if it still is the given one,
	// unchanged.
	release(ctx context.Context, at location, key Key, uid types.UID, version string, references []metav1.OwnerReference) error
	// sample returns a few objects of a resource, in any namespace, and the number of all.
	sample(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, int64, error)
}

// location is where the API server keeps a kind.
type location struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// sampled is how many objects a sample has at most.
const sampled = 2

// server is the store of a real API server.
type server struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func (s *server) locate(kind schema.GroupVersionKind) (location, error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return location{}, err
	}
	return location{resource: mapping.Resource, namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

func (s *server) at(at location, namespace string) dynamic.ResourceInterface {
	if at.namespaced {
		return s.client.Resource(at.resource).Namespace(namespace)
	}
	return s.client.Resource(at.resource)
}

func (s *server) get(ctx context.Context, at location, key Key) (*unstructured.Unstructured, error) {
	return s.at(at, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

func (s *server) apply(ctx context.Context, at location, u *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	return s.at(at, u.GetNamespace()).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: force})
}

func (s *server) delete(ctx context.Context, at location, key Key, uid types.UID, version string) error {
	policy := metav1.DeletePropagationBackground
	return s.at(at, key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy,
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
}

func (s *server) annotate(ctx context.Context, at location, key Key, uid types.UID, name, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{name: value}}})
	if err != nil {
		return err
	}
	_, err = s.at(at, key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

func (s *server) release(ctx context.Context, at location, key Key, uid types.UID, version string, references []metav1.OwnerReference) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "resourceVersion": version, "ownerReferences": references}})
	if err != nil {
		return err
	}
	_, err = s.at(at, key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

func (s *server) sample(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, int64, error) {
	list, err := s.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: sampled})
	if err != nil {
		return nil, 0, err
	}

	count := int64(len(list.Items))
	if remaining := list.GetRemainingItemCount(); remaining != nil {
		count += *remaining
	}

	return list.Items, count, nil
}
