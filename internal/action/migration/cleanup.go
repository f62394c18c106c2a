package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// removeReplacedObjects deletes what OLM Classic created and the extension has under other names:
// roles, bindings and webhook configurations. It also deletes the OperatorCondition and the copied
// CSVs.
func (m *removal) removeReplacedObjects(ctx context.Context, s *snapshot) error {
	// olm-operator restores the roles of copied CSVs, so these go first.
	copies, err := m.deleteCopiedCSVs(ctx, s)
	if err != nil {
		return err
	}

	late, err := m.listLateObjects(ctx, s)
	if err != nil {
		return err
	}

	count := copies
	for _, object := range slices.Concat(s.Removed, late) {
		deleted, err := m.deleteIfSame(ctx, &object)
		if err != nil {
			return err
		}
		if deleted {
			count++
		}
	}

	if count > 0 {
		m.reportDone("%d objects of OLM Classic deleted", count)
	}
	return nil
}

// deleteCopiedCSVs deletes the copies of the CSV, waits until they are gone, and returns their number.
func (m *removal) deleteCopiedCSVs(ctx context.Context, s *snapshot) (int, error) {
	var csvs v1alpha1.ClusterServiceVersionList
	if err := m.Client.List(ctx, &csvs, client.MatchingLabels{csvinfo.LabelCopiedFrom: s.CSV.Namespace}); err != nil {
		return 0, err
	}

	count := 0
	for i := range csvs.Items {
		csv := &csvs.Items[i]
		if csv.Name != s.CSV.Name {
			continue
		}
		if err := m.Client.Delete(ctx, csv, client.Preconditions{UID: &csv.UID}); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("deleting the copied CSV in namespace %s: %w", csv.Namespace, err)
		}
		if err := m.awaitGone(ctx, csv, csv.UID); err != nil {
			return 0, err
		}
		count++
	}
	return count, nil
}

// listLateObjects returns objects of the CSV, or of its copies, that OLM Classic created after the
// snapshot.
func (m *removal) listLateObjects(ctx context.Context, s *snapshot) ([]unstructured.Unstructured, error) {
	f := &plan.Facts{CSV: s.CSV}
	var groups operatorsv1.OperatorGroupList
	if err := m.Client.List(ctx, &groups, client.InNamespace(s.CSV.Namespace)); err != nil {
		return nil, err
	}

	f.OperatorGroups = groups.Items
	g := gatherer{client: m.Client}
	if err := g.readOwnedObjects(ctx, f); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(f.Owned, func(u unstructured.Unstructured) bool { return !plan.IsReplaced(u.GetKind()) }), nil
}

// deleteIfSame deletes an object if it still is the one that was read, and no revision controls it.
// It reports whether it did.
func (m *removal) deleteIfSame(ctx context.Context, object client.Object) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(object), live)
	controller := metav1.GetControllerOf(live)
	isExtensions := controller != nil && controller.Kind == olmv1.ClusterObjectSetKind
	if err != nil || !ok || isExtensions || live.UID != object.GetUID() || !live.DeletionTimestamp.IsZero() {
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
func (m *removal) removeMarks(ctx context.Context, s *snapshot) error {
	count := 0
	for _, object := range s.listObjects(plan.ActionAdopt, plan.ActionKeep) {
		changed, err := patchMetadata(ctx, m.Client, object, func(live *metav1.PartialObjectMetadata) (bool, error) {
			marked := removeClassicMarks(live, s.CSV)
			managed := object.Action == plan.ActionAdopt && removeClassicManagers(live)
			return marked || managed, nil
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

	return m.removeOperator(ctx, s)
}

// operatorReportTimeout limits the wait for olm-operator to observe that an operator has no components.
const operatorReportTimeout = 15 * time.Second

// removeOperator deletes the Operator, which lists the components of the operator, after the last of
// them has lost its label. olm-operator creates an Operator again while it observes a component.
func (m *removal) removeOperator(ctx context.Context, s *snapshot) error {
	operator := newOperatorObject(s)
	label, ok := csvinfo.ComponentKey(operator.GetName())
	if !ok {
		return nil
	}
	var plans v1alpha1.InstallPlanList
	if err := m.Client.List(ctx, &plans, client.InNamespace(s.CSV.Namespace), client.HasLabels{label}); err != nil {
		return err
	}
	for i := range plans.Items {
		p := &plans.Items[i]
		before := p.DeepCopy()
		delete(p.Labels, label)
		if err := m.Client.Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the label %s from InstallPlan %s/%s: %w", label, p.Namespace, p.Name, err)
		}
	}

	patient := m.Operation
	patient.Timeout = min(cmp.Or(m.Timeout, defaultTimeout), operatorReportTimeout)
	err := patient.pollUntil(ctx, "Operator "+operator.GetName(), func(ctx context.Context) (bool, string, error) {
		exists, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(operator), operator)
		refs, _, _ := unstructured.NestedSlice(operator.Object, "status", "components", "refs")
		return !exists || len(refs) == 0, fmt.Sprintf("it has %d components", len(refs)), err
	})
	if err != nil && !errors.Is(err, errTimeout) { // Without olm-operator, nothing observes the labels.
		return err
	}

	if err := m.Client.Delete(ctx, newOperatorObject(s)); ignoreMissing(err) != nil {
		return fmt.Errorf("deleting Operator %s: %w", operator.GetName(), err)
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

	owned := removeReferencesToCSV(live, csv)
	return changed || owned
}

// classicManagers are the field managers of OLM Classic. Not all implementations have the same.
var classicManagers = []string{"olm", "catalog", "olm.install", "olm-ownership-labeller", "olm-hash-labeller", "operator-lifecycle-manager", "mainstay"}

// removeClassicManagers removes the field managers of OLM Classic from an object. It reports whether
// there were any. Fields that the extension applies then have it as their only manager: when a later
// version drops such a field, it is removed. The other fields stay, so that no pod restarts.
func removeClassicManagers(live *metav1.PartialObjectMetadata) bool {
	count := len(live.ManagedFields)
	live.ManagedFields = slices.DeleteFunc(live.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		isApplied := entry.Manager == apply.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
		return entry.Subresource == "" && !isApplied && slices.Contains(classicManagers, entry.Manager)
	})
	return count != len(live.ManagedFields)
}

// removeReferencesToCSV removes the owner references to a CSV, and to its copies, from an object. It
// reports whether there were any.
func removeReferencesToCSV(live *metav1.PartialObjectMetadata, csv *v1alpha1.ClusterServiceVersion) bool {
	count := len(live.OwnerReferences)
	live.OwnerReferences = slices.DeleteFunc(live.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == v1alpha1.ClusterServiceVersionKind && r.Name == csv.Name
	})
	return count != len(live.OwnerReferences)
}
