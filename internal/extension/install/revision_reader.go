package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// revisionReader reads the revisions of extensions, and their objects.
type revisionReader struct {
	// client reads from the cache.
	client client.Reader
	// reader reads from the API server.
	reader          client.Reader
	systemNamespace string
}

// listOwnRevisions reads the revisions of an extension from the cache.
func (r *revisionReader) listOwnRevisions(ctx context.Context, ext *olmv1.ClusterExtension) (revisions, error) {
	return listRevisions(ctx, r.client, ext)
}

// listStoredRevisions reads the revisions of an extension from the API server.
func (r *revisionReader) listStoredRevisions(ctx context.Context, ext *olmv1.ClusterExtension) (revisions, error) {
	return listRevisions(ctx, r.reader, ext)
}

func listRevisions(ctx context.Context, reader client.Reader, ext *olmv1.ClusterExtension) (revisions, error) {
	var sets olmv1.ClusterObjectSetList
	err := reader.List(ctx, &sets, client.MatchingLabels{
		olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: ext.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the revisions of %q: %w", ext.Name, err)
	}

	own := sets.Items[:0]
	for _, set := range sets.Items {
		if metav1.IsControlledBy(&set, ext) {
			own = append(own, set)
		}
	}

	return sortRevisions(own), nil
}

// loadObjects reads the objects of a revision, also those in Secrets.
func (r *revisionReader) loadObjects(ctx context.Context, set *olmv1.ClusterObjectSet) ([]unstructured.Unstructured, error) {
	content, err := apply.Load(ctx, r.reader, set, r.systemNamespace)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the objects of revision %q: %w", set.Name, err)
	case len(content.Missing) > 0:
		return nil, fmt.Errorf("objects of revision %q are missing, as there is no Secret %s", set.Name, strings.Join(content.Missing, ", "))
	case len(content.Malformed) > 0:
		return nil, fmt.Errorf("revision %q: %w", set.Name, errors.Join(content.Malformed...))
	}

	var objects []unstructured.Unstructured
	for _, phase := range content.Phases {
		for _, object := range phase.Objects {
			objects = append(objects, *object.Manifest)
		}
	}

	return objects, nil
}

// listRemovedObjects returns the objects of the active revisions that are not among the new
// objects.
func (r *revisionReader) listRemovedObjects(ctx context.Context, revs revisions, objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	seen := map[apply.Key]bool{}
	for i := range objects {
		seen[apply.KeyOf(&objects[i])] = true
	}

	var removed []unstructured.Unstructured
	for _, set := range revs.active() {
		content, err := apply.Load(ctx, r.reader, &set, r.systemNamespace)
		if err != nil {
			return nil, fmt.Errorf("reading the objects of revision %q: %w", set.Name, err)
		}
		for _, phase := range content.Phases {
			for _, object := range phase.Objects {
				if key := apply.KeyOf(object.Manifest); !seen[key] {
					seen[key] = true
					removed = append(removed, *object.Manifest)
				}
			}
		}
	}

	return removed, nil
}
