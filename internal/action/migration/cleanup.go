package migration

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// removeReplacedObjects deletes what OLM Classic created and the extension has under other names:
// roles, bindings and webhook configurations. It also deletes the OperatorCondition, the copied
// CSVs and the Operator object.
func (m *Migrate) removeReplacedObjects(ctx context.Context, s *snapshot) error {
	count := 0
	for i := range s.Removed {
		deleted, err := m.deleteIfSame(ctx, &s.Removed[i])
		if err != nil {
			return err
		}
		if deleted {
			count++
		}
	}

	var csvs v1alpha1.ClusterServiceVersionList
	if err := m.Client.List(ctx, &csvs, client.MatchingLabels{csvinfo.LabelCopiedFrom: s.CSV.Namespace}); err != nil {
		return err
	}
	for i := range csvs.Items {
		if csvs.Items[i].Name != s.CSV.Name {
			continue
		}
		if err := m.Client.Delete(ctx, &csvs.Items[i], client.Preconditions{UID: &csvs.Items[i].UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the copied CSV in namespace %s: %w", csvs.Items[i].Namespace, err)
		}
		count++
	}

	if count > 0 {
		m.reportDone("%d objects of OLM Classic deleted", count)
	}
	return nil
}

// deleteIfSame deletes an object if it still is the one of the snapshot and nothing controls it
// that belongs to OLM v1.
func (m *Migrate) deleteIfSame(ctx context.Context, object client.Object) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(object), live)
	if err != nil || !ok || live.UID != object.GetUID() || !live.DeletionTimestamp.IsZero() {
		return false, err
	}

	uid := live.UID
	err = m.Client.Delete(ctx, live, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting %s %s: %w", live.Kind, client.ObjectKeyFromObject(live), err)
	}
	return true, nil
}

// removeMarks removes the marks of OLM Classic from the objects that stay. A later CSV of the same
// name would otherwise regard them as its own.
func (m *Migrate) removeMarks(ctx context.Context, s *snapshot) error {
	count := 0
	for _, object := range s.listObjects(plan.ActionAdopt, plan.ActionKeep) {
		changed, err := patchMetadata(ctx, m.Client, object, func(live *metav1.PartialObjectMetadata) (bool, error) {
			return removeClassicMarks(live, s.CSV), nil
		})
		if err != nil {
			return err
		}
		if changed {
			count++
		}
	}

	if count > 0 {
		m.reportDone("marks of OLM Classic removed from %d objects", count)
	}

	// The labels of its components are gone, so that OLM Classic does not create it again.
	if err := m.Client.Delete(ctx, newOperatorObject(s)); ignoreMissing(err) != nil {
		return fmt.Errorf("deleting the Operator object: %w", err)
	}
	return nil
}

// removeClassicMarks removes the marks of OLM Classic from an object. It reports whether there were any.
func removeClassicMarks(live *metav1.PartialObjectMetadata, csv *v1alpha1.ClusterServiceVersion) bool {
	changed := false
	for key := range live.Labels {
		if isClassicLabel(key) {
			delete(live.Labels, key)
			changed = true
		}
	}
	for key, value := range live.Annotations {
		if isClassicAnnotation(key, value, csv) {
			delete(live.Annotations, key)
			changed = true
		}
	}

	count := len(live.OwnerReferences)
	live.OwnerReferences = slices.DeleteFunc(live.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == v1alpha1.ClusterServiceVersionKind && r.UID == csv.UID
	})

	return changed || count != len(live.OwnerReferences)
}
