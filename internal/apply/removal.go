package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// heldAfter is how long an object is being deleted, counted from its timestamp of whole
// seconds, before it is asked what holds it: most are gone sooner, and listing the instances of a CustomResourceDefinition has the API
// server set up the storage of a kind that is about to go.
const heldAfter = 2 * time.Second

// endsAtOnce are the kinds of which an object without finalizers is gone when the API server
// has answered its deletion. Others may end later by themselves, as Pods and Namespaces do.
var endsAtOnce = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}: true, {Kind: "Secret"}: true, {Kind: "Service"}: true, {Kind: "ServiceAccount"}: true,
	{Group: "apps", Kind: "Deployment"}:                              true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
}

// Removal is what is to be removed: the objects in phases that an owner controls.
type Removal struct {
	Owner  *Owner
	Phases []Phase
	// Gone is how many phases, counted from the last, are known to be removed. They are not
	// looked at again.
	Gone int
	// Current, if set, tells what a watch saw of an object last, as for a Revision. An object
	// that is the owner's is then deleted as it was seen, without being read before.
	Current func(resource schema.GroupVersionResource, namespace, name string) (Seen, bool)
}

// RemovalState is what became of an object that was to be removed.
type RemovalState string

const (
	// RemovalGone: it does not exist.
	RemovalGone RemovalState = "Gone"
	// RemovalLeft: it is not the revision's, and stays.
	RemovalLeft RemovalState = "Left"
	// RemovalPending: it is being deleted.
	RemovalPending RemovalState = "Pending"
	// RemovalFailed: it could not be deleted.
	RemovalFailed RemovalState = "Failed"
)

// ObjectRemoval is what became of an object that was to be removed.
type ObjectRemoval struct {
	Object Key
	State  RemovalState
	// Message says what a pending deletion waits for.
	Message string
	// Err says what failed; nil when nothing did.
	Err *Error
}

// PhaseRemoval is what became of a phase that was to be removed.
type PhaseRemoval struct {
	Name    string
	Objects []ObjectRemoval
}

// Done reports whether nothing of the phase is left that was the revision's.
func (r PhaseRemoval) Done() bool {
	for _, object := range r.Objects {
		if object.State != RemovalGone && object.State != RemovalLeft {
			return false
		}
	}
	return true
}

// RevisionRemoval is what became of a revision that was to be removed.
type RevisionRemoval struct {
	// Phases are those that were looked at, last phase first.
	Phases []PhaseRemoval
	// Gone is how many phases, counted from the last, are removed.
	Gone int
	// Total is the number of the revision's phases.
	Total int

	// passed is how many phases were known to be gone before.
	passed int
}

// Remove deletes the objects that the owner controls, last phase first, each phase
// when all objects of the one after it are gone. Objects that another revision has
// taken over, or that are somebody else's, are left, and those that another one wants are
// awaited until it has them. It does not wait: the next call goes on where this one ended.
//
// Dependents of an object, such as the pods of a Deployment, are left to the
// cluster's garbage collector.
func (e *Engine) Remove(ctx context.Context, r *Removal) RevisionRemoval {
	result := RevisionRemoval{Gone: r.Gone, Total: len(r.Phases), passed: r.Gone}
	for result.Gone < result.Total {
		removed := e.phases.remove(ctx, r, r.Phases[result.Total-1-result.Gone])
		result.Phases = append(result.Phases, removed)
		if ctx.Err() != nil || !removed.Done() {
			break
		}
		result.Gone++
	}

	return result
}

// Done reports whether nothing is left that was the revision's.
func (r RevisionRemoval) Done() bool {
	return r.Gone == r.Total
}

// Err says which objects failed; nil when none did.
func (r RevisionRemoval) Err() error {
	var result rolloutError
	for i, phase := range r.Phases {
		var texts []string
		for _, object := range phase.Objects {
			if object.Err != nil {
				texts = append(texts, object.Err.Error())
				result.errs = append(result.errs, object.Err)
			}
		}
		if len(texts) > 0 {
			result.texts = append(result.texts, fmt.Sprintf("removing %s: %s", r.ordinal(i), list(texts)))
		}
	}

	if len(result.errs) == 0 {
		return nil
	}
	return &result
}

// Waiting says which deletions are pending; empty when none is.
func (r RevisionRemoval) Waiting() string {
	var result []string
	for i, phase := range r.Phases {
		var pending []string
		for _, object := range phase.Objects {
			if object.State == RemovalPending {
				pending = append(pending, fmt.Sprintf("%s: %s", object.Object, object.Message))
			}
		}
		if len(pending) > 0 {
			result = append(result, fmt.Sprintf("removing %s waits for %s", r.ordinal(i), list(pending)))
		}
	}

	return strings.Join(result, "; ")
}

// ordinal counts as rolling out does: the last phase is removed first.
func (r RevisionRemoval) ordinal(i int) string {
	return ordinal(r.Phases[i].Name, r.Total-1-r.passed-i, r.Total)
}

// remove deletes one object if the owner controls it, or releases one that is kept. What was read, or seen by a watch, is
// deleted only if it is still that, so that an object that a later revision takes over
// meanwhile stays.
func (o *objects) remove(ctx context.Context, r *Removal, object Object) ObjectRemoval {
	key := KeyOf(object.Manifest)
	at, err := o.store.locate(object.Manifest.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return ObjectRemoval{Object: key, State: RemovalGone}
	}
	if err != nil {
		return removalFailed(key, err)
	}
	if !at.namespaced {
		key.Namespace = ""
	}

	seen, isSeen := r.seen(at.resource, key)
	isSeen = isSeen && seen.Controller == r.Owner.Reference.UID && !seen.Deleting && !object.Wanted && !object.Keep
	for i := range contention {
		if !isSeen {
			live, err := o.store.get(ctx, at, key)
			switch {
			case apierrors.IsNotFound(err):
				return ObjectRemoval{Object: key, State: RemovalGone}
			case err != nil:
				return removalFailed(key, err)
			case !isControlledBy(live, r.Owner):
				return ObjectRemoval{Object: key, State: RemovalLeft}
			case live.GetDeletionTimestamp() != nil:
				o.nudge(ctx, at, key, live)
				return ObjectRemoval{Object: key, State: RemovalPending, Message: o.heldBy(ctx, live)}
			case object.Wanted:
				return ObjectRemoval{Object: key, State: RemovalPending, Message: "the revision that stays is about to take it back"}
			case object.Keep:
				err := o.store.release(ctx, at, key, live.GetUID(), live.GetResourceVersion(), ownersBeside(live, r.Owner))
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return removalFailed(key, err)
				}
				continue // It is read again: it is not the owner's any more.
			}
			seen = Seen{UID: live.GetUID(), Version: live.GetResourceVersion(), Held: len(live.GetFinalizers()) > 0}
		}

		if i == 0 {
			o.prepare(ctx, object.Manifest)
		}

		err = o.store.delete(ctx, at, key, seen.UID, seen.Version)
		switch {
		case err == nil && endsAtOnce[key.GroupKind] && !seen.Held:
			return ObjectRemoval{Object: key, State: RemovalGone}
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return removalFailed(key, err)
		}

		isSeen = false // It is read again: it may be gone at once.
	}

	return ObjectRemoval{Object: key, State: RemovalFailed, Err: &Error{
		Object: key, Cause: CauseContended, text: fmt.Sprintf("%s: others change it again and again while it is to be deleted", key),
	}}
}

// ownersBeside returns the owner references of an object without the one to the owner.
func ownersBeside(live *unstructured.Unstructured, owner *Owner) []metav1.OwnerReference {
	return slices.DeleteFunc(live.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == owner.Reference.UID
	})
}

func (r *Removal) seen(resource schema.GroupVersionResource, key Key) (Seen, bool) {
	if r.Current == nil {
		return Seen{}, false
	}
	return r.Current(resource, key.Namespace, key.Name)
}

// prepare has the API server set up the storage of the kind that a CustomResourceDefinition
// defines, which it needs to delete the instances. Where nobody has asked for any before,
// its first attempts would fail for the lack of it, each with a longer pause after it.
//
// That it could not is of no consequence: the deletion then takes longer.
func (o *objects) prepare(ctx context.Context, manifest *unstructured.Unstructured) {
	if manifest.GroupVersionKind().GroupKind() != crdKind {
		return
	}
	if resource, ok := resourceOf(manifest); ok {
		_, _, _ = o.store.sample(ctx, resource)
	}
}

func removalFailed(key Key, err error) ObjectRemoval {
	return ObjectRemoval{Object: key, State: RemovalFailed, Err: newError(key, err)}
}

// heldBy says what the end of an object waits for. A CustomResourceDefinition waits
// for its instances, of which some are named: their own finalizers may hold them.
func (o *objects) heldBy(ctx context.Context, live *unstructured.Unstructured) string {
	message := beingDeleted(live)
	if live.GroupVersionKind().GroupKind() != crdKind || o.now().Sub(live.GetDeletionTimestamp().Time) < heldAfter {
		return message
	}

	resource, ok := resourceOf(live)
	if !ok {
		return message
	}

	items, count, err := o.store.sample(ctx, resource)
	if err != nil || count == 0 {
		return message
	}

	names := make([]string, len(items))
	for i := range items {
		names[i] = KeyOf(&items[i]).String()
		if finalizers := items[i].GetFinalizers(); len(finalizers) > 0 {
			names[i] += fmt.Sprintf(" (held by %s %s)", plural(len(finalizers), "finalizer"), strings.Join(finalizers, ", "))
		}
	}

	if more := count - int64(len(items)); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}

	return fmt.Sprintf("it is waiting for %d %s of its kind to be deleted: %s", count, plural(int(count), "instance"), strings.Join(names, ", "))
}

// resourceOf returns the resource that a CustomResourceDefinition defines, in the first
// version that is served.
func resourceOf(crd *unstructured.Unstructured) (schema.GroupVersionResource, bool) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if served, _ := version["served"].(bool); served {
			name, _ := version["name"].(string)
			return schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, plural != "" && name != ""
		}
	}

	return schema.GroupVersionResource{}, false
}
