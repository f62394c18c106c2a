package console

import (
	"context"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// operationKey is the key of the ID of the operation in a request's context.
type operationKey struct{}

// addOperation adds the ID of the operation to the context of a request, for the audit log.
func addOperation(ctx huma.Context, next func(huma.Context)) {
	next(huma.WithValue(ctx, operationKey{}, ctx.Operation().OperationID))
}

// auditor logs the writes of a user: the operation of the console, the verb, the object, and the result. It never logs
// content.
type auditor struct {
	client client.WithWatch
	log    logr.Logger
}

// newAuditedClient returns a client that logs each write, also one that is refused. Dry runs and reviews write nothing.
func newAuditedClient(c client.WithWatch, log logr.Logger) client.WithWatch {
	a := &auditor{client: c, log: log}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: a.createObject, Update: a.updateObject, Patch: a.patchObject, Apply: a.apply, Delete: a.delete, DeleteAllOf: a.deleteAllOf,
		SubResourceCreate: a.createSubResource, SubResourceUpdate: a.updateSubResource,
		SubResourcePatch: a.patchSubResource, SubResourceApply: a.applySubResource,
	})
}

func (a *auditor) createObject(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	err := c.Create(ctx, object, options...)
	a.logWrite(ctx, "create", object, (&client.CreateOptions{}).ApplyOptions(options).DryRun, err)
	return err
}

func (a *auditor) updateObject(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
	err := c.Update(ctx, object, options...)
	a.logWrite(ctx, "update", object, (&client.UpdateOptions{}).ApplyOptions(options).DryRun, err)
	return err
}

func (a *auditor) patchObject(ctx context.Context, c client.WithWatch, object client.Object, patchObject client.Patch, options ...client.PatchOption) error {
	err := c.Patch(ctx, object, patchObject, options...)
	a.logWrite(ctx, "patch", object, (&client.PatchOptions{}).ApplyOptions(options).DryRun, err)
	return err
}

func (a *auditor) apply(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	err := c.Apply(ctx, object, options...)
	a.logWrite(ctx, "apply", object, (&client.ApplyOptions{}).ApplyOptions(options).DryRun, err)
	return err
}

func (a *auditor) delete(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	err := c.Delete(ctx, object, options...)
	a.logWrite(ctx, "delete", object, (&client.DeleteOptions{}).ApplyOptions(options).DryRun, err)
	return err
}

func (a *auditor) deleteAllOf(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteAllOfOption) error {
	err := c.DeleteAllOf(ctx, object, options...)
	a.logWrite(ctx, "deletecollection", object, (&client.DeleteAllOfOptions{}).ApplyOptions(options).DryRun, err)
	return err
}

func (a *auditor) createSubResource(ctx context.Context, c client.Client, name string, object, sub client.Object, options ...client.SubResourceCreateOption) error {
	err := c.SubResource(name).Create(ctx, object, sub, options...)
	a.logWrite(ctx, "create "+name, object, nil, err)
	return err
}

func (a *auditor) updateSubResource(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
	err := c.SubResource(name).Update(ctx, object, options...)
	a.logWrite(ctx, "update "+name, object, nil, err)
	return err
}

func (a *auditor) patchSubResource(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	err := c.SubResource(name).Patch(ctx, object, patch, options...)
	a.logWrite(ctx, "patch "+name, object, nil, err)
	return err
}

func (a *auditor) applySubResource(ctx context.Context, c client.Client, name string, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	err := c.SubResource(name).Apply(ctx, object, options...)
	a.logWrite(ctx, "apply "+name, object, nil, err)
	return err
}

// logWrite logs a write, unless it was a dry run or a review.
func (a *auditor) logWrite(ctx context.Context, verb string, object any, dryRun []string, err error) {
	if isReview(object) || slices.Contains(dryRun, metav1.DryRunAll) {
		return
	}

	kind, namespace, name := a.identifyObject(object)
	operation, _ := ctx.Value(operationKey{}).(string)
	a.log.Info("Write", "operation", operation, "verb", verb, "kind", kind, "namespace", namespace, "name", name, "result", describeResult(err))
}

// isReview reports whether an object is a review, which is evaluated by creating it.
func isReview(object any) bool {
	switch object.(type) {
	case *authenticationv1.SelfSubjectReview, *authorizationv1.SelfSubjectAccessReview, *authorizationv1.SelfSubjectRulesReview:
		return true
	}
	return false
}

// applied are the methods of the generated apply configurations. A nil pointer means that a field is not set.
type applied interface {
	GetKind() *string
	GetName() *string
	GetNamespace() *string
}

// identifyObject returns the kind, the namespace and the name of an object, as far as they are known.
func (a *auditor) identifyObject(object any) (kind, namespace, name string) {
	if o, ok := object.(client.Object); ok {
		if gvk, err := apiutil.GVKForObject(o, a.client.Scheme()); err == nil {
			kind = gvk.GroupKind().String()
		}
		return kind, o.GetNamespace(), o.GetName()
	}
	if o, ok := object.(applied); ok {
		return ptr.Deref(o.GetKind(), ""), ptr.Deref(o.GetNamespace(), ""), ptr.Deref(o.GetName(), "")
	}
	return "", "", ""
}

// describeResult returns "ok", or the reason of an error. Messages of errors can contain content.
func describeResult(err error) string {
	switch reason := apierrors.ReasonForError(err); {
	case err == nil:
		return "ok"
	case reason != metav1.StatusReasonUnknown:
		return string(reason)
	}
	return "error"
}
