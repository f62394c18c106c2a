package resolution

import (
	"errors"
	"slices"
)

// maxConflicts limits the conflicts of a search. Real catalogs need about ten; a search that
// reaches the limit takes a few seconds.
const maxConflicts = 20_000

// errSearchAborted is returned when a search reaches maxConflicts.
var errSearchAborted = errors.New("resolution was aborted because too many operators conflict with each other: " +
	"set the channels of the Subscriptions, or remove Subscriptions")

// rule is a constraint on the choice of variables.
type rule struct {
	kind ruleKind
	// variable is the variable that the rule is about.
	variable int
	// options of a requires rule are the variables that satisfy it, best first. A conflicts
	// rule has one option, the other variable.
	options []int
	text    func() string
	// group is the index of the conflict group that the rule comes from, or -1.
	group int
}

type ruleKind int

const (
	mandatory  ruleKind = iota // the variable is chosen
	prohibited                 // the variable is not chosen
	requires                   // if the variable is chosen, so is one of the options
	conflicts                  // the variable and the option are not both chosen
)

// conflictGroup is a set of variables of which at most one is chosen.
type conflictGroup struct {
	members      []int
	describePair func(a, b int) string
	summary      string
}

// problem is the input of a search: variables, numbered from 0, and the constraints on them.
type problem struct {
	variables int
	rules     []rule
	groups    []conflictGroup
}

// search looks for the best choice. For each requirement, in the order in which they come up,
// it takes the first option with which a choice is still possible. It learns a clause from each
// conflict, so that no conflict occurs twice (conflict-driven clause learning).
type search struct {
	*problem
	// watches are the clauses by watched literal. A clause is visited when the literal becomes
	// false.
	watches            [][]*clause
	requirementsOf     [][]*rule // by variable
	mandatoryVariables []int     // in the order of the rules
	groupsOf           [][]int   // by variable
	conflictRules      map[[3]int]int

	values  []int8 // by variable: 1 true, -1 false, 0 open
	levels  []int
	reasons []assignmentReason
	// rootRules are the rules that a value at level 0 follows from.
	rootRules        [][]int
	trail            []literal
	levelStarts      []int // index in trail at which each level starts
	nextUnpropagated int   // index in trail of the first literal that was not propagated

	contradiction []int // the rules that contradict each other
}

// literal is a variable or its negation: twice the number of the variable, plus one if negated.
type literal int

func positiveLiteral(v int) literal { return literal(2 * v) }
func negativeLiteral(v int) literal { return literal(2*v + 1) }
func (l literal) negated() literal  { return l ^ 1 }
func (l literal) variable() int     { return int(l) / 2 }
func (l literal) isNegated() bool   { return l&1 == 1 }

// clause is a set of literals of which at least one is true. It follows from fromRules.
type clause struct {
	literals  []literal
	fromRules []int
}

// assignmentReason is why a variable has its value: a clause, or, if it is false, another
// member of its group that is true.
type assignmentReason struct {
	clause      *clause
	group       int
	otherMember int
}

// findBestChoice returns the best choice, in the order in which it was made. If there is none,
// it returns the rules that contradict each other.
func (p *problem) findBestChoice() (chosen []int, contradiction []int, err error) {
	s := newSearch(p)
	found, err := s.runSearch()
	switch {
	case err != nil:
		return nil, nil, err
	case !found:
		return nil, s.contradiction, nil
	}

	chosen, _ = s.walkRequired()
	return chosen, nil, nil
}

func newSearch(p *problem) *search {
	s := &search{
		problem: p, watches: make([][]*clause, 2*p.variables), requirementsOf: make([][]*rule, p.variables),
		groupsOf: make([][]int, p.variables), conflictRules: map[[3]int]int{}, values: make([]int8, p.variables),
		levels: make([]int, p.variables), reasons: make([]assignmentReason, p.variables), rootRules: make([][]int, p.variables),
	}
	for g := range p.groups {
		for _, v := range p.groups[g].members {
			s.groupsOf[v] = append(s.groupsOf[v], g)
		}
	}
	return s
}

// runSearch searches until every requirement is met. It returns false if that is impossible.
func (s *search) runSearch() (bool, error) {
	for i := range s.rules {
		r := &s.rules[i]
		switch {
		case r.kind == mandatory:
			s.mandatoryVariables = append(s.mandatoryVariables, r.variable)
		case r.kind == requires && slices.Contains(r.options, r.variable):
			continue // The entry meets its own requirement.
		case r.kind == requires:
			s.requirementsOf[r.variable] = append(s.requirementsOf[r.variable], r)
		}
		if !s.addClause(r.newClause(i)) {
			return false, nil
		}
	}

	for conflictCount := 0; ; {
		if conflict := s.propagateAssignments(); conflict != nil {
			if len(s.levelStarts) == 0 {
				s.contradiction = s.explainClause(conflict)
				return false, nil
			}
			if conflictCount++; conflictCount > maxConflicts {
				return false, errSearchAborted
			}

			learned, level := s.analyzeConflict(conflict)
			s.backtrackToLevel(level)
			if !s.addClause(learned) {
				return false, nil
			}

			continue
		}

		_, open := s.walkRequired()
		if open < 0 {
			return true, nil
		}

		s.levelStarts = append(s.levelStarts, len(s.trail))
		s.assignLiteral(positiveLiteral(open), assignmentReason{})
	}
}

// newClause returns the clause of the rule, which has the given number.
func (r *rule) newClause(number int) *clause {
	c := &clause{fromRules: []int{number}}
	switch r.kind {
	case mandatory:
		c.literals = []literal{positiveLiteral(r.variable)}
	case prohibited:
		c.literals = []literal{negativeLiteral(r.variable)}
	case conflicts:
		c.literals = []literal{negativeLiteral(r.variable), negativeLiteral(r.options[0])}
	case requires:
		c.literals = []literal{negativeLiteral(r.variable)}
		for _, option := range r.options {
			c.literals = append(c.literals, positiveLiteral(option))
		}
	}

	return c
}

// walkRequired walks from the mandatory variables along the requirements of chosen ones. It
// returns the variables that it visited and the option to decide on next, or -1 if nothing is
// left to decide.
func (s *search) walkRequired() (chosen []int, open int) {
	seen := make(map[int]bool)
	for _, v := range s.mandatoryVariables {
		if !seen[v] {
			seen[v] = true
			chosen = append(chosen, v)
		}
	}

	for i := 0; i < len(chosen); i++ {
		for _, r := range s.requirementsOf[chosen[i]] {
			if slices.ContainsFunc(r.options, func(v int) bool { return seen[v] }) {
				continue
			}

			at := slices.IndexFunc(r.options, func(v int) bool { return s.values[v] >= 0 })
			if at < 0 {
				continue // Propagation finds this conflict first.
			}

			option := r.options[at]
			if s.values[option] == 0 {
				return chosen, option
			}

			seen[option] = true
			chosen = append(chosen, option)
		}
	}

	return chosen, -1
}

// literalValue returns the value of a literal: 1 true, -1 false, 0 open.
func (s *search) literalValue(l literal) int8 {
	if l.isNegated() {
		return -s.values[l.variable()]
	}
	return s.values[l.variable()]
}

// addClause adds a clause and assigns the literal that it forces, if any. It returns false if
// the clause contradicts assignments that hold for every choice.
func (s *search) addClause(c *clause) bool {
	// Watch literals that are not false first, then those that became false last.
	slices.SortStableFunc(c.literals, func(a, b literal) int { return s.watchPriority(b) - s.watchPriority(a) })
	if len(c.literals) > 1 {
		s.watches[c.literals[0]] = append(s.watches[c.literals[0]], c)
		s.watches[c.literals[1]] = append(s.watches[c.literals[1]], c)
	}
	if len(c.literals) == 0 || s.literalValue(c.literals[0]) < 0 {
		s.contradiction = s.explainClause(c)
		return false
	}
	if (len(c.literals) == 1 || s.literalValue(c.literals[1]) < 0) && s.literalValue(c.literals[0]) == 0 {
		s.assignLiteral(c.literals[0], assignmentReason{clause: c})
	}

	return true
}

// watchPriority returns how suitable a literal is for watching; higher is better.
func (s *search) watchPriority(l literal) int {
	if s.literalValue(l) >= 0 {
		return len(s.levelStarts) + 1
	}
	return s.levels[l.variable()]
}

// assignLiteral makes a literal true at the current level.
func (s *search) assignLiteral(l literal, reason assignmentReason) {
	v := l.variable()
	s.values[v] = 1
	if l.isNegated() {
		s.values[v] = -1
	}

	s.levels[v] = len(s.levelStarts)
	s.reasons[v] = reason
	s.trail = append(s.trail, l)
	if len(s.levelStarts) == 0 {
		s.rootRules[v] = s.explainClauseExcept(s.reasonClause(v), v)
	}
}

// reasonClause returns the clause from which the value of a variable follows.
func (s *search) reasonClause(v int) *clause {
	reason := s.reasons[v]
	if reason.clause != nil {
		return reason.clause
	}
	return s.conflictClause(reason.group, v, reason.otherMember)
}

// conflictClause returns the clause that two members of a group are not both chosen.
func (s *search) conflictClause(g, a, b int) *clause {
	key := [3]int{g, min(a, b), max(a, b)}
	number, ok := s.conflictRules[key]
	if !ok {
		number = len(s.rules)
		s.conflictRules[key] = number
		s.rules = append(s.rules, rule{
			kind: conflicts, variable: key[1], options: []int{key[2]}, group: g,
			text: func() string { return s.groups[g].describePair(key[1], key[2]) },
		})
	}

	return &clause{literals: []literal{negativeLiteral(a), negativeLiteral(b)}, fromRules: []int{number}}
}

// propagateAssignments assigns everything that follows from the trail. It returns a clause that
// is violated, or nil.
func (s *search) propagateAssignments() *clause {
	for ; s.nextUnpropagated < len(s.trail); s.nextUnpropagated++ {
		l := s.trail[s.nextUnpropagated]
		if !l.isNegated() {
			if conflict := s.propagateGroups(l.variable()); conflict != nil {
				return conflict
			}
		}
		if conflict := s.propagateClauses(l.negated()); conflict != nil {
			return conflict
		}
	}

	return nil
}

// propagateGroups assigns false to the other members of a chosen variable's groups. It returns
// a clause that is violated, or nil.
func (s *search) propagateGroups(v int) *clause {
	for _, g := range s.groupsOf[v] {
		for _, other := range s.groups[g].members {
			switch {
			case other == v || s.values[other] < 0:
			case s.values[other] > 0:
				return s.conflictClause(g, v, other)
			default:
				s.assignLiteral(negativeLiteral(other), assignmentReason{group: g, otherMember: v})
			}
		}
	}

	return nil
}

// propagateClauses visits the clauses that watch a literal which has become false. It returns a
// clause that is violated, or nil.
func (s *search) propagateClauses(falsified literal) *clause {
	watching := s.watches[falsified]
	kept := watching[:0]
	for i, c := range watching {
		if c.literals[0] == falsified {
			c.literals[0], c.literals[1] = c.literals[1], c.literals[0]
		}
		if s.literalValue(c.literals[0]) > 0 {
			kept = append(kept, c)
			continue
		}

		if at := slices.IndexFunc(c.literals[2:], func(l literal) bool { return s.literalValue(l) >= 0 }); at >= 0 {
			c.literals[1], c.literals[at+2] = c.literals[at+2], c.literals[1]
			s.watches[c.literals[1]] = append(s.watches[c.literals[1]], c)
			continue
		}

		kept = append(kept, c)
		if s.literalValue(c.literals[0]) < 0 {
			s.watches[falsified] = append(kept, watching[i+1:]...)
			return c
		}

		s.assignLiteral(c.literals[0], assignmentReason{clause: c})
	}

	s.watches[falsified] = kept
	return nil
}

// analyzeConflict returns the clause learned from a conflict and the level to backtrack to, at
// which the clause forces a literal.
func (s *search) analyzeConflict(conflict *clause) (*clause, int) {
	learned := &clause{}
	seen := map[int]bool{}
	open := 0 // literals of the current level that are still to be replaced by their reasons
	at := len(s.trail) - 1
	for c, skip := conflict, -1; ; c = s.reasonClause(skip) {
		learned.fromRules = append(learned.fromRules, c.fromRules...)
		for _, l := range c.literals {
			v := l.variable()
			switch {
			case v == skip || seen[v]:
			case s.levels[v] == 0:
				seen[v] = true
				learned.fromRules = append(learned.fromRules, s.rootRules[v]...)
			case s.levels[v] == len(s.levelStarts):
				seen[v] = true
				open++
			default:
				seen[v] = true
				learned.literals = append(learned.literals, l)
			}
		}

		for ; !seen[s.trail[at].variable()]; at-- {
		}
		l := s.trail[at]
		at--
		open--
		if open == 0 {
			learned.literals = append(learned.literals, l.negated())
			break
		}

		skip = l.variable()
	}

	slices.Sort(learned.fromRules)
	learned.fromRules = slices.Compact(learned.fromRules)
	level := 0
	for _, l := range learned.literals[:len(learned.literals)-1] {
		level = max(level, s.levels[l.variable()])
	}

	return learned, level
}

// backtrackToLevel undoes all assignments above a level.
func (s *search) backtrackToLevel(level int) {
	mark := s.levelStarts[level]
	for _, l := range s.trail[mark:] {
		s.values[l.variable()] = 0
	}
	s.trail, s.levelStarts, s.nextUnpropagated = s.trail[:mark], s.levelStarts[:level], mark
}

// explainClause returns the rules that contradict each other if all literals of a clause are
// false at level 0.
func (s *search) explainClause(c *clause) []int { return s.explainClauseExcept(c, -1) }

// explainClauseExcept is like explainClause but ignores the variable except.
func (s *search) explainClauseExcept(c *clause, except int) []int {
	from := slices.Clone(c.fromRules)
	for _, l := range c.literals {
		if l.variable() != except {
			from = append(from, s.rootRules[l.variable()]...)
		}
	}

	slices.Sort(from)
	return slices.Compact(from)
}

// minimizeContradiction returns a subset of contradicting rules from which none can be removed.
func (p *problem) minimizeContradiction(numbers []int) []rule {
	rules := make([]rule, 0, len(numbers))
	for _, n := range numbers {
		rules = append(rules, p.rules[n])
	}

	for i := 0; i < len(rules); {
		remaining := slices.Delete(slices.Clone(rules), i, i+1)
		_, contradiction, err := (&problem{variables: p.variables, rules: remaining}).findBestChoice()
		if err == nil && contradiction != nil {
			rules = remaining
			continue
		}
		i++
	}

	return rules
}

// pruneUnneeded removes chosen variables that nothing needs. Mandatory variables stay, and for
// each requirement of a variable that stays one option stays.
func (p *problem) pruneUnneeded(chosen []int) []int {
	var mandatoryOnes []int
	requiredBy := map[int][]*rule{}
	for i := range p.rules {
		switch r := &p.rules[i]; r.kind {
		case mandatory:
			mandatoryOnes = append(mandatoryOnes, r.variable)
		case requires:
			requiredBy[r.variable] = append(requiredBy[r.variable], r)
		default:
		}
	}

	kept := chosen
	for _, v := range slices.Backward(chosen) {
		if !slices.Contains(kept, v) || slices.Contains(mandatoryOnes, v) {
			continue
		}
		without := slices.DeleteFunc(slices.Clone(kept), func(o int) bool { return o == v })
		if reached, complete := reachRequired(mandatoryOnes, without, requiredBy); complete {
			kept = reached
		}
	}

	return slices.DeleteFunc(slices.Clone(chosen), func(v int) bool { return !slices.Contains(kept, v) })
}

// reachRequired returns the variables that the mandatory ones require, directly or indirectly,
// if only the available ones can be chosen. It returns false if those do not suffice.
func reachRequired(mandatoryOnes, available []int, requiredBy map[int][]*rule) ([]int, bool) {
	reached := slices.Clone(mandatoryOnes)
	for i := 0; i < len(reached); i++ {
		for _, r := range requiredBy[reached[i]] {
			at := slices.IndexFunc(r.options, func(o int) bool { return slices.Contains(available, o) })
			if at < 0 {
				return nil, false
			}
			if !slices.Contains(reached, r.options[at]) {
				reached = append(reached, r.options[at])
			}
		}
	}

	return reached, true
}
