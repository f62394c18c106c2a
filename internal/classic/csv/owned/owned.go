// Package owned deletes objects outside of a ClusterServiceVersion's namespace that were created for it. They have
// owner labels, because an owner reference to another namespace is not possible.
package owned

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// List returns the metadata of the objects of a kind that were created for a ClusterServiceVersion.
func List(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, csv types.NamespacedName, in ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	options := append([]client.ListOption{client.MatchingLabelsSelector{Selector: csvinfo.SelectOwned(csv.Namespace, csv.Name)}}, in...)
	if err := reader.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing each %s of ClusterServiceVersion %s: %w", kind.Kind, csv, err)
	}
	return list.Items, nil
}

// Delete deletes the objects of a kind that were created for a ClusterServiceVersion, and returns their number. It
// deletes them one by one, because the right to delete a collection would allow it to delete everything at once. It
// returns an error for an object that has changed since it was read.
func Delete(ctx context.Context, reader client.Reader, writer client.Writer, kind schema.GroupVersionKind, csv types.NamespacedName, in ...client.ListOption) (int, error) {
	items, err := List(ctx, reader, kind, csv, in...)
	if err != nil {
		return 0, err
	}

	for i := range items {
		item := &items[i]
		item.SetGroupVersionKind(kind)
		same := client.Preconditions{UID: &item.UID, ResourceVersion: &item.ResourceVersion}
		if err := writer.Delete(ctx, item, same); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("deleting %s %s of ClusterServiceVersion %s: %w", kind.Kind, item.Name, csv, err)
		}
	}

	return len(items), nil
}
