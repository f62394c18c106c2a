package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Revision is the objects to apply, in phases, for an owner.
type Revision struct {
	Owner  Owner
	Phases []Phase
	// Probes are evaluated in addition to the built-in ones. May be nil.
	Probes *Probes
	// Ungated applies every phase, even if objects of the previous phase are not ready. It is for
	// a revision that was rolled out before: objects of late phases are repaired although one of
	// an early phase has a problem.
	Ungated bool
	// Watch is called with each resource before the first of its objects is applied, so that a
	// watch can be started in time. May be nil. It must be safe for concurrent use.
	Watch func(resource schema.GroupVersionResource)
	// LastSeen returns the last version of an object that a watch observed. It returns false if the
	// resource is not watched or the object was not observed. An object that has not changed since
	// is then not read. May be nil. It must be safe for concurrent use.
	LastSeen func(resource schema.GroupVersionResource, namespace, name string) (ObservedObject, bool)
	// FirstRollout means that no earlier revision created any of the objects, and that few of them exist.
	// Objects that no watch observed are created without being read. It affects only the number of
	// requests.
	FirstRollout bool
}

// ObservedObject is a version of an object.
type ObservedObject struct {
	UID     types.UID
	Version string
	// Controller is the UID of the controller, or empty.
	Controller types.UID
	// Deleting means that the object is being deleted.
	Deleting bool
	// HasFinalizers means that the object has finalizers.
	HasFinalizers bool
}

func (r *Revision) lastSeen(resource schema.GroupVersionResource, key Key) (ObservedObject, bool) {
	if r.LastSeen == nil {
		return ObservedObject{}, false
	}
	return r.LastSeen(resource, key.Namespace, key.Name)
}

// Engine applies and removes revisions. It is safe for concurrent use.
type Engine struct{ phases phaseLayer }

// phaseLayer is the layer below the revisions.
type phaseLayer interface {
	apply(ctx context.Context, rev *Revision, phase Phase) PhaseResult
	remove(ctx context.Context, r *Removal, phase Phase) PhaseRemoval
}

// New returns an engine that writes with the rights of a client. The mapper must find kinds that
// were defined a moment ago, as that of a controller-runtime manager does. The memory may be nil.
func New(client dynamic.Interface, mapper meta.RESTMapper, memory *Memory) *Engine {
	return newEngineForStore(&server{client: client, mapper: mapper}, memory)
}

func newEngineForStore(store store, memory *Memory) *Engine {
	return &Engine{phases: &phaseEngine{objects: &objectEngine{store: store, memory: memory, now: time.Now}}}
}

// RevisionResult is the result of applying a revision.
type RevisionResult struct {
	// Phases are the phases that were applied.
	Phases []PhaseResult
	// Total is the number of the revision's phases.
	Total int
}

// Apply applies the phases in order. Each requires that all objects of the previous one are ready,
// except for what later phases provide. Apply does not block: it ends at a phase that is not
// ready, and the next call continues there.
func (e *Engine) Apply(ctx context.Context, rev *Revision) RevisionResult {
	result := RevisionResult{Total: len(rev.Phases)}
	for _, phase := range rev.Phases {
		applied := e.phases.apply(ctx, rev, phase)
		result.Phases = append(result.Phases, applied)
		if ctx.Err() != nil || (!rev.Ungated && !applied.allowsNextPhase()) {
			break
		}
	}

	return result
}

// Done reports whether every object of every phase is done.
func (r RevisionResult) Done() bool {
	if len(r.Phases) < r.Total {
		return false
	}

	for _, phase := range r.Phases {
		if !phase.Done() {
			return false
		}
	}
	return true
}

// Err returns the failures of objects by phase, or nil. errors.As finds the failure of each object
// in it.
func (r RevisionResult) Err() error {
	var result rolloutError
	for i, phase := range r.Phases {
		errs := phase.Errors()
		if len(errs) == 0 {
			continue
		}

		texts := make([]string, len(errs))
		for j, err := range errs {
			texts[j] = err.Error()
			result.errs = append(result.errs, err)
		}

		result.texts = append(result.texts, fmt.Sprintf("%s: %s", r.describePhase(i), joinWithLimit(texts)))
	}

	if len(result.errs) == 0 {
		return nil
	}
	return &result
}

// Waiting describes the awaited objects, by phase. It is empty if there are none. It begins with
// the messages of the revision's failing probes, whose wording scripts match.
func (r RevisionResult) Waiting() string {
	var failures, waits []string
	for i, phase := range r.Phases {
		failures = append(failures, phase.probeFailures()...)
		if awaited := phase.describePending(); len(awaited) > 0 {
			waits = append(waits, fmt.Sprintf("%s waits for %s", r.describePhase(i), joinWithLimit(awaited)))
		}
	}

	if len(failures) > 0 {
		waits = append([]string{joinWithLimit(failures)}, waits...)
	}
	return strings.Join(waits, "; ")
}

// Superseded returns the number of objects that later revisions control.
func (r RevisionResult) Superseded() int { return r.Count(ActionSuperseded) }

// Count returns the number of objects with the action.
func (r RevisionResult) Count(action Action) int {
	count := 0
	for _, phase := range r.Phases {
		for _, object := range phase.Objects {
			if object.Action == action {
				count++
			}
		}
	}

	return count
}

// Objects returns the number of objects of the applied phases.
func (r RevisionResult) Objects() int {
	count := 0
	for _, phase := range r.Phases {
		count += len(phase.Objects)
	}
	return count
}

func (r RevisionResult) describePhase(i int) string {
	return describePhasePosition(r.Phases[i].Name, i, r.Total)
}

// describePhasePosition returns the name and position of a phase: phase "deploy" (3 of 4).
func describePhasePosition(name string, i, total int) string {
	return fmt.Sprintf("phase %q (%d of %d)", name, i+1, total)
}

// rolloutError joins the failures of several objects.
type rolloutError struct {
	texts []string
	errs  []error
}

// Error returns the failures by phase. If there is a collision, it begins with wording that
// scripts match.
func (e *rolloutError) Error() string {
	text := strings.Join(e.texts, "; ")
	isCollision := func(err error) bool {
		var failed *Error
		return errors.As(err, &failed) && failed.Cause == CauseCollision
	}
	if slices.ContainsFunc(e.errs, isCollision) {
		text = "revision object collisions: " + text
	}
	return text
}

// Unwrap returns the failures of the objects.
func (e *rolloutError) Unwrap() []error { return e.errs }
