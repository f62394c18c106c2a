package migration

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// FinalizerHold is the finalizer of a Subscription with a configuration, from its deletion until that
// of the CSV. OLM Classic neither installs nor updates an operator whose Subscription is being
// deleted, but still applies its configuration to the Deployments. Without it the pods would restart.
const FinalizerHold = "mainstay.dev/migration"

// removal removes an operator from OLM Classic: the Subscription, the CSV, and what OLM Classic created
// for them.
type removal struct{ Operation }

func hasConfig(s *snapshot) bool { return s.Subscription.Spec.Config != nil }

// deleteSubscription deletes the Subscription and leaves its InstallPlans. A Subscription with a
// configuration is held by a finalizer.
func (m *removal) deleteSubscription(ctx context.Context, s *snapshot) error {
	live := &v1alpha1.Subscription{}
	ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(s.Subscription), live)
	if err != nil || !ok {
		return err
	}
	if live.UID != s.Subscription.UID {
		return fmt.Errorf("subscription %s/%s was created again during the migration: delete it", live.Namespace, live.Name)
	}
	if !hasConfig(s) {
		return m.reportDeleted(live, m.deleteAndOrphan(ctx, live, live.UID, ""))
	}
	if !live.DeletionTimestamp.IsZero() {
		return nil
	}

	if controllerutil.AddFinalizer(live, FinalizerHold) {
		before := live.DeepCopy()
		controllerutil.RemoveFinalizer(before, FinalizerHold)
		if err := m.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("holding subscription %s/%s: %w", live.Namespace, live.Name, err)
		}
	}
	return m.reportDeleted(live, m.requestDeletion(ctx, live, live.UID, ""))
}

func (m *removal) reportDeleted(object client.Object, err error) error {
	if err == nil {
		m.reportDone("%s %s deleted", kindOf(object), client.ObjectKeyFromObject(object))
	}
	return err
}

// dropHold removes the finalizer from a Subscription that is being deleted, and waits until it is
// gone.
func (o *Operation) dropHold(ctx context.Context, s *snapshot) error {
	live := &v1alpha1.Subscription{}
	ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(s.Subscription), live)
	if err != nil || !ok || live.DeletionTimestamp.IsZero() {
		return err
	}

	object := plan.Object{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind, Namespace: live.Namespace, Name: live.Name}
	_, err = patchMetadata(ctx, o.Client, object, func(live *metav1.PartialObjectMetadata) (bool, error) {
		return controllerutil.RemoveFinalizer(live, FinalizerHold), nil
	})
	if err != nil {
		return err
	}
	return o.awaitGone(ctx, live, live.UID)
}

// deleteAndOrphan deletes an object, without those that it owns, and waits until it no longer exists. The
// UID, and the version unless it is empty, are preconditions.
func (m *removal) deleteAndOrphan(ctx context.Context, object client.Object, uid types.UID, version string) error {
	if err := m.requestDeletion(ctx, object, uid, version); err != nil {
		return err
	}
	return m.awaitGone(ctx, object, uid)
}

func (m *removal) requestDeletion(ctx context.Context, object client.Object, uid types.UID, version string) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	conditions := client.Preconditions{UID: &uid}
	if version != "" {
		conditions.ResourceVersion = &version
	}
	err := m.Client.Delete(ctx, object, conditions, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	return client.IgnoreNotFound(err)
}

// awaitGone waits until an object no longer exists.
func (o *Operation) awaitGone(ctx context.Context, object client.Object, uid types.UID) error {
	what := fmt.Sprintf("the deletion of %s %s", kindOf(object), client.ObjectKeyFromObject(object))
	return o.pollUntil(ctx, what, func(ctx context.Context) (bool, string, error) {
		live := &metav1.PartialObjectMetadata{}
		gvk, err := o.Client.GroupVersionKindFor(object)
		if err != nil {
			return false, "", err
		}
		live.SetGroupVersionKind(gvk)
		ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(object), live)
		return !ok || live.UID != uid, fmt.Sprintf("it has the finalizers %v", live.Finalizers), err
	})
}

func kindOf(object client.Object) string {
	switch object.(type) {
	case *v1alpha1.Subscription:
		return v1alpha1.SubscriptionKind
	case *v1alpha1.ClusterServiceVersion:
		return v1alpha1.ClusterServiceVersionKind
	case *olmv1.ClusterExtension:
		return olmv1.ClusterExtensionKind
	}
	return object.GetObjectKind().GroupVersionKind().Kind
}

// checkRacingCSV returns an error if an InstallPlan that was being carried out has replaced the CSV
// or created it again.
func (m *removal) checkRacingCSV(ctx context.Context, s *snapshot) error {
	var csvs v1alpha1.ClusterServiceVersionList
	if err := m.Client.List(ctx, &csvs, client.InNamespace(s.CSV.Namespace)); err != nil {
		return err
	}
	for i := range csvs.Items {
		csv := &csvs.Items[i]
		switch {
		case csv.Name == s.CSV.Name && csv.UID != s.CSV.UID:
			return fmt.Errorf("ClusterServiceVersion %s/%s was created again during the migration, by an InstallPlan or a user: delete it if it was a user, otherwise go back", csv.Namespace, csv.Name)
		case csv.Spec.Replaces == s.CSV.Name:
			return fmt.Errorf("ClusterServiceVersion %s/%s replaces %s: an update began during the migration, go back", csv.Namespace, csv.Name, s.CSV.Name)
		}
	}
	return nil
}

// maxDeletionAttempts limits how often the deletion of the CSV is tried while olm-operator changes
// the CSV.
const maxDeletionAttempts = 50

// deleteCSV deletes the CSV without the finalizer of olm-operator. That finalizer would delete the
// cluster roles and webhook configurations, and reset the conversion of CRDs. The version is the
// precondition: if olm-operator adds the finalizer again in between, the deletion is refused and
// tried again.
func (m *removal) deleteCSV(ctx context.Context, s *snapshot) error {
	for range maxDeletionAttempts {
		if err := m.checkRacingCSV(ctx, s); err != nil {
			return err
		}

		live := &v1alpha1.ClusterServiceVersion{}
		ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(s.CSV), live)
		if err != nil || !ok {
			return err
		}

		if err := m.releaseObjects(ctx, s); err != nil {
			return err
		}
		err = m.deleteCSVWithoutFinalizer(ctx, live)
		if err == nil {
			m.reportDone("ClusterServiceVersion %s/%s deleted", live.Namespace, live.Name)
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting ClusterServiceVersion %s/%s: %w", live.Namespace, live.Name, err)
		}
	}

	return fmt.Errorf("ClusterServiceVersion %s/%s was changed by another client during %d attempts to delete it", s.CSV.Namespace, s.CSV.Name, maxDeletionAttempts)
}

// releaseObjects removes the owner labels from the objects outside of the namespace of the CSV.
// olm-operator deletes such objects if the CSV that the labels name does not exist.
//
// If the webhooks get new certificates, no revision owns the objects yet. Then the references to the
// CSV are removed as well, so that the garbage collector leaves the objects even if it has not
// observed one of them.
func (m *removal) releaseObjects(ctx context.Context, s *snapshot) error {
	for _, object := range s.listObjects(plan.ActionAdopt, plan.ActionKeep, plan.ActionRemove) {
		if object.Kind == operatorsv2.OperatorConditionKind {
			continue // It goes with the CSV, and olm-operator would add the reference again.
		}
		_, err := patchMetadata(ctx, m.Client, object, func(live *metav1.PartialObjectMetadata) (bool, error) {
			changed := live.Namespace != s.CSV.Namespace && removeOwnerLabels(live, s.CSV)
			if s.changesCertificates() {
				changed = removeReferencesToCSV(live, s.CSV) || changed
			}
			return changed, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeOwnerLabels removes the labels that name the CSV as owner. It reports whether there were any.
func removeOwnerLabels(live *metav1.PartialObjectMetadata, csv *v1alpha1.ClusterServiceVersion) bool {
	namespace, name, ok := csvinfo.OwnedByLabels(live.Labels)
	if !ok || namespace != csv.Namespace || name != csv.Name {
		return false
	}
	for _, key := range ownerLabels {
		delete(live.Labels, key)
	}
	return true
}

func (m *removal) deleteCSVWithoutFinalizer(ctx context.Context, live *v1alpha1.ClusterServiceVersion) error {
	if live.DeletionTimestamp.IsZero() && len(live.Finalizers) > 0 {
		before := live.DeepCopy()
		live.Finalizers = nil
		if err := m.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	return m.deleteAndOrphan(ctx, live, live.UID, live.ResourceVersion)
}

// newOperatorObject returns the object in which OLM Classic summarizes the operator, with only its
// name. Not every OLM Classic has the kind.
func newOperatorObject(s *snapshot) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("operators.coreos.com/v1")
	u.SetKind("Operator")
	u.SetName(s.Subscription.Spec.Package + "." + s.Subscription.Namespace)
	return u
}

// ignoreMissing returns nil if an object or its kind does not exist.
func ignoreMissing(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
