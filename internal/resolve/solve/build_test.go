package solve

import (
	"math/rand/v2"
	"slices"
)

// universe is a problem in a form that is easy to check by brute force.
type universe struct {
	candidates int
	rules      []universeRule
	groups     []universeGroup
}

// universeRule is a rule. Its reason is its index.
type universeRule struct {
	kind      ruleKind
	candidate int
	options   []*option
}

// universeGroup is a group. Its reason is the number of rules plus its index, unless it is silent.
type universeGroup struct {
	members  []int
	isSilent bool
}

// option is a candidate, or a formula: any, all or none of its parts.
type option struct {
	form      rune // 'c', '|', '&' or '!'
	candidate int
	parts     []*option
}

func one(candidate int) *option { return &option{form: 'c', candidate: candidate} }

// randomUniverse returns a small universe: some candidates are mandatory, and any kind of rule.
func randomUniverse(r *rand.Rand) *universe {
	u := &universe{candidates: 3 + r.IntN(8)}
	for range 2 + r.IntN(16) {
		rule := universeRule{candidate: r.IntN(u.candidates)}
		switch n := r.IntN(10); {
		case n < 2:
			rule.kind = mandatory
		case n < 3:
			rule.kind = prohibition
		case n < 5:
			rule.kind = conflict
			rule.options = []*option{one((rule.candidate + 1 + r.IntN(u.candidates-1)) % u.candidates)}
		default:
			rule.kind = requirement
			for range r.IntN(4) {
				rule.options = append(rule.options, u.randomOption(r, 0))
			}
		}
		u.rules = append(u.rules, rule)
	}

	for range r.IntN(3) {
		u.groups = append(u.groups, universeGroup{members: r.Perm(u.candidates)[:2+r.IntN(u.candidates-2)], isSilent: r.IntN(3) == 0})
	}
	return u
}

func (u *universe) randomOption(r *rand.Rand, depth int) *option {
	o := one(r.IntN(u.candidates))
	if depth == 2 || r.IntN(4) > 0 {
		return o
	}

	o.form = []rune{'|', '&', '!'}[r.IntN(3)]
	for range 1 + r.IntN(3) {
		part := one(r.IntN(u.candidates))
		if o.form != '!' {
			part = u.randomOption(r, depth+1)
		}
		o.parts = append(o.parts, part)
	}
	return o
}

// newProblem translates the universe. If it is lazy, the rules of candidates are added when the
// search requests them.
func (u *universe) newProblem(isLazy bool) *Problem {
	p := &Problem{}
	for range u.candidates {
		p.NewCandidate()
	}

	for i, r := range u.rules {
		if r.kind == mandatory {
			p.AddMandatory(r.candidate, i)
		}
	}

	for g, group := range u.groups {
		reason := len(u.rules) + g
		if group.isSilent {
			reason = Always
		}
		number := p.NewGroup(reason)
		for _, c := range group.members {
			p.Join(number, c)
		}
	}

	rulesOf := make([][]int, u.candidates)
	for i, r := range u.rules {
		rulesOf[r.candidate] = append(rulesOf[r.candidate], i)
	}

	p.Expand = func(candidate int) {
		for _, i := range rulesOf[candidate] {
			u.rules[i].addTo(p, i)
		}
	}
	if !isLazy {
		for c := range u.candidates {
			p.Expand(c)
		}
		p.Expand = nil
	}
	return p
}

func (r *universeRule) addTo(p *Problem, reason int) {
	switch r.kind {
	case prohibition:
		p.AddProhibition(r.candidate, reason)
	case conflict:
		p.AddConflict(r.candidate, r.options[0].candidate, reason)
	case requirement:
		p.AddRequirement(r.candidate, addOptions(p, r.options), reason)
	default:
	}
}

func addOptions(p *Problem, options []*option) []int {
	var numbers []int
	for _, o := range options {
		switch o.form {
		case 'c':
			numbers = append(numbers, o.candidate)
		case '|':
			numbers = append(numbers, p.AnyOf(addOptions(p, o.parts)))
		case '&':
			numbers = append(numbers, p.AllOf(addOptions(p, o.parts)))
		default:
			numbers = append(numbers, p.NoneOf(addOptions(p, o.parts)))
		}
	}
	return numbers
}

// holds evaluates an option.
func (o *option) holds(isChosen func(int) bool) bool {
	part := func(part *option) bool { return part.holds(isChosen) }
	switch o.form {
	case 'c':
		return isChosen(o.candidate)
	case '|':
		return slices.ContainsFunc(o.parts, part)
	case '&':
		return !slices.ContainsFunc(o.parts, func(p *option) bool { return !part(p) })
	default:
		return !slices.ContainsFunc(o.parts, part)
	}
}

// keeps reports whether a choice keeps the rules whose reason is enabled.
func (u *universe) keeps(isEnabled func(Reason) bool, isChosen func(int) bool) bool {
	for i, r := range u.rules {
		isBroken := false
		holds := func(o *option) bool { return o.holds(isChosen) }
		switch r.kind {
		case mandatory:
			isBroken = !isChosen(r.candidate)
		case prohibition:
			isBroken = isChosen(r.candidate)
		case conflict:
			isBroken = isChosen(r.candidate) && holds(r.options[0])
		case requirement:
			isBroken = isChosen(r.candidate) && !slices.ContainsFunc(r.options, holds)
		}
		if isBroken && isEnabled(Reason{Number: i}) {
			return false
		}
	}

	for g, group := range u.groups {
		for i, a := range group.members {
			for _, b := range group.members[:i] {
				reason := Reason{Number: len(u.rules) + g, IsPair: true, A: min(a, b), B: max(a, b)}
				if isChosen(a) && isChosen(b) && (group.isSilent || isEnabled(reason)) {
					return false
				}
			}
		}
	}
	return true
}

// isPossible reports whether any choice keeps the enabled rules.
func (u *universe) isPossible(isEnabled func(Reason) bool) bool {
	for set := range 1 << u.candidates {
		if u.keeps(isEnabled, func(c int) bool { return set>>c&1 == 1 }) {
			return true
		}
	}
	return false
}

// tour walks through a universe with the decisions that were made so far.
type tour struct {
	*universe
	decided []int
	chosen  []int
	// isForbidding has the chosen formulas that forbid candidates.
	isForbidding map[*option]bool
	// open are the options to decide on next.
	open []*option
}

// findBest tries the options of each requirement in their order, and returns the first choice
// that meets all of them.
func (u *universe) findBest(decided []int) ([]int, bool) {
	t := &tour{universe: u, decided: decided, isForbidding: map[*option]bool{}}
	for _, r := range u.rules {
		if r.kind == mandatory && !slices.Contains(t.chosen, r.candidate) {
			t.chosen = append(t.chosen, r.candidate)
		}
	}

	for i := 0; i < len(t.chosen) && t.open == nil; i++ {
		for _, r := range u.rules {
			isSelf := func(o *option) bool { return o.form == 'c' && o.candidate == r.candidate }
			if r.kind != requirement || r.candidate != t.chosen[i] || slices.ContainsFunc(r.options, isSelf) {
				continue
			}
			if len(r.options) == 0 {
				return nil, false
			}
			if !t.meet(r.options) {
				break
			}
		}
	}

	isChosen := func(c int) bool { return slices.Contains(t.chosen, c) }
	for o := range t.isForbidding {
		if !o.holds(isChosen) {
			return nil, false
		}
	}
	for i := range t.open {
		if found, ok := u.findBest(append(slices.Clone(decided), i)); ok {
			return found, true
		}
	}
	return t.chosen, t.open == nil && u.keeps(func(Reason) bool { return true }, isChosen)
}

// meet meets one of the options. It returns false if that needs a decision.
func (t *tour) meet(options []*option) bool {
	if slices.ContainsFunc(options, t.isMet) {
		return true
	}
	// Options that hold as long as nothing else is chosen come first.
	isChosen := func(c int) bool { return slices.Contains(t.chosen, c) }
	var holding, others []*option
	for _, o := range options {
		if o.holds(isChosen) {
			holding = append(holding, o)
		} else {
			others = append(others, o)
		}
	}
	ordered := slices.Concat(holding, others)
	if len(t.decided) == 0 {
		t.open = ordered
		return false
	}

	o := ordered[t.decided[0]]
	t.decided = t.decided[1:]
	switch o.form {
	case 'c':
		t.chosen = append(t.chosen, o.candidate)
	case '!':
		t.isForbidding[o] = true
	case '|':
		return t.meet(o.parts)
	default:
		for _, part := range o.parts {
			if !t.meet([]*option{part}) {
				return false
			}
		}
	}
	return true
}

func (t *tour) isMet(o *option) bool {
	switch o.form {
	case 'c':
		return slices.Contains(t.chosen, o.candidate)
	case '!':
		return t.isForbidding[o]
	case '|':
		return slices.ContainsFunc(o.parts, t.isMet)
	default:
		return !slices.ContainsFunc(o.parts, func(p *option) bool { return !t.isMet(p) })
	}
}
