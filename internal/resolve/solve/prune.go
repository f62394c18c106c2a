package solve

import "slices"

// pruneUnneeded returns the chosen candidates without those that nothing needs: a candidate can
// meet a requirement for which another one was chosen before. Mandatory candidates stay, and one
// option of each requirement of a candidate that stays.
func (w *walker) pruneUnneeded() []int {
	isKept := slices.Clone(w.isChosen)
	reached, _ := w.reachRequired(isKept)
	for isSmaller := true; isSmaller; {
		isSmaller = false
		for _, v := range slices.Backward(w.chosen[w.mandatoryCount:]) {
			if !isKept[v] || reached.isReached[v] && !reached.isReplaceable[v] {
				continue
			}

			isKept[v] = false
			fewer, isComplete := w.reachRequired(isKept)
			if !isComplete {
				isKept[v] = true
				continue
			}

			reached, isKept, isSmaller = fewer, fewer.isReached, true
		}
	}

	return slices.DeleteFunc(slices.Clone(w.chosen), func(v int) bool { return !isKept[v] })
}

// reach is what the mandatory candidates require, directly or indirectly.
type reach struct {
	*walker
	isAvailable []bool

	candidates []int
	isReached  []bool
	// isReplaceable has the candidates that were reached by a requirement with another
	// available option. Without any other candidate, a requirement is not met.
	isReplaceable []bool
}

// reachRequired returns what the mandatory candidates require if only the available candidates
// can be chosen. It returns false if those do not suffice.
func (w *walker) reachRequired(isAvailable []bool) (*reach, bool) {
	r := &reach{
		walker: w, isAvailable: isAvailable, isReached: make([]bool, len(w.isChosen)), isReplaceable: make([]bool, len(w.isChosen)),
	}
	for _, v := range w.chosen[:w.mandatoryCount] {
		r.addCandidate(v, false)
	}

	for i := 0; i < len(r.candidates); i++ { //nolint:intrange // The loop appends.
		for _, options := range w.required[r.candidates[i]] {
			if !r.addFirstAvailable(options, false) {
				return nil, false
			}
		}
	}

	return r, true
}

func (r *reach) addCandidate(v int, isReplaceable bool) {
	if !r.isReached[v] {
		r.isReached[v], r.isReplaceable[v] = true, isReplaceable
		r.candidates = append(r.candidates, v)
	}
}

// addFirstAvailable adds the first available option, or what it requires if it is a formula. It
// returns false if no option is available.
func (r *reach) addFirstAvailable(options []int, isReplaceable bool) bool {
	isAvailable := func(o int) bool { return r.holdsFor(r.isAvailable, o) }
	at := slices.IndexFunc(options, isAvailable)
	if at < 0 {
		return false
	}

	o := options[at]
	isReplaceable = isReplaceable || slices.ContainsFunc(options[at+1:], isAvailable)
	if !r.problem.variables[o].isFormula {
		r.addCandidate(o, isReplaceable)
		return true
	}

	for _, parts := range r.required[o] {
		r.addFirstAvailable(parts, isReplaceable)
	}
	return true
}
