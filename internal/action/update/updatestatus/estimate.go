package updatestatus

import (
	"slices"
	"time"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

const (
	// defaultUpdateDuration is the assumed duration of an update if the history contains no
	// complete one.
	defaultUpdateDuration = time.Hour
	// minObservedProgress is the time after which the progress of the update itself is used
	// for estimates.
	minObservedProgress = 5 * time.Minute
	// stalledAfter is how long an estimate must be exceeded before the update counts as
	// stalled.
	stalledAfter = 10 * time.Minute
	// estimateMargin is the factor by which estimates are stretched: an estimate that is
	// too long is better than one that is too short.
	estimateMargin = 1.2
)

// previousUpdateDuration returns the duration of the last complete update. The current
// update and the installation do not count.
func previousUpdateDuration(history []configv1.UpdateHistory) time.Duration {
	if len(history) < 3 {
		return defaultUpdateDuration
	}

	between := history[1 : len(history)-1]
	i := slices.IndexFunc(between, func(entry configv1.UpdateHistory) bool {
		return entry.State == configv1.CompletedUpdate && entry.CompletionTime != nil
	})
	if i < 0 {
		return defaultUpdateDuration
	}

	return between[i].CompletionTime.Sub(between[i].StartedTime.Time)
}

// estimateUpdateDuration returns the estimated duration of the whole update. It starts with
// the duration of the previous update (baseline). Later it uses the progress of the update
// itself.
//
// elapsed is the time since the update started. observed is the time from the start to the
// last observed progress. completion is the fraction of updated operators, from 0 to 1.
func estimateUpdateDuration(baseline, elapsed, observed time.Duration, completion float64) time.Duration {
	if completion >= 1 {
		return elapsed
	}

	over := elapsedTimeFraction(completion)
	if observed < minObservedProgress || completion <= 0 || over <= 0 {
		return baseline
	}
	return time.Duration(float64(observed) / over)
}

// elapsedTimeFraction returns the fraction of the time that has elapsed when a fraction of
// the operators is updated. Existing tools have fitted the curve to recorded updates, in
// three pieces. A quarter of the operators is updated quickly. Most of the others follow
// between 40 % and 45 % of the time. The last tenth, which touches the nodes, takes the
// other half: with 97 of 100 operators updated, about two thirds of the time have elapsed.
// Between the pieces, and from a third to a half of the operators, the curve falls by less
// than 0.01.
func elapsedTimeFraction(operators float64) float64 {
	switch {
	case operators < 0.25:
		return evaluatePolynomial(operators, -0.03078788, 2.62886, -3.823954)
	case operators < 0.9:
		return evaluatePolynomial(operators, 0.1851215, 1.64994, -4.676898, 5.451824, -2.125286)
	}
	return evaluatePolynomial(operators, 25053.32, -107394.3, 172527.2, -123107, 32921.81)
}

// evaluatePolynomial returns the value of a polynomial at x. The coefficients start with
// the constant one.
func evaluatePolynomial(x float64, coefficients ...float64) float64 {
	sum := 0.0
	for _, coefficient := range slices.Backward(coefficients) {
		sum = sum*x + coefficient
	}
	return sum
}

// stretchEstimate increases a positive remaining time and reduces an exceeded one, both by
// estimateMargin. The result is rounded.
func stretchEstimate(remaining time.Duration) time.Duration {
	if remaining > 0 {
		remaining = time.Duration(float64(remaining) * estimateMargin)
	} else {
		remaining = time.Duration(float64(remaining) / estimateMargin)
	}

	if remaining.Abs() > stalledAfter {
		return remaining.Round(time.Minute)
	}
	return remaining.Round(time.Second)
}

// assessRemainingTime returns the assessment for the estimated remaining time.
func assessRemainingTime(remaining time.Duration) Assessment {
	switch {
	case remaining < -stalledAfter:
		return Stalled
	case remaining < 0:
		return Slow
	}
	return Progressing
}

// Outlook is what is known about the end of an update.
type Outlook string

// Outlooks.
const (
	// OutlookDone means that the control plane is updated.
	OutlookDone Outlook = "Done"
	// OutlookUnknown means that the remaining time cannot be estimated.
	OutlookUnknown Outlook = "Unknown"
	// OutlookExceeded means that the update takes much longer than estimated.
	OutlookExceeded Outlook = "Exceeded"
	// OutlookSoon means that less than ten minutes remain. Shorter times are not estimated well.
	OutlookSoon Outlook = "Soon"
	// OutlookEstimated means that the remaining time is an estimate.
	OutlookEstimated Outlook = "Estimated"
)

// shortestEstimate is the shortest remaining time that is reported.
const shortestEstimate = 10 * time.Minute

// Outlook returns what is known about the end of the update.
func (c *ControlPlane) Outlook() Outlook {
	switch {
	case c.Assessment == Completed:
		return OutlookDone
	case c.MultiArch:
		return OutlookUnknown
	case c.Assessment == Stalled:
		return OutlookExceeded
	case c.Remaining.Duration < shortestEstimate:
		return OutlookSoon
	}
	return OutlookEstimated
}
