package updatestatus

import (
	"math"
	"slices"
	"time"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

const (
	// unknownDuration is how long an update is thought to take when none is known.
	unknownDuration = time.Hour
	// enoughObserved is after how much progress the update itself tells how long it takes.
	enoughObserved = 5 * time.Minute
	// lateBy is how far an estimate has to be passed for an update to count as stalled.
	lateBy = 10 * time.Minute
	// margin is what estimates are stretched by: too long annoys less than too short.
	margin = 1.2
	// lateness says how much of the time goes to the last operators, which are the ones
	// that touch nodes: with 97 of 100 operators updated, two thirds of the time are over.
	lateness = 0.316
)

// baseline is how long the last complete update took. The one that is going on and the
// installation tell nothing of that.
func baseline(history []configv1.UpdateHistory) time.Duration {
	if len(history) < 3 {
		return unknownDuration
	}
	between := history[1 : len(history)-1]
	i := slices.IndexFunc(between, func(entry configv1.UpdateHistory) bool {
		return entry.State == configv1.CompletedUpdate && entry.CompletionTime != nil
	})
	if i < 0 {
		return unknownDuration
	}
	return between[i].CompletionTime.Sub(between[i].StartedTime.Time)
}

// estimate is how long the whole update will take: as long as the one before, until its own
// progress tells better. observed is the time until the last progress that was seen, and
// completion the part of the operators that are updated, from 0 to 1.
func estimate(baseline, observed time.Duration, completion float64) time.Duration {
	if observed < enoughObserved || completion <= 0 {
		return baseline
	}
	return time.Duration(float64(observed) / timeCompletion(completion))
}

// timeCompletion is the part of the time that is over when a part of the operators is
// updated. Both are from 0 to 1.
func timeCompletion(operators float64) float64 { return 1 - math.Pow(1-operators, lateness) }

// generous stretches what is left, and shrinks what is over.
func generous(remaining time.Duration) time.Duration {
	if remaining > 0 {
		remaining = time.Duration(float64(remaining) * margin)
	} else {
		remaining = time.Duration(float64(remaining) / margin)
	}
	if remaining.Abs() > lateBy {
		return remaining.Round(time.Minute)
	}
	return remaining.Round(time.Second)
}

func assessmentOf(remaining time.Duration) Assessment {
	switch {
	case remaining < -lateBy:
		return Stalled
	case remaining < 0:
		return Slow
	}
	return Progressing
}
