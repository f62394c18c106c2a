package apply

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

const (
	// parallel is how many objects of a phase are written side by side. A write takes
	// the API server some milliseconds; eight hide most of that and are no burden.
	parallel = 8
	// named is how many objects a message names; of the others it gives the number.
	named = 3
)

// Phase is a group of objects that are applied side by side.
type Phase struct {
	Name    string
	Objects []Object
}

// PhaseResult is what became of a phase.
type PhaseResult struct {
	Name string
	// Objects are in the order of the phase.
	Objects []ObjectResult
}

// Done reports whether every object is as it should be.
func (r PhaseResult) Done() bool {
	for _, object := range r.Objects {
		if !object.Done() {
			return false
		}
	}
	return true
}

// passes reports whether the next phase may begin: every object is as it should be, but
// for what later phases bring.
func (r PhaseResult) passes() bool {
	for _, object := range r.Objects {
		if !object.Done() && !object.Probe.Later {
			return false
		}
	}
	return true
}

// Errors are the failures, in the order of the objects.
func (r PhaseResult) Errors() []*Error {
	var result []*Error
	for _, object := range r.Objects {
		if object.Err != nil {
			result = append(result, object.Err)
		}
	}
	return result
}

// awaited lists the objects that are not ready, each with the reason.
func (r PhaseResult) awaited() []string {
	var result []string
	for _, object := range r.Objects {
		if object.Err == nil && !object.Probe.Ready {
			result = append(result, fmt.Sprintf("%s: %s", object.Object, object.Probe.Message))
		}
	}
	return result
}

// failures lists the probes of the revision that fail, in the words that scripts look for.
func (r PhaseResult) failures() []string {
	var result []string
	for _, object := range r.Objects {
		if object.Err == nil && object.Probe.Failure != "" {
			result = append(result, object.Probe.Failure)
		}
	}
	return result
}

// objectLayer is what a phase asks of the layer below.
type objectLayer interface {
	apply(ctx context.Context, rev *Revision, object Object) ObjectResult
	remove(ctx context.Context, r *Removal, object Object) ObjectRemoval
}

// phases is the middle layer: all objects of a phase.
type phases struct{ objects objectLayer }

func (p *phases) apply(ctx context.Context, rev *Revision, phase Phase) PhaseResult {
	result := PhaseResult{Name: phase.Name, Objects: make([]ObjectResult, len(phase.Objects))}
	each(len(phase.Objects), func(i int) {
		result.Objects[i] = p.objects.apply(ctx, rev, phase.Objects[i])
	})
	return result
}

func (p *phases) remove(ctx context.Context, r *Removal, phase Phase) PhaseRemoval {
	result := PhaseRemoval{Name: phase.Name, Objects: make([]ObjectRemoval, len(phase.Objects))}
	each(len(phase.Objects), func(i int) {
		result.Objects[i] = p.objects.remove(ctx, r, phase.Objects[i])
	})
	return result
}

// each calls the function for 0 to count-1, a few at a time, and waits for all.
func each(count int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range count {
		group.Go(func() error {
			do(i)
			return nil
		})
	}

	_ = group.Wait() // no function fails
}

// list joins what is to be said of several objects, and shortens it.
func list(items []string) string {
	if len(items) <= named {
		return strings.Join(items, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(items[:named], "; "), len(items)-named)
}
