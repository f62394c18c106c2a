package solve

// search looks for the best choice. It walks from the mandatory candidates along the
// requirements of chosen ones, and decides on the first option of each. It learns a clause from
// each conflict, so that no conflict occurs twice (conflict-driven clause learning).
//
// The rules of a variable become clauses when the walk reaches the variable. Candidates that
// the walk does not reach cost nothing.
type search struct {
	propagator
	walker

	maxWork  int
	isLoaded []bool // by variable: its rules are clauses
}

// newSearch returns a search under the rules whose reason is enabled; under all rules if
// isEnabled is nil.
func newSearch(p *Problem, maxWork int, isEnabled func(Reason) bool) *search {
	s := &search{propagator: propagator{Problem: p, isEnabled: isEnabled}, maxWork: maxWork}
	s.walker = walker{problem: p, assigned: &s.assignment}
	return s
}

// totalWork returns the work so far, in visited candidates.
func (s *search) totalWork() int { return s.propagator.work + s.walker.work }

// run searches until every requirement is met. The error is a *Contradiction, whose reasons are
// not minimal, or a *LimitError.
func (s *search) run() error {
	s.growTables()
	for i := range s.mandatory {
		r := &s.mandatory[i]
		if !s.isRuleEnabled(Reason{Number: r.reason}) {
			continue
		}
		s.addMandatory(r.variable)
		if !s.addClauseAndLearn(newRuleClause(r)) {
			return s.newContradiction()
		}
	}

	for s.totalWork() <= s.maxWork {
		if violated := s.propagateAssignments(); violated != nil {
			if !s.learnFrom(violated) {
				return s.newContradiction()
			}
			continue
		}

		s.returnToLevel(s.currentLevel())
		next := s.continueWalk(s.isLoaded)
		switch {
		case next < 0:
			return nil
		case s.values[next] == 0:
			s.saveState()
			s.decideOn(next)
		case !s.loadRules(next):
			return s.newContradiction()
		}
	}

	return &LimitError{MaxWork: s.maxWork}
}

// growTables adds entries for new variables and memberships to the tables. That counts as work
// because an explanation makes many searches.
func (s *search) growTables() {
	const tables = 10
	count := len(s.variables)
	s.propagator.work += tables * (count - len(s.isLoaded))
	s.isLoaded = growSlice(s.isLoaded, count)
	s.walker.growTables(count)
	s.propagator.growTables(count)
}

func growSlice[T any](s []T, count int) []T {
	return append(s, make([]T, count-len(s))...)
}

// loadRules makes clauses of the rules of a chosen candidate, and of the formulas in them. It
// returns false if no choice is possible.
func (s *search) loadRules(v int) bool {
	rules := s.rulesOf(v)
	s.growTables()
	s.isLoaded[v] = true
	for i := range rules {
		r := &rules[i]
		if !s.isRuleEnabled(Reason{Number: r.reason}) {
			continue
		}

		if r.kind == requirement {
			s.required[v] = append(s.required[v], r.options)
			for _, o := range r.options {
				if s.variables[o].isFormula && !s.isLoaded[o] && !s.loadRules(o) {
					return false
				}
			}
		}
		if !s.addClauseAndLearn(newRuleClause(r)) {
			return false
		}
	}

	return true
}
