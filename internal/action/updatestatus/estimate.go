package updatestatus

import (
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

// estimate returns how long the whole update will take: as long as the one before, until its own
// progress tells better. elapsed is the time since it began, observed the time until the last
// progress that was seen, and completion the part of the operators that are updated, from 0 to 1.
// An update whose operators are all updated is about to end.
func estimate(baseline, elapsed, observed time.Duration, completion float64) time.Duration {
	if completion >= 1 {
		return elapsed
	}

	over := timeCompletion(completion)
	if observed < enoughObserved || completion <= 0 || over <= 0 {
		return baseline
	}
	return time.Duration(float64(observed) / over)
}

// timeCompletion returns the part of the time that is over when a part of the operators is updated.
// It is the curve that the field has fitted to recorded updates, in three pieces: a quarter of the
// operators is updated quickly, most of the others follow between 40 % and 45 % of the time, and the
// last tenth, which touches the nodes, takes the other half. With 97 of 100 operators updated, about
// two thirds of the time are over. Between the pieces, and from a third to a half of the operators,
// the curve falls by less than 0.01.
func timeCompletion(operators float64) float64 {
	switch {
	case operators < 0.25:
		return polynomial(operators, -0.03078788, 2.62886, -3.823954)
	case operators < 0.9:
		return polynomial(operators, 0.1851215, 1.64994, -4.676898, 5.451824, -2.125286)
	}
	return polynomial(operators, 25053.32, -107394.3, 172527.2, -123107, 32921.81)
}

// polynomial returns the value of a polynomial at x, given its coefficients from the constant one.
func polynomial(x float64, coefficients ...float64) float64 {
	sum := 0.0
	for _, coefficient := range slices.Backward(coefficients) {
		sum = sum*x + coefficient
	}
	return sum
}

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
