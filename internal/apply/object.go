package apply

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply/memory"
)

const (
	// maxApplyAttempts is how often an object is read and written while other clients change it.
	maxApplyAttempts = 4
	// nonexistentVersion is a resource version that no object has: the largest that the API server
	// can parse. Applied, it is a precondition that fails for every existing object.
	nonexistentVersion = "9223372036854775807"
)

// Object is one object of a revision.
type Object struct {
	// Manifest is the object to apply. It is not changed.
	Manifest *unstructured.Unstructured
	// Protection determines what happens if the object already exists. Unset means Prevent.
	Protection olmv1.CollisionProtection
	// WantedBySibling means that another revision is about to take over the object. Its removal then leaves
	// the object, and waits until that has happened.
	WantedBySibling bool
	// KeepOnRemoval leaves the object on the cluster when its revision is removed: only the owner reference
	// to the revision is removed. Its labels stay, so that a revision of the same extension can
	// take it over again.
	KeepOnRemoval bool
}

// Action is what was done with an object.
type Action string

const (
	// ActionCreated means that the object did not exist.
	ActionCreated Action = "Created"
	// ActionUpdated means that the object differed from its manifest.
	ActionUpdated Action = "Updated"
	// ActionUnchanged means that the object matches its manifest.
	ActionUnchanged Action = "Unchanged"
	// ActionRecovered means that the object was taken over: from an earlier revision, or
	// from another owner or none if the protection allows it.
	ActionRecovered Action = "Recovered"
	// ActionSuperseded means that nothing was done, because a later revision controls it.
	ActionSuperseded Action = "Superseded"
	// ActionDeleting means that nothing was done, because the object is being deleted. It
	// is created again afterwards.
	ActionDeleting Action = "Deleting"
	// ActionCollision means that nothing was done, because the object has another owner.
	ActionCollision Action = "Collision"
	// ActionFailed means that nothing was done, because of the error of the result.
	ActionFailed Action = "Failed"
)

// ObjectResult is the result of applying one object.
type ObjectResult struct {
	Object Key
	Action Action
	// Probe reports whether the object is ready. It is the zero value after a failure.
	Probe Probe
	// Err is the failure, or nil.
	Err *Error
}

// Done reports whether the object matches its manifest, is ready, and belongs to the revision.
func (r ObjectResult) Done() bool {
	return r.Err == nil && r.Probe.Ready && r.Action != ActionSuperseded
}

// objectEngine is the lowest layer. It applies and removes one object at a time.
type objectEngine struct {
	store store
	// memory may be nil.
	memory *Memory
	// now returns the current time.
	now func() time.Time
}

// apply applies the manifest of one object, if the revision may, and probes it. The API server
// returns the resulting object, so that probing it needs no further request.
func (o *objectEngine) apply(ctx context.Context, rev *Revision, object Object) ObjectResult {
	key := KeyOf(object.Manifest)
	at, err := o.store.locate(object.Manifest.GroupVersionKind())
	if err != nil {
		return newFailedResult(newObjectError(key, err))
	}
	if at.namespaced && key.Namespace == "" {
		return newFailedResult(newInvalidError(key, "the manifest names no namespace"))
	}
	if !at.namespaced {
		key.Namespace = ""
	}
	if rev.Watch != nil {
		rev.Watch(at.resource)
	}

	request := digestObjectRequest(object, rev)
	seen, isSeen := rev.lastSeen(at.resource, key)
	if probe, ok := o.memory.Recall(memory.Object{UID: seen.UID, Version: seen.Version}, request); isSeen && ok {
		return ObjectResult{Object: key, Action: ActionUnchanged, Probe: probe}
	}

	absent := rev.FirstRollout && !isSeen
	for range maxApplyAttempts {
		var result ObjectResult
		if result, err = o.tryApply(ctx, rev, object, at, key, request, absent); err == nil {
			return result
		}
		absent = false
		if !apierrors.IsConflict(err) {
			break
		}
	}

	return newFailedResult(newObjectError(key, err))
}

// tryApply reads the object, unless it is believed absent, decides, and writes. A write has the
// version that was read, or the absence of the object, as its precondition. An object that was
// created or taken over in between thus causes a conflict, and is read again.
//
// An absent object is not created by POST. That would record its fields under the operation
// Update, where later applies cannot remove them. It is applied with a resource version that no
// object has.
func (o *objectEngine) tryApply(ctx context.Context, rev *Revision, object Object, at location, key Key, request memory.Digest, absent bool) (ObjectResult, error) {
	var live *unstructured.Unstructured
	var err error
	if !absent {
		live, err = o.store.get(ctx, at, key)
	}
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return ObjectResult{}, err
	}

	decision := decideAction(live, &rev.Owner, object.Protection)
	switch decision {
	case leave:
		// The later revision checks its readiness.
		return ObjectResult{Object: key, Action: ActionSuperseded, Probe: readyProbe()}, nil
	case await:
		return ObjectResult{Object: key, Action: ActionDeleting, Probe: notReadyProbe("%s, and is recreated afterwards", describeDeletion(live))}, nil
	case refuse:
		related := determineRelation(live, &rev.Owner)
		return ObjectResult{Object: key, Action: ActionCollision, Err: newCollisionError(key, describeOwner(live), collisionAdvice(related))}, nil
	}

	wanted, err := newDesiredObject(object.Manifest, live, &rev.Owner, at.namespaced)
	if err != nil {
		return newFailedResult(newInvalidError(key, err.Error())), nil
	}

	digestShape := func() memory.Digest { return digestLiveShape(live, wanted) }
	if decision == update && o.memory.IsUnchanged(versionOf(live), request, digestShape) {
		probe := rev.Probes.Probe(live)
		o.memory.Record(versionOf(live), request, digestShape(), probe)
		return ObjectResult{Object: key, Action: ActionUnchanged, Probe: probe}, nil
	}

	setPrecondition(wanted, live)
	after, err := o.writeObject(ctx, at, wanted, live != nil)
	switch {
	case mustRecreateObject(err, key, live, &rev.Owner):
		after, err = o.recreateObject(ctx, rev, object, at, key, live)
	case mustReleaseWebhooks(err, live, wanted):
		after, err = o.releaseRemovedWebhooks(ctx, at, wanted, live)
	}

	if err == nil {
		after, err = o.removeStaleCABundle(ctx, at, after)
	}
	if err == nil {
		after, err = o.removeFormerManagers(ctx, at, key, after)
	}
	if err != nil {
		return ObjectResult{}, err
	}

	probe := rev.Probes.Probe(after)
	o.memory.Record(versionOf(after), request, digestLiveShape(after, wanted), probe)
	return ObjectResult{Object: key, Action: actionForDecision(decision, live, after), Probe: probe}, nil
}

// writeObject applies the object. The admission plugin OwnerReferencesPermissionEnforcement
// requires a right to block the deletion of the revision. Without that right, blockOwnerDeletion
// is left out: the revision's finalizer keeps the order of removal anyway.
func (o *objectEngine) writeObject(ctx context.Context, at location, wanted *unstructured.Unstructured, force bool) (*unstructured.Unstructured, error) {
	after, err := o.store.apply(ctx, at, wanted, FieldManager, force)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "blockOwnerDeletion") {
		return after, err
	}

	references := wanted.GetOwnerReferences()
	for i := range references {
		references[i].BlockOwnerDeletion = nil
	}

	wanted.SetOwnerReferences(references)
	return o.store.apply(ctx, at, wanted, FieldManager, force)
}

func actionForDecision(decision decision, live, after *unstructured.Unstructured) Action {
	switch {
	case decision == create:
		return ActionCreated
	case decision == takeOver:
		return ActionRecovered
	case live.GetResourceVersion() == after.GetResourceVersion():
		return ActionUnchanged
	default:
		return ActionUpdated
	}
}

// newDesiredObject returns the object to apply: the manifest without the fields that only the API
// server sets, and without the number of replicas if an autoscaler has set it, with the labels and
// references of the owner.
func newDesiredObject(manifest, live *unstructured.Unstructured, owner *Owner, namespaced bool) (*unstructured.Unstructured, error) {
	u := manifest.DeepCopy()
	delete(u.Object, "status")
	metadata := map[string]any{}
	if given, ok := u.Object["metadata"].(map[string]any); ok {
		for _, field := range []string{"name", "namespace", "labels", "annotations", "finalizers"} {
			if value, ok := given[field]; ok && value != nil {
				metadata[field] = value
			}
		}
	}

	u.Object["metadata"] = metadata
	if !namespaced {
		u.SetNamespace("")
	}

	if len(owner.Labels) > 0 {
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, owner.Labels)
		u.SetLabels(labels)
	}

	if IsAutoscaled(live) {
		unstructured.RemoveNestedField(u.Object, "spec", "replicas")
	}

	u.SetOwnerReferences(ownerReferences(live, owner))
	return u, encodeStringData(u)
}

// setPrecondition adds the precondition that the object still is the live one, or that it does not
// exist.
func setPrecondition(wanted, live *unstructured.Unstructured) {
	if live == nil {
		wanted.SetResourceVersion(nonexistentVersion)
		return
	}
	wanted.SetUID(live.GetUID())
	wanted.SetResourceVersion(live.GetResourceVersion())
}

// encodeStringData moves stringData of a Secret to data. It is a write-only field, whose values
// the API server would not record as applied.
func encodeStringData(u *unstructured.Unstructured) error {
	if u.GroupVersionKind().GroupKind() != secretKind {
		return nil
	}

	values, ok, err := unstructured.NestedStringMap(u.Object, "stringData")
	if err != nil || !ok {
		return err
	}

	unstructured.RemoveNestedField(u.Object, "stringData")
	for name, value := range values {
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		if err := unstructured.SetNestedField(u.Object, encoded, "data", name); err != nil {
			return err
		}
	}

	return nil
}

// describeDeletion describes that an object is being deleted, and which finalizers block that.
func describeDeletion(live *unstructured.Unstructured) string {
	finalizers := live.GetFinalizers()
	if len(finalizers) == 0 {
		return "it is being deleted"
	}
	return fmt.Sprintf("it is being deleted, held by %s %s", pluralizeNoun(len(finalizers), "finalizer"), strings.Join(finalizers, ", "))
}

func pluralizeNoun(count int, noun string) string {
	if count == 1 {
		return noun
	}
	return noun + "s"
}

func newFailedResult(err *Error) ObjectResult {
	action := ActionFailed
	return ObjectResult{Object: err.Object, Action: action, Err: err}
}

// isControlledBy reports whether the owner is the object's controller.
func isControlledBy(live *unstructured.Unstructured, owner *Owner) bool {
	controller := metav1.GetControllerOf(live)
	return controller != nil && controller.UID == owner.Reference.UID
}
