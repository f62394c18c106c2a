package apply

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

const (
	// maxParallelWrites is how many objects of a phase are written in parallel. A write takes the
	// API server some milliseconds. Eight hide most of that and do not burden it.
	maxParallelWrites = 8
	// maxNamedObjects is how many objects a message names. It states only the number of the
	// others.
	maxNamedObjects = 3
)

// Phase is a group of objects that are applied in parallel.
type Phase struct {
	Name    string
	Objects []Object
}

// PhaseResult is the result of applying a phase.
type PhaseResult struct {
	Name string
	// Objects are in the order of the phase.
	Objects []ObjectResult
}

// Done reports whether every object is done.
func (r PhaseResult) Done() bool {
	for _, object := range r.Objects {
		if !object.Done() {
			return false
		}
	}
	return true
}

// allowsNextPhase reports whether the next phase may be applied: every object is done, except for
// what later phases provide.
func (r PhaseResult) allowsNextPhase() bool {
	for _, object := range r.Objects {
		if !object.Done() && !object.Probe.AwaitsLaterPhase {
			return false
		}
	}
	return true
}

// Errors returns the failures, in the order of the objects.
func (r PhaseResult) Errors() []*Error {
	var result []*Error
	for _, object := range r.Objects {
		if object.Err != nil {
			result = append(result, object.Err)
		}
	}
	return result
}

// describePending describes the objects that are not ready, with the reason.
func (r PhaseResult) describePending() []string {
	var result []string
	for _, object := range r.Objects {
		if object.Err == nil && !object.Probe.Ready {
			result = append(result, fmt.Sprintf("%s: %s", object.Object, object.Probe.Message))
		}
	}
	return result
}

// probeFailures returns the messages of the revision's failing probes. Scripts match their
// wording.
func (r PhaseResult) probeFailures() []string {
	var result []string
	for _, object := range r.Objects {
		if object.Err == nil && object.Probe.Failure != "" {
			result = append(result, object.Probe.Failure)
		}
	}
	return result
}

// objectLayer is the layer below the phases.
type objectLayer interface {
	apply(ctx context.Context, rev *Revision, object Object) ObjectResult
	remove(ctx context.Context, r *Removal, object Object) ObjectRemoval
}

// phaseEngine is the middle layer. It applies and removes all objects of a phase.
type phaseEngine struct{ objects objectLayer }

func (p *phaseEngine) apply(ctx context.Context, rev *Revision, phase Phase) PhaseResult {
	result := PhaseResult{Name: phase.Name, Objects: make([]ObjectResult, len(phase.Objects))}
	forEachParallel(len(phase.Objects), func(i int) {
		result.Objects[i] = p.objects.apply(ctx, rev, phase.Objects[i])
	})
	return result
}

func (p *phaseEngine) remove(ctx context.Context, r *Removal, phase Phase) PhaseRemoval {
	result := PhaseRemoval{Name: phase.Name, Objects: make([]ObjectRemoval, len(phase.Objects))}
	forEachParallel(len(phase.Objects), func(i int) {
		result.Objects[i] = p.objects.remove(ctx, r, phase.Objects[i])
	})
	return result
}

// forEachParallel calls the function for 0 to count-1, maxParallelWrites at a time, and waits for
// all.
func forEachParallel(count int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(maxParallelWrites)
	for i := range count {
		group.Go(func() error {
			do(i)
			return nil
		})
	}

	_ = group.Wait() // no function fails
}

// joinWithLimit joins descriptions of objects, up to maxNamedObjects.
func joinWithLimit(items []string) string {
	return excerpt.Join(items, maxNamedObjects, "; ", "; and ")
}
