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

// Revision is what is to be applied: objects in phases, for an owner.
type Revision struct {
	Owner  Owner
	Phases []Phase
	// Probes are asked beside those built in; nil for none.
	Probes *Probes
	// Ungated applies every phase, also when objects of the one before are not ready.
	// It is for a revision that was rolled out before and is only kept as it was: an
	// object of a late phase is healed although one of an early phase is in trouble.
	Ungated bool
	// Watch, if set, is told each resource before the first of its objects is applied,
	// so that a watch can be there in time. It is called from several goroutines.
	Watch func(resource schema.GroupVersionResource)
	// Current, if set, tells what a watch saw of an object last; false when it does not
	// watch the resource or did not see the object. An object that is as it was left is
	// then not read. It is called from several goroutines.
	Current func(resource schema.GroupVersionResource, namespace, name string) (Seen, bool)
	// First says that no earlier revision made any of the objects, and that few of them
	// exist: those that no watch saw are created without being looked for. It changes
	// the number of requests only.
	First bool
}

// Seen is a version of an object.
type Seen struct {
	UID     types.UID
	Version string
	// Controller is what controls it; empty when nothing does.
	Controller types.UID
	// Deleting: it is being deleted.
	Deleting bool
	// Held: it has finalizers.
	Held bool
}

func (r *Revision) seen(resource schema.GroupVersionResource, key Key) (Seen, bool) {
	if r.Current == nil {
		return Seen{}, false
	}
	return r.Current(resource, key.Namespace, key.Name)
}

// Engine applies and removes revisions. It may be used by several goroutines.
type Engine struct{ phases phaseLayer }

// phaseLayer is what a revision asks of the layer below.
type phaseLayer interface {
	apply(ctx context.Context, rev *Revision, phase Phase) PhaseResult
	remove(ctx context.Context, r *Removal, phase Phase) PhaseRemoval
}

// New makes an engine that writes with the rights of a client. The mapper must find
// kinds that are served since a moment ago, as that of a controller-runtime manager
// does. The memory may be nil.
func New(client dynamic.Interface, mapper meta.RESTMapper, memory *Memory) *Engine {
	return newEngine(&server{client: client, mapper: mapper}, memory)
}

func newEngine(store store, memory *Memory) *Engine {
	return &Engine{phases: &phases{objects: &objects{store: store, memory: memory, now: time.Now}}}
}

// RevisionResult is what became of a revision.
type RevisionResult struct {
	// Phases are those that were begun.
	Phases []PhaseResult
	// Total is the number of the revision's phases.
	Total int
}

// Apply applies the phases in their order, each if all objects of the one before are
// ready, but for what comes Later. It does not wait: a phase that is not ready ends it,
// and the next call goes on from there.
func (e *Engine) Apply(ctx context.Context, rev *Revision) RevisionResult {
	result := RevisionResult{Total: len(rev.Phases)}
	for _, phase := range rev.Phases {
		applied := e.phases.apply(ctx, rev, phase)
		result.Phases = append(result.Phases, applied)
		if ctx.Err() != nil || (!rev.Ungated && !applied.passes()) {
			break
		}
	}

	return result
}

// Done reports whether every object of every phase is as it should be.
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

// Err says which objects failed, by phase; nil when none did. Each object's failure
// is found in it by errors.As.
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

		result.texts = append(result.texts, fmt.Sprintf("%s: %s", r.ordinal(i), list(texts)))
	}

	if len(result.errs) == 0 {
		return nil
	}
	return &result
}

// Waiting returns which objects are awaited, by phase; empty when none is. Before them it
// has the probes of the revision that fail, in the words that scripts look for.
func (r RevisionResult) Waiting() string {
	var failures, waits []string
	for i, phase := range r.Phases {
		failures = append(failures, phase.failures()...)
		if awaited := phase.awaited(); len(awaited) > 0 {
			waits = append(waits, fmt.Sprintf("%s waits for %s", r.ordinal(i), list(awaited)))
		}
	}

	if len(failures) > 0 {
		waits = append([]string{list(failures)}, waits...)
	}
	return strings.Join(waits, "; ")
}

// Superseded is the number of objects that later revisions have.
func (r RevisionResult) Superseded() int { return r.Count(ActionSuperseded) }

// Count is the number of objects with which the action was done.
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

// Objects is the number of objects of the phases that were begun.
func (r RevisionResult) Objects() int {
	count := 0
	for _, phase := range r.Phases {
		count += len(phase.Objects)
	}
	return count
}

func (r RevisionResult) ordinal(i int) string {
	return ordinal(r.Phases[i].Name, i, r.Total)
}

// ordinal names a phase by its name and its place: phase "deploy" (3 of 4).
func ordinal(name string, i, total int) string {
	return fmt.Sprintf("phase %q (%d of %d)", name, i+1, total)
}

// rolloutError is the failures of several objects, as one message.
type rolloutError struct {
	texts []string
	errs  []error
}

// Error names the failures by phase. With a collision among them it begins with the words
// that scripts look for.
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

func (e *rolloutError) Unwrap() []error { return e.errs }
