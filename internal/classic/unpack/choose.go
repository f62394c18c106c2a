package unpack

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// maxKeptJobs is how many Jobs of an image are kept when failed ones are retried.
const maxKeptJobs = 5

// jobDecision says what to do about the Jobs of an image.
type jobDecision struct {
	// current is the Job that counts, or nil if there is none.
	current *batchv1.Job
	// createAnother is set if another Job has to be created in addition to failed ones.
	createAnother bool
	// surplus are the Jobs to delete.
	surplus []*batchv1.Job
	// retryAfter is the time until another Job can be created, or 0 for never.
	retryAfter time.Duration
}

// decideJobActions decides what to do about the Jobs of an image. A Job that has not failed takes
// precedence over failed ones and is not repeated. Of several such Jobs the newest counts, of
// failed Jobs the one that failed last. interval is the retry interval; 0 disables retries.
func decideJobActions(jobs []batchv1.Job, interval time.Duration, now time.Time) jobDecision {
	sorted := make([]*batchv1.Job, 0, len(jobs))
	for i := range jobs {
		if jobs[i].DeletionTimestamp.IsZero() {
			sorted = append(sorted, &jobs[i])
		}
	}

	slices.SortFunc(sorted, func(a, b *batchv1.Job) int {
		aFailed, bFailed := findFailedCondition(a), findFailedCondition(b)
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

	var c jobDecision
	if len(sorted) == 0 {
		return c
	}

	c.current = sorted[0]
	if failed := findFailedCondition(c.current); failed != nil && interval > 0 {
		if elapsed := now.Sub(failed.LastTransitionTime.Time); elapsed >= interval {
			c.createAnother = true
		} else {
			c.retryAfter = interval - elapsed
		}
	}

	keep := maxKeptJobs
	if c.createAnother {
		keep--
	}
	if len(sorted) > keep {
		c.surplus = sorted[keep:]
	}

	return c
}

// findFailedCondition returns the condition that says that a Job has failed, or nil.
func findFailedCondition(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
