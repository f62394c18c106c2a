package solve

import "slices"

// walker walks from the mandatory candidates along the requirements of chosen ones.
type walker struct {
	problem  *Problem
	assigned *assignment
	work     int

	required [][][]int // by variable: the options of its requirements
	walkState
	// states are the states at which each level of the assignment started.
	states []walkState
	// isChosen has the candidates of chosen, which begins with the mandatory ones.
	isChosen       []bool
	mandatoryCount int
}

// walkState is how far the walk has come.
type walkState struct {
	// chosen are the candidates that the walk has reached: the mandatory ones, and the options
	// that meet requirements.
	chosen []int
	// at is the index in chosen of the candidate whose requirements are visited, and next the
	// index of its next requirement.
	at, next int
}

func (w *walker) growTables(count int) {
	w.required, w.isChosen = growSlice(w.required, count), growSlice(w.isChosen, count)
}

// addMandatory adds a mandatory candidate.
func (w *walker) addMandatory(candidate int) {
	w.markChosen(candidate)
	w.mandatoryCount = len(w.chosen)
}

func (w *walker) markChosen(candidate int) {
	if !w.isChosen[candidate] {
		w.isChosen[candidate] = true
		w.chosen = append(w.chosen, candidate)
	}
}

// saveState saves the state at which a new level starts.
func (w *walker) saveState() { w.states = append(w.states, w.walkState) }

// returnToLevel returns to the state of a level of the assignment, if it has backtracked.
func (w *walker) returnToLevel(level int) {
	if level == len(w.states) {
		return
	}

	start := w.states[level]
	for _, v := range w.chosen[len(start.chosen):] {
		w.isChosen[v] = false
	}
	w.walkState, w.states = start, w.states[:level]
}

// continueWalk visits the requirements of chosen candidates, breadth first. It returns an open
// option to decide on next, or a chosen candidate whose rules are not loaded yet. It returns -1
// if all requirements are met.
func (w *walker) continueWalk(isLoaded []bool) int {
	for ; w.at < len(w.chosen); w.at, w.next = w.at+1, 0 {
		v := w.chosen[w.at]
		if !isLoaded[v] {
			return v
		}
		for ; w.next < len(w.required[v]); w.next++ {
			if open := w.findOpenOption(w.required[v][w.next]); open >= 0 {
				return open
			}
		}
	}

	return -1
}

// findOpenOption returns the option to decide on so that one of the options is met; -1 if one
// is met already. An option that follows from earlier decisions is added to the chosen ones.
func (w *walker) findOpenOption(options []int) int {
	if slices.ContainsFunc(options, w.isMet) {
		return -1
	}

	at := w.firstPossibleOption(options)
	if at < 0 {
		return -1 // Propagation finds this conflict first.
	}

	o := options[at]
	switch {
	case w.assigned.values[o] == 0:
		return o
	case !w.problem.variables[o].isFormula:
		w.markChosen(o)
		return -1
	}

	for _, parts := range w.required[o] {
		if open := w.findOpenOption(parts); open >= 0 {
			return open
		}
	}
	return -1
}

// firstPossibleOption returns the index of the first option that may still be chosen. Options
// that hold as long as nothing else is chosen come first.
func (w *walker) firstPossibleOption(options []int) int {
	isPossible := func(o int) bool { return w.assigned.values[o] >= 0 }
	if at := slices.IndexFunc(options, func(o int) bool { return isPossible(o) && w.holdsFor(w.isChosen, o) }); at >= 0 {
		return at
	}
	return slices.IndexFunc(options, isPossible)
}

// isMet reports whether the chosen candidates meet an option, regardless of later choices.
func (w *walker) isMet(option int) bool {
	w.work++
	switch v := &w.problem.variables[option]; {
	case !v.isFormula:
		return w.isChosen[option]
	case v.isForbidding:
		return w.assigned.values[option] > 0
	}

	for _, options := range w.required[option] {
		if !slices.ContainsFunc(options, w.isMet) {
			return false
		}
	}
	return true
}

// holdsFor reports whether an option holds if just these candidates are chosen.
func (w *walker) holdsFor(candidates []bool, option int) bool {
	w.work++
	v := &w.problem.variables[option]
	switch {
	case !v.isFormula:
		return candidates[option]
	case v.isForbidding:
		return !slices.ContainsFunc(v.rules, func(r rule) bool { return candidates[r.options[0]] })
	}

	for _, options := range w.required[option] {
		if !slices.ContainsFunc(options, func(o int) bool { return w.holdsFor(candidates, o) }) {
			return false
		}
	}
	return true
}
