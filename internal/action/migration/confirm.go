package migration

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Confirm ends a migration: it deletes the snapshot, and lets the extension update itself if the
// Subscription did.
type Confirm struct{ Operation }

// Run confirms the migration. It returns an error if the migration is not complete.
func (c *Confirm) Run(ctx context.Context) error {
	object := "subscription " + c.subscriptionKey().String()
	s, err := loadSnapshot(ctx, c.Client, c.subscriptionKey())
	if err != nil {
		return err
	}
	if s == nil {
		return &report.Error{Object: object, Err: errors.New("there is no migration to confirm"), Advice: "migrate it first; a confirmed migration needs no other confirmation"}
	}

	missing, err := c.findMissingStep(ctx, s)
	if err != nil {
		return newServerError(object, err)
	}
	if missing != "" {
		return &report.Error{Object: object, Err: fmt.Errorf("the migration is not complete: %s", missing), Advice: "run the migration again to complete it, or return to OLM Classic with --rollback"}
	}

	if err := c.unpinExtension(ctx, s); err != nil {
		return newServerError(object, err)
	}
	return c.deleteSnapshot(ctx, s)
}

// findMissingStep returns what is missing for a complete migration, or an empty text.
func (o *Operation) findMissingStep(ctx context.Context, s *snapshot) (string, error) {
	if s.isRollingBack() {
		return "the operator is returning to OLM Classic", nil
	}

	for _, object := range []client.Object{&v1alpha1.Subscription{}, &v1alpha1.ClusterServiceVersion{}} {
		key := client.ObjectKeyFromObject(s.CSV)
		if _, ok := object.(*v1alpha1.Subscription); ok {
			key = client.ObjectKeyFromObject(s.Subscription)
		}
		if ok, err := getOptional(ctx, o.Client, key, object); err != nil {
			return "", err
		} else if ok {
			return fmt.Sprintf("%s %s exists", kindOf(object), key), nil
		}
	}

	for _, object := range s.listObjects(plan.ActionAdopt, plan.ActionKeep) {
		live := newMetadata(object)
		ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(live), live)
		if err != nil {
			return "", err
		}
		if ok && removeClassicMarks(live, s.CSV) {
			return fmt.Sprintf("%s %s has marks of OLM Classic", object.Kind, client.ObjectKeyFromObject(live)), nil
		}
	}

	ext := &olmv1.ClusterExtension{}
	ok, err := getOptional(ctx, o.Client, client.ObjectKeyFromObject(s.Extension), ext)
	if err != nil {
		return "", err
	}
	if !ok || !isInstalledAt(ext, s.bundleVersion()) {
		return fmt.Sprintf("clusterextension %s is not installed at version %s", s.Extension.Name, s.bundleVersion()), nil
	}
	return "", nil
}

// unpinExtension removes the version from the extension, unless updates need approval.
func (c *Confirm) unpinExtension(ctx context.Context, s *snapshot) error {
	if plan.PinnedForever(s.Subscription) {
		return nil
	}

	ext := &olmv1.ClusterExtension{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(s.Extension), ext); err != nil {
		return err
	}
	if ext.Spec.Source.Catalog == nil || ext.Spec.Source.Catalog.Version != s.bundleVersion() {
		return nil
	}

	before := ext.DeepCopy()
	ext.Spec.Source.Catalog.Version = ""
	if err := c.Client.Patch(ctx, ext, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("removing the version from clusterextension %s: %w", ext.Name, err)
	}

	c.reportDone("clusterextension %s is updated from now on", ext.Name)
	return nil
}
