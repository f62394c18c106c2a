// Package owned deletes what was made for a ClusterServiceVersion outside of its namespace, where no
// owner reference leads. The labels of the owner mark such objects.
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

// List returns the metadata of the objects of a kind that were made for a ClusterServiceVersion.
func List(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, csv types.NamespacedName, in ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	options := append([]client.ListOption{client.MatchingLabels(csvinfo.OwnerLabels(csv.Namespace, csv.Name))}, in...)
	if err := reader.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing each %s of ClusterServiceVersion %s: %w", kind.Kind, csv, err)
	}
	return list.Items, nil
}

// Delete deletes the objects of a kind that were made for a ClusterServiceVersion, and returns how many
// there were. It deletes one at a time: the right to delete collections would be one to delete
// everything at once. An object that has changed since it was read stays, and is an error.
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
