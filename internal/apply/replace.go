package apply

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// replaceable are the kinds of which an object is deleted and made anew when a field
// changes that the API server lets nobody change. They hold nothing of their own: a
// Deployment and a DaemonSet make their pods again, a binding is what it says. An
// update that changes such a field could otherwise never be rolled out. A StatefulSet
// or a Job is not replaced: its pods have an identity, or have done something.
var replaceable = map[schema.GroupKind]string{
	{Group: "apps", Kind: "Deployment"}:                              "spec.selector",
	{Group: "apps", Kind: "DaemonSet"}:                               "spec.selector",
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        "roleRef",
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: "roleRef",
}

// mustReplace reports whether an object could not be applied only for a field that
// cannot change, and may be deleted and made anew: it is the extension's own.
func mustReplace(err error, key Key, live *unstructured.Unstructured, owner *Owner) bool {
	field, ok := replaceable[key.GroupKind]
	if !ok || !apierrors.IsInvalid(err) {
		return false
	}

	switch relate(live, owner) {
	case own, inherited, orphaned:
		return onlyAbout(err, func(cause string) bool { return cause == field })
	default:
		return false
	}
}

// onlyAbout reports whether every cause of an API error is in fields that match.
func onlyAbout(err error, matches func(field string) bool) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool { return !matches(c.Field) })
}

// replace deletes the object and makes it anew. It may take a moment until it is gone;
// then that is a conflict, and the object is read again.
func (o *objects) replace(ctx context.Context, rev *Revision, object Object, at location, key Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := o.store.delete(ctx, at, key, live.GetUID(), live.GetResourceVersion()); err != nil {
		return nil, err
	}

	wanted, err := desired(object.Manifest, nil, &rev.Owner, at.namespaced)
	if err != nil {
		return nil, err
	}

	expect(wanted, nil)
	return o.write(ctx, at, wanted, false)
}
