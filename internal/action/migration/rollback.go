package migration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Rollback returns an operator to OLM Classic, at any time before the migration is confirmed. An
// interrupted rollback continues when it is started again.
type Rollback struct {
	Operation

	// AcknowledgeInstalled accepts the rollback although the extension is installed.
	AcknowledgeInstalled bool
}

// Run returns the operator to OLM Classic. It returns when the Subscription exists again.
func (r *Rollback) Run(ctx context.Context) error {
	s, err := loadSnapshot(ctx, r.Client, r.subscriptionKey())
	if err != nil {
		return err
	}
	if s == nil {
		return &report.Error{
			Object: "subscription " + r.subscriptionKey().String(), Err: errors.New("there is no snapshot of a migration"),
			Advice: "it was never migrated, or the migration was confirmed: then uninstall the extension with --keep-crds and subscribe again",
		}
	}
	if err := r.checkRollback(ctx, s); err != nil {
		return err
	}
	return (&restoration{r.Operation}).restoreClassic(ctx, s)
}

// restoration returns an operator to OLM Classic.
type restoration struct{ Operation }

// restoreClassic carries out the steps of a rollback.
func (o *restoration) restoreClassic(ctx context.Context, s *snapshot) error {
	for _, step := range o.orderRollback(s) {
		if err := step(ctx, s); err != nil {
			return &report.Error{
				Object: "subscription " + o.subscriptionKey().String(), Err: err,
				Advice: "run the command with --rollback again to continue",
			}
		}
	}
	return nil
}

// orderRollback returns the steps of a rollback in their order. The Subscription is restored last, so
// that no InstallPlan interferes. If it has a configuration, it is restored before the CSV: without it
// OLM Classic would restart the pods.
func (o *restoration) orderRollback(s *snapshot) []func(context.Context, *snapshot) error {
	steps := []func(context.Context, *snapshot) error{o.setDirection, o.restoreRoles, o.releaseObjects}
	if hasConfig(s) {
		steps = append(steps, o.dropHold, o.restoreSubscription)
	}
	steps = append(steps, o.restoreCSV, o.restoreMarks, o.awaitCSV, o.deleteExtension, o.releaseCertificates, o.dropHold, o.restoreSubscription)
	return append(steps, o.restoreApproval, o.deleteSnapshot)
}

// checkRollback refuses a rollback that would change the version, and one of an installed extension
// that the user has not accepted.
func (r *Rollback) checkRollback(ctx context.Context, s *snapshot) error {
	object := "clusterextension " + s.Extension.Name
	if ok, err := getOptional(ctx, r.Client, client.ObjectKey{Name: s.CSV.Namespace}, &corev1.Namespace{}); err != nil {
		return err
	} else if !ok {
		return &report.Error{Object: "namespace " + s.CSV.Namespace, Err: errors.New("it does not exist"), Advice: "create it first"}
	}

	ext := &olmv1.ClusterExtension{}
	ok, err := getOptional(ctx, r.Client, client.ObjectKeyFromObject(s.Extension), ext)
	if err != nil || !ok || !isMigratedExtension(ext, s) || ext.Status.Install == nil {
		return newServerError(object, err)
	}

	if version := ext.Status.Install.Bundle.Version; version != s.bundleVersion() {
		return &report.Error{
			Object: object, Err: fmt.Errorf("it was updated to version %s, and OLM Classic had %s", version, s.bundleVersion()),
			Advice: fmt.Sprintf("set its version to %s first, if the operator supports that", s.bundleVersion()),
		}
	}
	if !r.AcknowledgeInstalled && !s.isRollingBack() {
		return &report.Error{Object: object, Err: errors.New("it is installed"), Advice: "accept that it is removed with --acknowledge installed-extension"}
	}

	return nil
}

// setDirection records that the operator returns to OLM Classic, so that no other program migrates
// it at the same time.
func (o *restoration) setDirection(ctx context.Context, s *snapshot) error {
	if s.isRollingBack() {
		return nil
	}
	before := s.secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.secret.ObjectMeta, AnnotationDirection, DirectionClassic)
	return o.Client.Patch(ctx, s.secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// roleKinds are the kinds of objects that are restored from the snapshot. olm-operator creates
// webhook configurations and OperatorConditions itself.
var roleKinds = []string{"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}

// restoreRoles creates the roles and bindings of OLM Classic again, before those of the extension
// are removed.
func (o *restoration) restoreRoles(ctx context.Context, s *snapshot) error {
	count := 0
	for _, kind := range roleKinds {
		for i := range s.Removed {
			if s.Removed[i].GetKind() != kind || isOwnedByCondition(&s.Removed[i]) || isCopiedRole(&s.Removed[i]) {
				continue
			}
			created, err := o.restoreObject(ctx, &s.Removed[i], s.CSV.Namespace)
			if err != nil {
				return fmt.Errorf("restoring %s %s: %w", kind, client.ObjectKeyFromObject(&s.Removed[i]), err)
			}
			if created {
				count++
			}
		}
	}

	if count > 0 {
		o.reportDone("%d roles and bindings of OLM Classic restored", count)
	}
	return nil
}

// restoreObject creates an object of the snapshot, unless it exists. It reports whether it did. The
// namespace is that of the CSV.
func (o *restoration) restoreObject(ctx context.Context, u *unstructured.Unstructured, namespace string) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(u.GroupVersionKind())
	if ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(u), live); err != nil || ok {
		return false, err
	}

	wanted := newRestoredObject(u)
	if u.GetNamespace() != namespace {
		wanted.SetLabels(withoutOwnerLabels(u.GetLabels())) // olm-operator deletes it while the CSV does not exist.
	}
	return true, o.Client.Create(ctx, wanted)
}

// withoutOwnerLabels returns the labels without those that name an owner. restoreMarks adds them when
// the CSV exists.
func withoutOwnerLabels(labels map[string]string) map[string]string {
	rest := maps.Clone(labels)
	maps.DeleteFunc(rest, func(key, _ string) bool { return slices.Contains(ownerLabels, key) })
	return rest
}

// ownerLabels are the labels that name the owner of an object outside of its namespace.
var ownerLabels = []string{csvinfo.LabelOwner, csvinfo.LabelOwnerNamespace, csvinfo.LabelOwnerKind}

func isOwnedByCondition(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "OperatorCondition" })
}

// isCopiedRole reports whether a role or binding belongs to a copied CSV. olm-operator copies it again.
func isCopiedRole(u *unstructured.Unstructured) bool {
	return slices.Contains(roleKinds, u.GetKind()) && u.GetLabels()[csvinfo.LabelCopiedFrom] != ""
}

// newRestoredObject returns an object of the snapshot without the fields that the API server sets,
// and without references to owners that are gone.
func newRestoredObject(u *unstructured.Unstructured) *unstructured.Unstructured {
	wanted := u.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "ownerReferences", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(wanted.Object, "metadata", field)
	}
	return wanted
}

// releaseObjects removes the marks of the extension from its objects. Its revisions do not take over
// objects that nothing controls and that lack their labels, and do not delete them either.
func (o *restoration) releaseObjects(ctx context.Context, s *snapshot) error {
	count := 0
	for _, object := range s.listObjects(plan.ActionAdopt) {
		changed, err := patchMetadata(ctx, o.Client, object, func(live *metav1.PartialObjectMetadata) (bool, error) {
			return removeExtensionMarks(live, s.Extension.Name), nil
		})
		if err != nil {
			return err
		}
		if changed {
			count++
		}
	}

	if count > 0 {
		o.reportDone("%d objects released from clusterextension %s", count, s.Extension.Name)
	}
	return nil
}

// removeExtensionMarks removes the labels of an extension and the references to its revisions. It
// reports whether there were any.
func removeExtensionMarks(live *metav1.PartialObjectMetadata, extension string) bool {
	if live.Labels[olmv1.LabelOwnerName] != extension || live.Labels[olmv1.LabelOwnerKind] != olmv1.ClusterExtensionKind {
		return false
	}

	delete(live.Labels, olmv1.LabelOwnerName)
	delete(live.Labels, olmv1.LabelOwnerKind)
	live.OwnerReferences = slices.DeleteFunc(live.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == olmv1.ClusterObjectSetKind })
	return true
}

// restoreCSV creates the CSV again, unless it still exists.
func (o *restoration) restoreCSV(ctx context.Context, s *snapshot) error {
	csv := &v1alpha1.ClusterServiceVersion{}
	ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(s.CSV), csv)
	switch {
	case err != nil:
		return err
	case ok && !csv.DeletionTimestamp.IsZero():
		if err := o.awaitGone(ctx, csv, csv.UID); err != nil {
			return err
		}
	case ok:
		s.CSV.UID = csv.UID
		return nil
	}

	csv = &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.CSV.Namespace, Name: s.CSV.Name, Labels: s.CSV.Labels, Annotations: s.CSV.Annotations},
		Spec:       *s.CSV.Spec.DeepCopy(),
	}
	if err := o.Client.Create(ctx, csv); err != nil {
		return fmt.Errorf("restoring ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}

	s.CSV.UID = csv.UID
	o.reportDone("ClusterServiceVersion %s/%s restored", csv.Namespace, csv.Name)
	return nil
}

// restoreMarks marks the objects as those of the CSV again.
func (o *restoration) restoreMarks(ctx context.Context, s *snapshot) error {
	restored := slices.Clone(s.Marks)
	for i := range s.Removed {
		u := &s.Removed[i]
		object := plan.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
		if slices.Contains(roleKinds, u.GetKind()) && u.GetNamespace() != s.CSV.Namespace {
			restored = append(restored, marks{Object: object, Labels: u.GetLabels()})
			continue
		}

		owned := slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == v1alpha1.ClusterServiceVersionKind })
		if slices.Contains(roleKinds, u.GetKind()) && owned && u.GetNamespace() == s.CSV.Namespace {
			restored = append(restored, marks{Object: object, Owned: true})
		}
	}

	for _, mark := range restored {
		_, err := patchMetadata(ctx, o.Client, mark.Object, func(live *metav1.PartialObjectMetadata) (bool, error) {
			return addClassicMarks(live, mark, s.CSV), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addClassicMarks adds the marks of OLM Classic to an object. It reports whether any was missing.
func addClassicMarks(live *metav1.PartialObjectMetadata, mark marks, csv *v1alpha1.ClusterServiceVersion) bool {
	labels := setValues(&live.Labels, mark.Labels)
	annotations := setValues(&live.Annotations, mark.Annotations)
	if !mark.Owned || csvinfo.IsOwner(live.OwnerReferences, csv) {
		return labels || annotations
	}

	live.OwnerReferences = append(slices.DeleteFunc(live.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == v1alpha1.ClusterServiceVersionKind
	}), csvinfo.OwnerReference(csv))
	return true
}

// awaitCSV waits until olm-operator reports that the operator works, and has copied its roles to the
// target namespaces.
func (o *restoration) awaitCSV(ctx context.Context, s *snapshot) error {
	return o.pollUntil(ctx, fmt.Sprintf("the installation of ClusterServiceVersion %s/%s", s.CSV.Namespace, s.CSV.Name), func(ctx context.Context) (bool, string, error) {
		csv := &v1alpha1.ClusterServiceVersion{}
		if err := o.Client.Get(ctx, client.ObjectKeyFromObject(s.CSV), csv); err != nil {
			return false, "", err
		}
		// A CSV that was broken before the migration is not expected to work after the rollback.
		met := csv.Status.Phase == v1alpha1.CSVPhaseSucceeded || s.CSV.Status.Phase != v1alpha1.CSVPhaseSucceeded && csv.Status.Phase == s.CSV.Status.Phase
		if !met {
			return false, fmt.Sprintf("its phase is %q: %s", csv.Status.Phase, csv.Status.Message), nil
		}

		for i := range s.Removed {
			u := &s.Removed[i]
			if !isCopiedRole(u) {
				continue
			}
			ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(u), newMetadata(plan.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}))
			if err != nil || !ok {
				return false, fmt.Sprintf("%s %s is not copied yet", u.GetKind(), client.ObjectKeyFromObject(u)), err
			}
		}
		return true, "", nil
	})
}

// deleteExtension deletes the extension, which deletes all objects that were not released, and waits until it no longer exists.
// The released objects stay. The annotation keeps the CRDs even if one of them was not released.
func (o *restoration) deleteExtension(ctx context.Context, s *snapshot) error {
	ext := &olmv1.ClusterExtension{}
	ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(s.Extension), ext)
	switch {
	case err != nil || !ok:
		return err
	case !isMigratedExtension(ext, s):
		return nil // Another client created it.
	}

	if ext.Annotations[olmv1.AnnotationKeepCRDs] != "true" {
		before := ext.DeepCopy()
		metav1.SetMetaDataAnnotation(&ext.ObjectMeta, olmv1.AnnotationKeepCRDs, "true")
		if err := o.Client.Patch(ctx, ext, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("annotating clusterextension %s: %w", ext.Name, err)
		}
	}

	if ext.DeletionTimestamp.IsZero() {
		uid := ext.UID
		if err := o.Client.Delete(ctx, ext, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting clusterextension %s: %w", ext.Name, err)
		}
	}
	if err := o.awaitGone(ctx, ext, ext.UID); err != nil {
		return err
	}

	o.reportDone("clusterextension %s deleted", ext.Name)
	return nil
}

// restoreSubscription creates the Subscription again, with the status that connects it to the CSV.
// Its updates need approval until the rollback is complete.
func (o *restoration) restoreSubscription(ctx context.Context, s *snapshot) error {
	subscription := &v1alpha1.Subscription{}
	ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(s.Subscription), subscription)
	if err != nil {
		return err
	}

	if !ok {
		subscription = &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Subscription.Namespace, Name: s.Subscription.Name, Labels: s.Subscription.Labels, Annotations: s.Subscription.Annotations},
			Spec:       *s.Subscription.Spec.DeepCopy(),
		}
		subscription.Spec.StartingCSV = s.CSV.Name
		subscription.Spec.InstallPlanApproval = v1alpha1.ApprovalManual
		if err := o.Client.Create(ctx, subscription); err != nil {
			return fmt.Errorf("restoring subscription %s/%s: %w", subscription.Namespace, subscription.Name, err)
		}
		o.reportDone("subscription %s/%s restored", subscription.Namespace, subscription.Name)
	}

	if subscription.Status.InstalledCSV != "" {
		return nil
	}
	before := subscription.DeepCopy()
	subscription.Status = *s.Subscription.Status.DeepCopy()
	if err := o.Client.Status().Patch(ctx, subscription, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restoring the status of subscription %s/%s: %w", subscription.Namespace, subscription.Name, err)
	}
	return nil
}

// restoreApproval deletes the InstallPlans for the restored CSV that OLM Classic made in the meantime,
// and restores whether updates need approval.
func (o *restoration) restoreApproval(ctx context.Context, s *snapshot) error {
	subscription := &v1alpha1.Subscription{}
	if err := o.Client.Get(ctx, client.ObjectKeyFromObject(s.Subscription), subscription); err != nil {
		return err
	}

	var plans v1alpha1.InstallPlanList
	if err := o.Client.List(ctx, &plans, client.InNamespace(s.CSV.Namespace)); err != nil {
		return err
	}
	for i := range plans.Items {
		p := &plans.Items[i]
		isOwn := slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == subscription.UID })
		if !isOwn || p.Spec.Approved || !slices.Equal(p.Spec.ClusterServiceVersionNames, []string{s.CSV.Name}) || subscription.UID == s.Subscription.UID {
			continue
		}
		if err := o.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting InstallPlan %s/%s: %w", p.Namespace, p.Name, err)
		}
	}

	if subscription.Spec.InstallPlanApproval == s.Subscription.Spec.InstallPlanApproval {
		return nil
	}
	before := subscription.DeepCopy()
	subscription.Spec.InstallPlanApproval = s.Subscription.Spec.InstallPlanApproval
	if err := o.Client.Patch(ctx, subscription, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restoring the approval of subscription %s/%s: %w", subscription.Namespace, subscription.Name, err)
	}
	return nil
}

// deleteSnapshot deletes the snapshot, which ends the migration or the rollback.
func (o *Operation) deleteSnapshot(ctx context.Context, s *snapshot) error {
	uid := s.secret.UID
	if err := o.Client.Delete(ctx, s.secret, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the snapshot: %w", err)
	}
	o.reportDone("snapshot deleted")
	return nil
}
