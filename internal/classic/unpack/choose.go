package unpack

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// keptJobs is how many Jobs of an image are kept when failed ones are tried again.
const keptJobs = 5

// choice is what is done about the Jobs of an image.
type choice struct {
	// current is the Job that counts; nil when there is none.
	current *batchv1.Job
	// another says that one more Job is made, beside those that failed.
	another bool
	// surplus are those that are deleted.
	surplus []*batchv1.Job
	// again is after how long another can be made; 0 is not at all.
	again time.Duration
}

// choose decides about the Jobs of an image. One that has not failed counts before those that have, and
// is not repeated. Of several the newest counts, and of those that failed the one that did so last.
func choose(jobs []batchv1.Job, interval time.Duration, now time.Time) choice {
	sorted := make([]*batchv1.Job, 0, len(jobs))
	for i := range jobs {
		if jobs[i].DeletionTimestamp.IsZero() {
			sorted = append(sorted, &jobs[i])
		}
	}

	slices.SortFunc(sorted, func(a, b *batchv1.Job) int {
		aFailed, bFailed := failure(a), failure(b)
		switch {
		case aFailed == nil && bFailed != nil:
			return -1
		case aFailed != nil && bFailed == nil:
			return 1
		case aFailed != nil:
			if order := bFailed.LastTransitionTime.Compare(aFailed.LastTransitionTime.Time); order != 0 {
				return order
			}
		}
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})

	var c choice
	if len(sorted) == 0 {
		return c
	}

	c.current = sorted[0]
	if failed := failure(c.current); failed != nil && interval > 0 {
		if rested := now.Sub(failed.LastTransitionTime.Time); rested >= interval {
			c.another = true
		} else {
			c.again = interval - rested
		}
	}

	keep := keptJobs
	if c.another {
		keep--
	}
	if len(sorted) > keep {
		c.surplus = sorted[keep:]
	}

	return c
}

// failure returns the condition that says how a Job has failed, or nil.
func failure(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
