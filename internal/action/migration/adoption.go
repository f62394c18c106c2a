package migration

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// adoption hands the objects of an operator over to the extension.
type adoption struct{ Operation }

// offerObjects prepares the objects for the extension: it applies the labels of the extension's
// objects. The first revision of the extension recognizes such objects as those of a former
// revision that nothing controls, and takes them over in place.
func (m *adoption) offerObjects(ctx context.Context, s *snapshot) error {
	count := 0
	for _, object := range s.listObjects(plan.ActionAdopt) {
		live := newMetadata(object)
		ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(live), live)
		if err != nil {
			return err
		}
		if !ok || isOffered(live, s.Extension.Name) {
			continue
		}

		if controller := metav1.GetControllerOf(live); controller != nil {
			return fmt.Errorf("%s %s is controlled by %s %s since the migration began", object.Kind, client.ObjectKeyFromObject(live), controller.Kind, controller.Name)
		}
		if err := m.offerObject(ctx, object, live, s.Extension.Name); err != nil {
			return fmt.Errorf("preparing %s %s: %w", object.Kind, client.ObjectKeyFromObject(live), err)
		}
		count++
	}

	if count > 0 {
		m.reportDone("%d objects prepared for clusterextension %s", count, s.Extension.Name)
	}
	return nil
}

// isOffered reports whether an object has the labels of the extension's objects.
func isOffered(live metav1.Object, extension string) bool {
	labels := live.GetLabels()
	for key, value := range plan.OwnerLabels(extension) {
		if labels[key] != value {
			return false
		}
	}
	return hasApplied(live)
}

// hasApplied reports whether the field manager of extensions applied an object.
func hasApplied(live metav1.Object) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == apply.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return true
		}
	}
	return false
}

// offerObject applies the labels of the extension to an object. If the field manager has applied
// the object before, it patches them: applying labels alone would remove its other fields.
func (m *adoption) offerObject(ctx context.Context, object plan.Object, live *metav1.PartialObjectMetadata, extension string) error {
	if hasApplied(live) {
		_, err := patchMetadata(ctx, m.Client, object, func(live *metav1.PartialObjectMetadata) (bool, error) {
			return setValues(&live.Labels, plan.OwnerLabels(extension)), nil
		})
		return err
	}

	u := object.Reference()
	u.SetUID(live.UID)
	u.SetLabels(plan.OwnerLabels(extension))
	return m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(apply.FieldManager), client.ForceOwnership)
}

// createExtension creates the ClusterExtension, unless it exists.
func (m *adoption) createExtension(ctx context.Context, s *snapshot) error {
	live := &olmv1.ClusterExtension{}
	ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(s.Extension), live)
	switch {
	case err != nil:
		return err
	case ok && !isMigratedExtension(live, s):
		return fmt.Errorf("clusterextension %s exists, and was not created by this migration", live.Name)
	case ok && !live.DeletionTimestamp.IsZero():
		return fmt.Errorf("clusterextension %s is being deleted", live.Name)
	case ok:
		return nil
	}

	if err := m.Client.Create(ctx, s.Extension.DeepCopy()); err != nil {
		return fmt.Errorf("creating clusterextension %s: %w", s.Extension.Name, err)
	}
	m.reportDone("clusterextension %s created", s.Extension.Name)
	return nil
}

// isMigratedExtension reports whether an extension was created for the Subscription of a snapshot.
func isMigratedExtension(ext *olmv1.ClusterExtension, s *snapshot) bool {
	return ext.Annotations[plan.AnnotationMigratedFrom] == s.Subscription.Namespace+"/"+s.Subscription.Name
}

// awaitInstalled waits until the extension has taken over all objects at the version of the CSV.
func (m *adoption) awaitInstalled(ctx context.Context, s *snapshot) error {
	return m.pollUntil(ctx, "the installation of clusterextension "+s.Extension.Name, func(ctx context.Context) (bool, string, error) {
		ext := &olmv1.ClusterExtension{}
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(s.Extension), ext); err != nil {
			return false, "", err
		}
		if isInstalledAt(ext, s.bundleVersion()) {
			waiting, err := m.findObjectInTransit(ctx, s)
			return waiting == "" && err == nil, waiting, err
		}

		if c := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing); c != nil {
			return false, c.Message, nil
		}
		return false, "operator-controller has not seen it yet", nil
	})
}

func isInstalledAt(ext *olmv1.ClusterExtension, version string) bool {
	return meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeInstalled) && ext.Status.Install != nil && ext.Status.Install.Bundle.Version == version
}

// findObjectInTransit returns the first adopted object that no revision of the extension controls,
// or an empty text.
func (m *adoption) findObjectInTransit(ctx context.Context, s *snapshot) (string, error) {
	for _, object := range s.listObjects(plan.ActionAdopt) {
		live := newMetadata(object)
		ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(live), live)
		if err != nil {
			return "", err
		}
		if controller := metav1.GetControllerOf(live); !ok || controller == nil || controller.Kind != olmv1.ClusterObjectSetKind {
			return fmt.Sprintf("%s %s does not belong to it yet", object.Kind, client.ObjectKeyFromObject(live)), nil
		}
	}
	return "", nil
}
