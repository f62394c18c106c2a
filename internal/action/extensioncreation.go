package action

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// extensionCreation creates a ClusterExtension and what it needs.
type extensionCreation struct {
	*ExtensionInstall

	extension *olmv1.ClusterExtension
	// needsNamespace is true until the namespace of the extension exists.
	needsNamespace bool
}

// createObjects creates the extension, and what it needs before: the service account, which
// the plan checks the permissions of, and otherwise the namespace once the plan is accepted.
func (c *extensionCreation) createObjects(ctx context.Context) error {
	switch {
	case len(c.Account) > 0:
		return c.createWithAccount(ctx)
	case c.Check != nil:
		return c.createExtensionIfPlanAccepted(ctx)
	}

	if err := c.createNamespace(ctx); err != nil {
		return err
	}
	return c.createExtension(ctx)
}

// createExtension creates the ClusterExtension.
func (c *extensionCreation) createExtension(ctx context.Context) error {
	err := c.Client.Create(ctx, c.extension)
	if apierrors.IsAlreadyExists(err) {
		return c.newExistsError(err)
	}
	return NewServerError(describeExtension(c.extensionName()), err)
}

// createExtensionIfPlanAccepted creates the extension in plan-only mode. If the plan is
// accepted, it creates the namespace if requested and ends the plan-only mode. Otherwise it
// deletes the extension.
func (c *extensionCreation) createExtensionIfPlanAccepted(ctx context.Context) error {
	metav1.SetMetaDataAnnotation(&c.extension.ObjectMeta, olmv1.AnnotationPlan, olmv1.PlanOnly)
	if err := c.createExtension(ctx); err != nil {
		return err
	}

	plan := &ExtensionPlan{Client: c.Client, Progress: c.Progress, Install: *c.ExtensionInstall, SystemNamespace: c.Check.SystemNamespace}
	_, err := c.Check.requireAcceptedPlan(ctx, plan, c.extension, func(p PlanProblem) bool { return c.needsNamespace && p.isMissingNamespace() })
	if err == nil {
		err = c.createNamespace(ctx)
	}

	if err != nil {
		cleanupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return errors.Join(err, plan.deletePlannedExtension(cleanupCtx, c.extension))
	}

	return plan.startPlannedExtension(ctx, c.extension)
}

// createNamespace creates the namespace unless it exists.
func (c *extensionCreation) createNamespace(ctx context.Context) error {
	if !c.needsNamespace {
		return nil
	}

	object := fmt.Sprintf("namespace %q", c.installNamespace())
	if err := c.Client.Create(ctx, c.newNamespace()); err != nil && !apierrors.IsAlreadyExists(err) {
		return NewServerError(object, err)
	}

	report.OrQuiet(c.Progress).Done(object + " created")
	return nil
}

// createWithAccount creates the namespace, the service account and the extension. If one of them
// is refused, it removes those that it has created.
func (c *extensionCreation) createWithAccount(ctx context.Context) error {
	needed := slices.Clone(c.Account)
	if c.needsNamespace {
		needed = append([]client.Object{c.newNamespace()}, needed...)
	}

	var created []client.Object
	err := c.checkAbsent(ctx)
	for _, object := range needed {
		if err != nil {
			break
		}
		if err = c.createAccountObject(ctx, object); err == nil {
			created = append(created, object)
		}
	}

	c.needsNamespace = c.needsNamespace && err != nil
	switch {
	case err != nil:
	case c.Check != nil:
		err = c.createExtensionIfPlanAccepted(ctx)
	default:
		err = c.createExtension(ctx)
	}
	if err != nil {
		return errors.Join(err, DeleteCreated(ctx, c.Client, created))
	}

	return nil
}

// createAccountObject creates an object that the extension needs. An existing role may be that of
// another extension, so that it is not changed.
func (c *extensionCreation) createAccountObject(ctx context.Context, object client.Object) error {
	name := DescribeKindAndName(object)
	err := c.Client.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		return &report.Error{
			Object: name, Err: &report.Reworded{Text: "it exists already", Cause: err},
			Advice: "use the existing service account, or choose another name for the extension",
		}
	case err != nil:
		return NewServerError(name, err)
	}

	report.OrQuiet(c.Progress).Done(name + " created")
	return nil
}

// DeleteCreated deletes objects that a refused operation has created, in reverse order, also after the context has ended.
func DeleteCreated(ctx context.Context, c client.Client, created []client.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var errs []error
	for _, object := range slices.Backward(created) {
		uid := object.GetUID()
		if err := c.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, &report.Error{
				Object: DescribeKindAndName(object), Err: fmt.Errorf("removing it again: %w", err), Advice: "delete it, as nothing uses it",
			})
		}
	}
	return errors.Join(errs...)
}
