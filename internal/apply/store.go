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
	// locate returns the resource of a kind.
	locate(kind schema.GroupVersionKind) (location, error)
	get(ctx context.Context, at location, key Key) (*unstructured.Unstructured, error)
	// apply applies the object with a field manager, and returns the resulting object.
	apply(ctx context.Context, at location, u *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error)
	// delete deletes the object, with its UID and version as preconditions.
	delete(ctx context.Context, at location, key Key, uid types.UID, version string) error
	// setAnnotation sets an annotation of the object, with its UID as the precondition.
	setAnnotation(ctx context.Context, at location, key Key, uid types.UID, name, value string) error
	// replaceOwnerReferences replaces the owner references of the object, if it still is the given
	// one, unchanged.
	replaceOwnerReferences(ctx context.Context, at location, key Key, uid types.UID, version string, references []metav1.OwnerReference) error
	// replaceManagedFields replaces the managed fields of the object, if it still is the given one,
	// unchanged. It returns the resulting object.
	replaceManagedFields(ctx context.Context, at location, key Key, uid types.UID, version string, entries []metav1.ManagedFieldsEntry) (*unstructured.Unstructured, error)
	// sampleInstances returns a few objects of a resource, in any namespace, and the number of all.
	sampleInstances(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, int64, error)
}

// location is the resource of a kind, and its scope.
type location struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// maxSampleSize is how many objects a sample has at most.
const maxSampleSize = 2

// server implements store with a real API server.
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

func (s *server) resourceClient(at location, namespace string) dynamic.ResourceInterface {
	if at.namespaced {
		return s.client.Resource(at.resource).Namespace(namespace)
	}
	return s.client.Resource(at.resource)
}

func (s *server) get(ctx context.Context, at location, key Key) (*unstructured.Unstructured, error) {
	return s.resourceClient(at, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

func (s *server) apply(ctx context.Context, at location, u *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	return s.resourceClient(at, u.GetNamespace()).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: force})
}

func (s *server) delete(ctx context.Context, at location, key Key, uid types.UID, version string) error {
	policy := metav1.DeletePropagationBackground
	return s.resourceClient(at, key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy,
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
}

func (s *server) setAnnotation(ctx context.Context, at location, key Key, uid types.UID, name, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{name: value}}})
	if err != nil {
		return err
	}
	_, err = s.resourceClient(at, key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

func (s *server) replaceOwnerReferences(ctx context.Context, at location, key Key, uid types.UID, version string, references []metav1.OwnerReference) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "resourceVersion": version, "ownerReferences": references}})
	if err != nil {
		return err
	}
	_, err = s.resourceClient(at, key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

func (s *server) replaceManagedFields(ctx context.Context, at location, key Key, uid types.UID, version string, entries []metav1.ManagedFieldsEntry) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "resourceVersion": version, "managedFields": entries}})
	if err != nil {
		return nil, err
	}
	return s.resourceClient(at, key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
}

func (s *server) sampleInstances(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, int64, error) {
	list, err := s.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: maxSampleSize})
	if err != nil {
		return nil, 0, err
	}

	count := int64(len(list.Items))
	if remaining := list.GetRemainingItemCount(); remaining != nil {
		count += *remaining
	}

	return list.Items, count, nil
}
