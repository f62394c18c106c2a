package resolution

import (
	"errors"
	"slices"
)

// maxConflicts bounds a search: how often it may find that what it chose cannot be. Those of
// real catalogs need some ten; a search that gets here takes a few seconds.
const maxConflicts = 20_000

// errTooHard says that a search was given up.
var errTooHard = errors.New("the search for a set of operators that go together was given up, since too many do not: " +
	"narrow it by naming channels in the Subscriptions, or by taking Subscriptions away")

// rule is one thing that a choice of variables must keep to.
type rule struct {
	sort ruleSort
	// of is the variable that the rule is about.
	of int
	// options, of a rule that requires, are what would do, the best first; of one that
	// conflicts, the one other variable.
	options []int
	text    func() string
	// group is the number of the group that a conflict comes from, -1 for none.
	group int
}

type ruleSort int

const (
	mandatory  ruleSort = iota // it is chosen
	prohibited                 // it is not chosen
	requires                   // if it is chosen, one of the options is
	conflicts                  // it and the option are not both chosen
)

// group is a set of variables of which at most one is chosen.
type group struct {
	members []int
	pair    func(a, b int) string
	summary string
}

// problem is what a search is about: variables, numbered from 0, and what a choice of them keeps to.
type problem struct {
	variables int
	rules     []rule
	groups    []group
}

// search looks for the best choice: from each requirement, in the order in which they come up, it
// takes the first option with which a choice is still possible. It learns from each conflict, so that
// none is met twice.
type search struct {
	*problem
	// clauses, by the literal whose falsehood wakes them.
	watches  [][]*clause
	required [][]*rule // by variable
	anchors  []int     // what is mandatory, in the order of the rules
	groupsOf [][]int   // by variable
	pairs    map[[3]int]int

	value  []int8 // by variable: 1 true, -1 false, 0 open
	level  []int
	reason []because
	// roots are the rules that a value at level 0 follows from.
	roots [][]int
	trail []literal
	marks []int // where each level begins in trail
	next  int   // of the trail, the first that was not looked at

	failed []int // the rules that contradict each other
}

// literal is a variable, or its opposite: twice the number, plus one for the opposite.
type literal int

func yes(v int) literal            { return literal(2 * v) }
func no(v int) literal             { return literal(2*v + 1) }
func (l literal) not() literal     { return l ^ 1 }
func (l literal) variable() int    { return int(l) / 2 }
func (l literal) isOpposite() bool { return l&1 == 1 }

// clause is a set of literals of which one is true. It follows from rules.
type clause struct {
	literals []literal
	from     []int
}

// because is why a variable has its value: a clause; or, when it is false, that another of its group is
// true.
type because struct {
	clause *clause
	group  int
	other  int
}

// choose returns the best choice, in the order in which it was made; or false and the rules that
// contradict each other.
func (p *problem) choose() (chosen []int, contradiction []int, err error) {
	s := newSearch(p)
	found, err := s.run()
	switch {
	case err != nil:
		return nil, nil, err
	case !found:
		return nil, s.failed, nil
	}

	chosen, _ = s.frontier()
	return chosen, nil, nil
}

func newSearch(p *problem) *search {
	s := &search{
		problem: p, watches: make([][]*clause, 2*p.variables), required: make([][]*rule, p.variables),
		groupsOf: make([][]int, p.variables), pairs: map[[3]int]int{}, value: make([]int8, p.variables),
		level: make([]int, p.variables), reason: make([]because, p.variables), roots: make([][]int, p.variables),
	}
	for g := range p.groups {
		for _, v := range p.groups[g].members {
			s.groupsOf[v] = append(s.groupsOf[v], g)
		}
	}
	return s
}

// run searches until everything that is required is chosen, or cannot be.
func (s *search) run() (bool, error) {
	for i := range s.rules {
		r := &s.rules[i]
		switch {
		case r.sort == mandatory:
			s.anchors = append(s.anchors, r.of)
		case r.sort == requires && slices.Contains(r.options, r.of):
			continue // It meets itself.
		case r.sort == requires:
			s.required[r.of] = append(s.required[r.of], r)
		}
		if !s.add(r.clause(i)) {
			return false, nil
		}
	}

	for met := 0; ; {
		if conflict := s.propagate(); conflict != nil {
			if len(s.marks) == 0 {
				s.failed = s.explain(conflict)
				return false, nil
			}
			if met++; met > maxConflicts {
				return false, errTooHard
			}

			learned, level := s.analyze(conflict)
			s.back(level)
			if !s.add(learned) {
				return false, nil
			}

			continue
		}

		_, open := s.frontier()
		if open < 0 {
			return true, nil
		}

		s.marks = append(s.marks, len(s.trail))
		s.set(yes(open), because{})
	}
}

func (r *rule) clause(number int) *clause {
	c := &clause{from: []int{number}}
	switch r.sort {
	case mandatory:
		c.literals = []literal{yes(r.of)}
	case prohibited:
		c.literals = []literal{no(r.of)}
	case conflicts:
		c.literals = []literal{no(r.of), no(r.options[0])}
	case requires:
		c.literals = []literal{no(r.of)}
		for _, option := range r.options {
			c.literals = append(c.literals, yes(option))
		}
	}

	return c
}

// frontier walks what is chosen, from what is mandatory along what that requires. It gives what it
// came by, and the option to be decided on next, -1 when nothing is left to decide.
func (s *search) frontier() (chosen []int, open int) {
	seen := make(map[int]bool)
	for _, v := range s.anchors {
		if !seen[v] {
			seen[v] = true
			chosen = append(chosen, v)
		}
	}

	for i := 0; i < len(chosen); i++ {
		for _, r := range s.required[chosen[i]] {
			if slices.ContainsFunc(r.options, func(v int) bool { return seen[v] }) {
				continue
			}

			at := slices.IndexFunc(r.options, func(v int) bool { return s.value[v] >= 0 })
			if at < 0 {
				continue // Propagation finds this before.
			}

			option := r.options[at]
			if s.value[option] == 0 {
				return chosen, option
			}

			seen[option] = true
			chosen = append(chosen, option)
		}
	}

	return chosen, -1
}

// is tells the value of a literal: 1 true, -1 false, 0 open.
func (s *search) is(l literal) int8 {
	if l.isOpposite() {
		return -s.value[l.variable()]
	}
	return s.value[l.variable()]
}

// add adds a clause and draws the conclusion that it forces now. It is false when the clause contradicts what
// holds whatever is chosen.
func (s *search) add(c *clause) bool {
	// The literals that are not false, and then those that became so last, are watched.
	slices.SortStableFunc(c.literals, func(a, b literal) int { return s.recency(b) - s.recency(a) })
	if len(c.literals) > 1 {
		s.watches[c.literals[0]] = append(s.watches[c.literals[0]], c)
		s.watches[c.literals[1]] = append(s.watches[c.literals[1]], c)
	}
	if len(c.literals) == 0 || s.is(c.literals[0]) < 0 {
		s.failed = s.explain(c)
		return false
	}
	if (len(c.literals) == 1 || s.is(c.literals[1]) < 0) && s.is(c.literals[0]) == 0 {
		s.set(c.literals[0], because{clause: c})
	}

	return true
}

func (s *search) recency(l literal) int {
	if s.is(l) >= 0 {
		return len(s.marks) + 1
	}
	return s.level[l.variable()]
}

func (s *search) set(l literal, why because) {
	v := l.variable()
	s.value[v] = 1
	if l.isOpposite() {
		s.value[v] = -1
	}

	s.level[v] = len(s.marks)
	s.reason[v] = why
	s.trail = append(s.trail, l)
	if len(s.marks) == 0 {
		s.roots[v] = s.explainExcept(s.because(v), v)
	}
}

// because returns the clause that a variable has its value by.
func (s *search) because(v int) *clause {
	why := s.reason[v]
	if why.clause != nil {
		return why.clause
	}
	return s.pair(why.group, v, why.other)
}

// pair is the clause that two members of a group are not both chosen.
func (s *search) pair(g, a, b int) *clause {
	key := [3]int{g, min(a, b), max(a, b)}
	number, ok := s.pairs[key]
	if !ok {
		number = len(s.rules)
		s.pairs[key] = number
		s.rules = append(s.rules, rule{
			sort: conflicts, of: key[1], options: []int{key[2]}, group: g,
			text: func() string { return s.groups[g].pair(key[1], key[2]) },
		})
	}

	return &clause{literals: []literal{no(a), no(b)}, from: []int{number}}
}

// propagate draws all conclusions. It gives the clause that they contradict, nil when none.
func (s *search) propagate() *clause {
	for ; s.next < len(s.trail); s.next++ {
		l := s.trail[s.next]
		if !l.isOpposite() {
			if conflict := s.excludeOthers(l.variable()); conflict != nil {
				return conflict
			}
		}
		if conflict := s.wake(l.not()); conflict != nil {
			return conflict
		}
	}

	return nil
}

// excludeOthers draws the conclusions from a variable's groups.
func (s *search) excludeOthers(v int) *clause {
	for _, g := range s.groupsOf[v] {
		for _, other := range s.groups[g].members {
			switch {
			case other == v || s.value[other] < 0:
			case s.value[other] > 0:
				return s.pair(g, v, other)
			default:
				s.set(no(other), because{group: g, other: v})
			}
		}
	}

	return nil
}

// wake looks at the clauses that watch a literal which has become false.
func (s *search) wake(gone literal) *clause {
	woken := s.watches[gone]
	kept := woken[:0]
	for i, c := range woken {
		if c.literals[0] == gone {
			c.literals[0], c.literals[1] = c.literals[1], c.literals[0]
		}
		if s.is(c.literals[0]) > 0 {
			kept = append(kept, c)
			continue
		}

		if at := slices.IndexFunc(c.literals[2:], func(l literal) bool { return s.is(l) >= 0 }); at >= 0 {
			c.literals[1], c.literals[at+2] = c.literals[at+2], c.literals[1]
			s.watches[c.literals[1]] = append(s.watches[c.literals[1]], c)
			continue
		}

		kept = append(kept, c)
		if s.is(c.literals[0]) < 0 {
			s.watches[gone] = append(kept, woken[i+1:]...)
			return c
		}

		s.set(c.literals[0], because{clause: c})
	}

	s.watches[gone] = kept
	return nil
}

// analyze returns what a conflict teaches, and the level at which it forces something new.
func (s *search) analyze(conflict *clause) (*clause, int) {
	learned := &clause{}
	seen := map[int]bool{}
	open := 0 // literals of this level that are to be replaced by their reasons
	at := len(s.trail) - 1
	for c, skip := conflict, -1; ; c = s.because(skip) {
		learned.from = append(learned.from, c.from...)
		for _, l := range c.literals {
			v := l.variable()
			switch {
			case v == skip || seen[v]:
			case s.level[v] == 0:
				seen[v] = true
				learned.from = append(learned.from, s.roots[v]...)
			case s.level[v] == len(s.marks):
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
			learned.literals = append(learned.literals, l.not())
			break
		}

		skip = l.variable()
	}

	slices.Sort(learned.from)
	learned.from = slices.Compact(learned.from)
	level := 0
	for _, l := range learned.literals[:len(learned.literals)-1] {
		level = max(level, s.level[l.variable()])
	}

	return learned, level
}

// back undoes everything above a level.
func (s *search) back(level int) {
	mark := s.marks[level]
	for _, l := range s.trail[mark:] {
		s.value[l.variable()] = 0
	}
	s.trail, s.marks, s.next = s.trail[:mark], s.marks[:level], mark
}

// explain returns the rules that contradict a clause whose literals are all false, whatever is chosen.
func (s *search) explain(c *clause) []int { return s.explainExcept(c, -1) }

func (s *search) explainExcept(c *clause, except int) []int {
	from := slices.Clone(c.from)
	for _, l := range c.literals {
		if l.variable() != except {
			from = append(from, s.roots[l.variable()]...)
		}
	}

	slices.Sort(from)
	return slices.Compact(from)
}

// minimal returns those of some rules that contradict each other and of which none can be left out.
func (p *problem) minimal(numbers []int) []rule {
	rules := make([]rule, 0, len(numbers))
	for _, n := range numbers {
		rules = append(rules, p.rules[n])
	}

	for i := 0; i < len(rules); {
		less := slices.Delete(slices.Clone(rules), i, i+1)
		_, contradiction, err := (&problem{variables: p.variables, rules: less}).choose()
		if err == nil && contradiction != nil {
			rules = less
			continue
		}
		i++
	}

	return rules
}

// leaner leaves out what is chosen without need: what is mandatory stays, and with it one option of
// each requirement of what stays.
func (p *problem) leaner(chosen []int) []int {
	var fixed []int
	requiredBy := map[int][]*rule{}
	for i := range p.rules {
		switch r := &p.rules[i]; r.sort {
		case mandatory:
			fixed = append(fixed, r.of)
		case requires:
			requiredBy[r.of] = append(requiredBy[r.of], r)
		default:
		}
	}

	kept := chosen
	for _, v := range slices.Backward(chosen) {
		if !slices.Contains(kept, v) || slices.Contains(fixed, v) {
			continue
		}
		without := slices.DeleteFunc(slices.Clone(kept), func(o int) bool { return o == v })
		if reached, complete := reach(fixed, without, requiredBy); complete {
			kept = reached
		}
	}

	return slices.DeleteFunc(slices.Clone(chosen), func(v int) bool { return !slices.Contains(kept, v) })
}

// reach returns what is required, from what is fixed on, when the options are what there is; false when that is
// not enough.
func reach(fixed, there []int, requiredBy map[int][]*rule) ([]int, bool) {
	reached := slices.Clone(fixed)
	for i := 0; i < len(reached); i++ {
		for _, r := range requiredBy[reached[i]] {
			at := slices.IndexFunc(r.options, func(o int) bool { return slices.Contains(there, o) })
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
