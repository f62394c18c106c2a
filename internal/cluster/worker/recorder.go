package worker

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// recorder records the progress of a pass in the status of the Worker, as long as the plan of the
// pass is the current one.
type recorder struct {
	worker *Worker
	plan   *workPlan
}

// updateProgress calls change with the progress if the plan is the current one, and reports whether it is.
func (r recorder) updateProgress(change func(*progress)) bool {
	r.worker.mu.Lock()
	defer r.worker.mu.Unlock()
	if r.worker.plan != r.plan {
		return false
	}
	change(&r.worker.progress)
	return true
}

// recordTaskStart records that a manifest is in flight.
func (r recorder) recordTaskStart(task release.Task) {
	r.updateProgress(func(p *progress) { p.inFlight[task.Number] = describeTask(task) })
}

// recordTaskEnd records that a manifest is no longer in flight and, if it is done, counts it.
func (r recorder) recordTaskEnd(task release.Task, done bool) {
	now := r.worker.clock.Now()
	isCurrent := r.updateProgress(func(p *progress) {
		delete(p.inFlight, task.Number)
		if !done {
			return
		}
		if p.done++; p.done > p.status.Done {
			p.status.Done = p.done
			p.status.LastProgress = now
		}
	})
	if isCurrent && done {
		notifyWithoutBlocking(r.worker.statusChanged)
	}
}

// countFailedAttempt counts a failed attempt at a manifest.
func (r recorder) countFailedAttempt() {
	r.updateProgress(func(p *progress) { p.status.Errors++ })
}

// recordOperatorWait records since when the Worker waits for a ClusterOperator, or that it does
// not wait any more.
func (r recorder) recordOperatorWait(name string, isWell bool) {
	now := r.worker.clock.Now()
	r.updateProgress(func(p *progress) {
		if isWell {
			delete(p.waitingSince, name)
		} else if p.waitingSince[name].IsZero() {
			p.waitingSince[name] = now
		}
	})
}

// recordPendingDeletion records whether the deletion of an object is pending.
func (r recorder) recordPendingDeletion(object string, isPending bool) {
	r.updateProgress(func(p *progress) {
		if isPending {
			p.deleting[object] = true
		} else {
			delete(p.deleting, object)
		}
	})
}

// recordDeletion records the UID of a deleted object.
func (r recorder) recordDeletion(it *item, uid types.UID) {
	r.updateProgress(func(p *progress) { p.deletedUIDs[it.key] = uid })
}

// wasRecreatedAfterDeletion reports whether an object with another UID was deleted before in the
// same place.
func (r recorder) wasRecreatedAfterDeletion(it *item, uid types.UID) bool {
	wasRecreated := false
	r.updateProgress(func(p *progress) {
		before, ok := p.deletedUIDs[it.key]
		wasRecreated = ok && before != uid
	})
	return wasRecreated
}
