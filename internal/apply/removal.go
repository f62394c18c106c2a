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

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// blockerCheckDelay is the minimum age of a deletion, from its timestamp of whole seconds, before
// its blockers are read. Most objects are gone sooner. Listing the instances of a CRD makes the
// API server set up storage for a kind that is about to be deleted.
const blockerCheckDelay = 2 * time.Second

// deletedImmediately are the kinds whose objects are gone when the API server has answered their
// deletion, if they have no finalizers. Objects of other kinds may end later, such as Pods and
// Namespaces.
var deletedImmediately = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}: true, {Kind: "Secret"}: true, {Kind: "Service"}: true, {Kind: "ServiceAccount"}: true,
	{Group: "apps", Kind: "Deployment"}:                              true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
}

// Removal is the removal of the objects that an owner controls, in phases.
type Removal struct {
	Owner  *Owner
	Phases []Phase
	// RemovedPhases is how many phases, counted from the last, are known to be removed. They are not
	// checked again.
	RemovedPhases int
	// LastSeen returns the last version of an object that a watch observed, as for a Revision. May
	// be nil. An object that the owner controls is then deleted in that version, without being
	// read.
	LastSeen func(resource schema.GroupVersionResource, namespace, name string) (ObservedObject, bool)
}

// RemovalState is the state of an object that is being removed.
type RemovalState string

const (
	// RemovalGone means that the object does not exist.
	RemovalGone RemovalState = "Gone"
	// RemovalLeft means that the revision does not control the object, which stays.
	RemovalLeft RemovalState = "Left"
	// RemovalPending means that the object is being deleted.
	RemovalPending RemovalState = "Pending"
	// RemovalFailed means that the object could not be deleted.
	RemovalFailed RemovalState = "Failed"
)

// ObjectRemoval is the result of removing one object.
type ObjectRemoval struct {
	Object Key
	State  RemovalState
	// Message states what a pending deletion waits for.
	Message string
	// Err is the failure, or nil.
	Err *Error
}

// PhaseRemoval is the result of removing a phase.
type PhaseRemoval struct {
	Name    string
	Objects []ObjectRemoval
}

// Done reports whether the revision controls no object of the phase any more.
func (r PhaseRemoval) Done() bool {
	for _, object := range r.Objects {
		if object.State != RemovalGone && object.State != RemovalLeft {
			return false
		}
	}
	return true
}

// RevisionRemoval is the result of removing a revision.
type RevisionRemoval struct {
	// Phases are those that were checked, last phase first.
	Phases []PhaseRemoval
	// RemovedPhases is how many phases, counted from the last, are removed.
	RemovedPhases int
	// Total is the number of the revision's phases.
	Total int

	// alreadyGone is how many phases were known to be removed before.
	alreadyGone int
}

// Remove deletes the objects that the owner controls. It starts with the last phase, and removes
// each phase when all objects of the one after it are gone. It leaves objects that another
// revision has taken over, or that have another owner. It waits for objects that another revision
// wants, until that controls them. Remove does not block: the next call continues where this one
// ended.
//
// Dependents of an object, such as the pods of a Deployment, are left to the garbage collector.
func (e *Engine) Remove(ctx context.Context, r *Removal) RevisionRemoval {
	result := RevisionRemoval{RemovedPhases: r.RemovedPhases, Total: len(r.Phases), alreadyGone: r.RemovedPhases}
	for result.RemovedPhases < result.Total {
		removed := e.phases.remove(ctx, r, r.Phases[result.Total-1-result.RemovedPhases])
		result.Phases = append(result.Phases, removed)
		if ctx.Err() != nil || !removed.Done() {
			break
		}
		result.RemovedPhases++
	}

	return result
}

// Done reports whether the revision controls no object any more.
func (r RevisionRemoval) Done() bool {
	return r.RemovedPhases == r.Total
}

// Err returns the failures of objects by phase, or nil.
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
			result.texts = append(result.texts, fmt.Sprintf("removing %s: %s", r.describePhase(i), joinWithLimit(texts)))
		}
	}

	if len(result.errs) == 0 {
		return nil
	}
	return &result
}

// Waiting describes the pending deletions. It is empty if there are none.
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
			result = append(result, fmt.Sprintf("removing %s waits for %s", r.describePhase(i), joinWithLimit(pending)))
		}
	}

	return strings.Join(result, "; ")
}

// describePhase returns the name and position of a phase. Positions count as for the rollout: the
// last phase is removed first.
func (r RevisionRemoval) describePhase(i int) string {
	return describePhasePosition(r.Phases[i].Name, r.Total-1-r.alreadyGone-i, r.Total)
}

// remove deletes one object if the owner controls it, or releases it if it is kept. The version
// that was read, or observed by a watch, is the precondition: an object that a later revision
// takes over meanwhile stays.
func (o *objectEngine) remove(ctx context.Context, r *Removal, object Object) ObjectRemoval {
	key := KeyOf(object.Manifest)
	at, err := o.store.locate(object.Manifest.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return ObjectRemoval{Object: key, State: RemovalGone}
	}
	if err != nil {
		return newFailedRemoval(key, err)
	}
	if !at.namespaced {
		key.Namespace = ""
	}

	seen, isSeen := r.lastSeen(at.resource, key)
	isSeen = isSeen && seen.Controller == r.Owner.Reference.UID && !seen.Deleting && !object.WantedBySibling && !object.KeepOnRemoval
	for i := range maxApplyAttempts {
		if !isSeen {
			live, err := o.store.get(ctx, at, key)
			switch {
			case apierrors.IsNotFound(err):
				return ObjectRemoval{Object: key, State: RemovalGone}
			case err != nil:
				return newFailedRemoval(key, err)
			case !isControlledBy(live, r.Owner):
				return ObjectRemoval{Object: key, State: RemovalLeft}
			case live.GetDeletionTimestamp() != nil:
				o.retriggerCRDDeletion(ctx, at, key, live)
				return ObjectRemoval{Object: key, State: RemovalPending, Message: o.describeBlockers(ctx, live)}
			case object.WantedBySibling:
				return ObjectRemoval{Object: key, State: RemovalPending, Message: "the remaining revision is about to take it over"}
			case object.KeepOnRemoval:
				err := o.store.replaceOwnerReferences(ctx, at, key, live.GetUID(), live.GetResourceVersion(), otherOwnerReferences(live, r.Owner))
				if ignoreGoneOrChanged(err) != nil {
					return newFailedRemoval(key, err)
				}
				continue // It is read again: the owner no longer controls it.
			}
			seen = ObservedObject{UID: live.GetUID(), Version: live.GetResourceVersion(), HasFinalizers: len(live.GetFinalizers()) > 0}
		}

		if i == 0 {
			o.prepareCRDStorage(ctx, object.Manifest)
		}

		err = o.store.delete(ctx, at, key, seen.UID, seen.Version)
		switch {
		case err == nil && deletedImmediately[key.GroupKind] && !seen.HasFinalizers:
			return ObjectRemoval{Object: key, State: RemovalGone}
		case ignoreGoneOrChanged(err) != nil:
			return newFailedRemoval(key, err)
		}

		isSeen = false // It is read again: it may be gone already.
	}

	return ObjectRemoval{Object: key, State: RemovalFailed, Err: &Error{
		Object: key, Cause: CauseContended, text: fmt.Sprintf("%s: other clients keep changing it while it is to be deleted", key),
	}}
}

// ignoreGoneOrChanged returns nil for the errors of a write whose precondition does not hold any
// more: the object is deleted, or another client changed it.
func ignoreGoneOrChanged(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// otherOwnerReferences returns the owner references of an object except the one to the owner.
func otherOwnerReferences(live *unstructured.Unstructured, owner *Owner) []metav1.OwnerReference {
	return slices.DeleteFunc(live.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == owner.Reference.UID
	})
}

func (r *Removal) lastSeen(resource schema.GroupVersionResource, key Key) (ObservedObject, bool) {
	if r.LastSeen == nil {
		return ObservedObject{}, false
	}
	return r.LastSeen(resource, key.Namespace, key.Name)
}

// prepareCRDStorage makes the API server set up the storage of the kind that a CRD defines. The
// API server needs it to delete the instances. If the kind was never requested before, its first
// attempts would fail without it, each with a longer retry interval.
//
// A failure is ignored: the deletion then takes longer.
func (o *objectEngine) prepareCRDStorage(ctx context.Context, manifest *unstructured.Unstructured) {
	if manifest.GroupVersionKind().GroupKind() != crdKind {
		return
	}
	if resource, ok := resourceOfCRD(manifest); ok {
		_, _, _ = o.store.sampleInstances(ctx, resource)
	}
}

func newFailedRemoval(key Key, err error) ObjectRemoval {
	return ObjectRemoval{Object: key, State: RemovalFailed, Err: newObjectError(key, err)}
}

// describeBlockers describes what the deletion of an object waits for. A CRD waits for its
// instances. Some of them are named, because their own finalizers may block them.
func (o *objectEngine) describeBlockers(ctx context.Context, live *unstructured.Unstructured) string {
	message := describeDeletion(live)
	if live.GroupVersionKind().GroupKind() != crdKind || o.now().Sub(live.GetDeletionTimestamp().Time) < blockerCheckDelay {
		return message
	}

	resource, ok := resourceOfCRD(live)
	if !ok {
		return message
	}

	items, count, err := o.store.sampleInstances(ctx, resource)
	if err != nil || count == 0 {
		return message
	}

	names := make([]string, len(items))
	for i := range items {
		names[i] = KeyOf(&items[i]).String()
		if finalizers := items[i].GetFinalizers(); len(finalizers) > 0 {
			names[i] += fmt.Sprintf(" (held by %s %s)", pluralizeNoun(len(finalizers), "finalizer"), strings.Join(finalizers, ", "))
		}
	}

	return fmt.Sprintf("it is waiting for %d %s of its kind to be deleted: %s",
		count, pluralizeNoun(int(count), "instance"), excerpt.JoinSample(names, int(count), ", ", " and "))
}

// resourceOfCRD returns the resource that a CRD defines, in the first served version.
func resourceOfCRD(crd *unstructured.Unstructured) (schema.GroupVersionResource, bool) {
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
