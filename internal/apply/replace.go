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

// recreatableFields are the immutable fields, by kind, whose change makes the object be deleted
// and recreated. These objects hold no state: a Deployment and a DaemonSet recreate their pods, a
// binding is only its content. An update that changes such a field could otherwise never be rolled
// out. A StatefulSet or a Job is not recreated: its pods have an identity, or have done work.
var recreatableFields = map[schema.GroupKind]string{
	{Group: "apps", Kind: "Deployment"}:                              "spec.selector",
	{Group: "apps", Kind: "DaemonSet"}:                               "spec.selector",
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        "roleRef",
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: "roleRef",
}

// mustRecreateObject reports whether an object could not be applied only because of an immutable
// field, and may be recreated: it belongs to the extension.
func mustRecreateObject(err error, key Key, live *unstructured.Unstructured, owner *Owner) bool {
	field, ok := recreatableFields[key.GroupKind]
	if !ok || !apierrors.IsInvalid(err) {
		return false
	}

	switch determineRelation(live, owner) {
	case own, inherited, orphaned:
		return hasOnlyCausesIn(err, func(cause string) bool { return cause == field })
	default:
		return false
	}
}

// hasOnlyCausesIn reports whether every cause of an API error is in a field that matches.
func hasOnlyCausesIn(err error, matches func(field string) bool) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool { return !matches(c.Field) })
}

// recreateObject deletes the object and creates it again. Its deletion may take a moment. Then the
// creation is a conflict, and the object is read again.
func (o *objectEngine) recreateObject(ctx context.Context, rev *Revision, object Object, at location, key Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := o.store.delete(ctx, at, key, live.GetUID(), live.GetResourceVersion()); err != nil {
		return nil, err
	}

	wanted, err := newDesiredObject(object.Manifest, nil, &rev.Owner, at.namespaced)
	if err != nil {
		return nil, err
	}

	setPrecondition(wanted, nil)
	return o.writeObject(ctx, at, wanted, false)
}
