package action

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// createWithAccount creates the namespace, the service account and the extension. If one of them
// is refused, it removes those that it has created.
func (a *ExtensionInstall) createWithAccount(ctx context.Context, extension *olmv1.ClusterExtension, namespaceExists bool) error {
	needed := slices.Clone(a.Account)
	if !namespaceExists {
		needed = append([]client.Object{a.newNamespace()}, needed...)
	}

	var created []client.Object
	err := a.checkAbsent(ctx)
	for _, object := range needed {
		if err != nil {
			break
		}
		if err = a.createAccountObject(ctx, object); err == nil {
			created = append(created, object)
		}
	}

	switch {
	case err != nil:
	case a.Check != nil:
		err = a.createExtensionIfPlanAccepted(ctx, extension, true)
	default:
		err = a.createExtension(ctx, extension)
	}
	if err != nil {
		return errors.Join(err, a.deleteCreated(ctx, created))
	}

	return nil
}

// checkAbsent returns an error if the extension exists already.
func (a *ExtensionInstall) checkAbsent(ctx context.Context) error {
	err := a.Client.Get(ctx, client.ObjectKey{Name: a.extensionName()}, &olmv1.ClusterExtension{})
	if err == nil {
		return a.newExistsError(apierrors.NewAlreadyExists(olmv1.GroupVersion.WithResource("clusterextensions").GroupResource(), a.extensionName()))
	}
	return NewServerError(describeExtension(a.extensionName()), client.IgnoreNotFound(err))
}

// createAccountObject creates an object that the extension needs. An existing role may be that of
// another extension, so that it is not changed.
func (a *ExtensionInstall) createAccountObject(ctx context.Context, object client.Object) error {
	name := describeKindAndName(object)
	err := a.Client.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		return &report.Error{
			Object: name, Err: &report.Reworded{Text: "it exists already", Cause: err},
			Advice: "use the existing service account, or choose another name for the extension",
		}
	case err != nil:
		return NewServerError(name, err)
	}

	report.OrQuiet(a.Progress).Done(name + " created")
	return nil
}

// deleteCreated deletes objects in reverse order, also after the context has ended.
func (a *ExtensionInstall) deleteCreated(ctx context.Context, created []client.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var errs []error
	for _, object := range slices.Backward(created) {
		uid := object.GetUID()
		if err := a.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, &report.Error{
				Object: describeKindAndName(object), Err: fmt.Errorf("removing it again: %w", err), Advice: "delete it, as nothing uses it",
			})
		}
	}
	return errors.Join(errs...)
}
