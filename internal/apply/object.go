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
)

const (
	// contention is how often an object that others change meanwhile is read and
	// written before the attempt is given up.
	contention = 4
	// noVersion is a resource version that no object has: the largest that the API
	// server can parse. Applied, it is a precondition that every existing object fails.
	noVersion = "9223372036854775807"
)

// Object is one object of a revision.
type Object struct {
	// Manifest is what is applied. It is not changed.
	Manifest *unstructured.Unstructured
	// Protection says what happens when the object already exists; unset is Prevent.
	Protection olmv1.CollisionProtection
	// Wanted says that another revision is about to take the object over: removing the one
	// that has it now leaves the object, and waits until that has happened.
	Wanted bool
	// Keep leaves the object on the cluster when its revision is removed: only the owner
	// reference to the revision is taken off it. Its labels stay, so that a revision of the
	// same extension takes it over again.
	Keep bool
}

// Action is what was done with an object.
type Action string

const (
	// ActionCreated: it did not exist.
	ActionCreated Action = "Created"
	// ActionUpdated: it differed from its manifest.
	ActionUpdated Action = "Updated"
	// ActionUnchanged: it is as its manifest says.
	ActionUnchanged Action = "Unchanged"
	// ActionRecovered: it was taken over, from an earlier revision, from nobody, or
	// from somebody else where the protection allows it.
	ActionRecovered Action = "Recovered"
	// ActionSuperseded: nothing, as a later revision has it.
	ActionSuperseded Action = "Superseded"
	// ActionDeleting: nothing, as it is being deleted. It is created anew afterwards.
	ActionDeleting Action = "Deleting"
	// ActionCollision: nothing, as it is somebody else's.
	ActionCollision Action = "Collision"
	// ActionFailed: nothing, for the error of the result.
	ActionFailed Action = "Failed"
)

// ObjectResult is what became of one object.
type ObjectResult struct {
	Object Key
	Action Action
	// Probe reports whether the object is ready. It is the zero value after a failure.
	Probe Probe
	// Err says what failed; nil when nothing did.
	Err *Error
}

// Done reports whether the object is as it should be, and the revision's.
func (r ObjectResult) Done() bool {
	return r.Err == nil && r.Probe.Ready && r.Action != ActionSuperseded
}

// objects is the lowest layer: one object at a time.
type objects struct {
	store store
	// memory may be nil.
	memory *Memory
	// now tells the time.
	now func() time.Time
}

// apply brings one object to what its manifest says, if the revision may, and probes
// it. The API server answers with the object as it is then, so that probing it costs
// no further request.
func (o *objects) apply(ctx context.Context, rev *Revision, object Object) ObjectResult {
	key := KeyOf(object.Manifest)
	at, err := o.store.locate(object.Manifest.GroupVersionKind())
	if err != nil {
		return failed(newError(key, err))
	}
	if at.namespaced && key.Namespace == "" {
		return failed(invalid(key, "the manifest names no namespace"))
	}
	if !at.namespaced {
		key.Namespace = ""
	}
	if rev.Watch != nil {
		rev.Watch(at.resource)
	}

	asked := digestOf(object, rev)
	seen, isSeen := rev.seen(at.resource, key)
	if probe, ok := o.memory.recall(seen, asked); isSeen && ok {
		return ObjectResult{Object: key, Action: ActionUnchanged, Probe: probe}
	}

	absent := rev.First && !isSeen
	for range contention {
		var result ObjectResult
		if result, err = o.attempt(ctx, rev, object, at, key, asked, absent); err == nil {
			return result
		}
		absent = false
		if !apierrors.IsConflict(err) {
			break
		}
	}

	return failed(newError(key, err))
}

// attempt reads the object, unless it is believed absent, decides, and writes. What it writes holds only for the
// object that it read: for that very version of it, or for its absence. So nobody's
// object is touched that was created or taken over in between; that is a conflict,
// and the object is read again.
//
// An absent object is not created by POST, which would record the fields under
// "Update", where later applies cannot remove them: it is applied with a resource
// version that no object has.
func (o *objects) attempt(ctx context.Context, rev *Revision, object Object, at location, key Key, asked digest, absent bool) (ObjectResult, error) {
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

	decision := decide(live, &rev.Owner, object.Protection)
	switch decision {
	case leave:
		// Whether it is ready is the later revision's concern.
		return ObjectResult{Object: key, Action: ActionSuperseded, Probe: ready()}, nil
	case await:
		return ObjectResult{Object: key, Action: ActionDeleting, Probe: notReady("%s, and is made anew afterwards", beingDeleted(live))}, nil
	case refuse:
		related := relate(live, &rev.Owner)
		return ObjectResult{Object: key, Action: ActionCollision, Err: collision(key, describeOwner(live), collisionAdvice(related))}, nil
	}

	wanted, err := desired(object.Manifest, live, &rev.Owner, at.namespaced)
	if err != nil {
		return failed(invalid(key, err.Error())), nil
	}

	if decision == update && o.memory.knows(live, wanted, asked) {
		probe := rev.Probes.Probe(live)
		o.memory.remember(live, wanted, asked, probe)
		return ObjectResult{Object: key, Action: ActionUnchanged, Probe: probe}, nil
	}

	expect(wanted, live)
	after, err := o.write(ctx, at, wanted, live != nil)
	switch {
	case mustReplace(err, key, live, &rev.Owner):
		after, err = o.replace(ctx, rev, object, at, key, live)
	case mustDistrust(err, live, wanted):
		after, err = o.distrust(ctx, at, wanted, live)
	}

	if err == nil {
		after, err = o.dropTrust(ctx, at, after)
	}
	if err != nil {
		return ObjectResult{}, err
	}

	probe := rev.Probes.Probe(after)
	o.memory.remember(after, wanted, asked, probe)
	return ObjectResult{Object: key, Action: actionOf(decision, live, after), Probe: probe}, nil
}

// write applies the object. An account that may not block the deletion of the
// revision, which the admission plugin OwnerReferencesPermissionEnforcement asks of
// it, does without: the order of removal is the revision's finalizer's work.
func (o *objects) write(ctx context.Context, at location, wanted *unstructured.Unstructured, force bool) (*unstructured.Unstructured, error) {
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

func actionOf(decision verdict, live, after *unstructured.Unstructured) Action {
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

// desired is what is applied: the manifest without what only the API server sets,
// with the owner's marks.
func desired(manifest, live *unstructured.Unstructured, owner *Owner, namespaced bool) (*unstructured.Unstructured, error) {
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

	u.SetOwnerReferences(ownerReferences(live, owner))
	return u, encodeStringData(u)
}

// expect adds the precondition: that the object is the live one, or that there is
// none.
func expect(wanted, live *unstructured.Unstructured) {
	if live == nil {
		wanted.SetResourceVersion(noVersion)
		return
	}
	wanted.SetUID(live.GetUID())
	wanted.SetResourceVersion(live.GetResourceVersion())
}

// encodeStringData moves stringData of a Secret to data: it is a field for writing
// only, whose values the API server would not keep as applied.
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

// beingDeleted says that an object is going, and what holds it.
func beingDeleted(live *unstructured.Unstructured) string {
	finalizers := live.GetFinalizers()
	if len(finalizers) == 0 {
		return "it is being deleted"
	}
	return fmt.Sprintf("it is being deleted, held by %s %s", plural(len(finalizers), "finalizer"), strings.Join(finalizers, ", "))
}

func plural(count int, noun string) string {
	if count == 1 {
		return noun
	}
	return noun + "s"
}

func failed(err *Error) ObjectResult {
	action := ActionFailed
	return ObjectResult{Object: err.Object, Action: action, Err: err}
}

// isControlledBy reports whether the owner is the object's controller.
func isControlledBy(live *unstructured.Unstructured, owner *Owner) bool {
	controller := metav1.GetControllerOf(live)
	return controller != nil && controller.UID == owner.Reference.UID
}
