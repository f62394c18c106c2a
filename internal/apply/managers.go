package apply

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// formerManagers are the field managers of other implementations of OLM v1. While they own a field, a
// version that drops it does not remove it.
var formerManagers = []string{"operator-controller", "olm.operatorframework.io"}

func isFormerManager(entry metav1.ManagedFieldsEntry) bool {
	return entry.Subresource == "" && slices.Contains(formerManagers, entry.Manager)
}

// removeFormerManagers removes the field managers of other implementations from an object that was
// applied. The fields stay, and FieldManager alone owns those of the manifest. It returns the resulting
// object.
func (o *objectEngine) removeFormerManagers(ctx context.Context, at location, key Key, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	entries := after.GetManagedFields()
	if !slices.ContainsFunc(entries, isFormerManager) {
		return after, nil
	}
	return o.store.replaceManagedFields(ctx, at, key, after.GetUID(), after.GetResourceVersion(), slices.DeleteFunc(entries, isFormerManager))
}
