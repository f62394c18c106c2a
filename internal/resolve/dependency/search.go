package dependency

import (
	"maps"
	"slices"
)

const (
	// maxSteps bounds one search: some 50 ms.
	maxSteps = 20_000
	// maxChosen bounds how many packages one bundle may bring with it.
	maxChosen = 100
)

// fact is something that can be the reason why a search fails: that a package needs
// something, or that another is installed. Ignoring it makes the search easier.
type fact struct {
	pkg string
	// needs is what the package needs; empty when the fact is that it is installed.
	needs string
}

// need is a requirement of a bundle that takes part.
type need struct {
	owner *Bundle
	*Requirement
}

func (n need) fact() fact { return fact{pkg: n.owner.Package, needs: n.text} }

// blame are the packages whose choice a failure follows from. Choosing anew at another
// package changes nothing about it.
type blame map[string]bool

// search looks for bundles, at most one of each package, so that the requirements of all
// of them and of the wanted bundle are met. It goes back to the last choice that has to
// do with a failure.
type search struct {
	*Problem
	// ignored tells which facts are taken not to be.
	ignored func(fact) bool
	facts   []*Bundle
	fixed   map[string]*Bundle
	chosen  map[string]*Bundle
	// dead are bundles whose own requirements cannot be met, whatever else is chosen.
	dead map[*Bundle]bool
	// watched are needs that something which is added can break.
	watched []need
	// touched are the facts that failures followed from, in the order of their
	// discovery, with the bundles that had them.
	touched []fact
	owners  map[fact][]*Bundle
	steps   int
}

func newSearch(p *Problem, ignored func(fact) bool) *search {
	s := &search{
		Problem: p, ignored: ignored, fixed: map[string]*Bundle{}, chosen: map[string]*Bundle{p.Wanted.Package: p.Wanted},
		dead: map[*Bundle]bool{}, owners: map[fact][]*Bundle{},
	}
	for _, b := range p.Installed {
		if !ignored(fact{pkg: b.Package}) {
			s.facts = append(s.facts, b)
			s.fixed[b.Package] = b
		}
	}

	// What is installed must not get what it forbids.
	for _, b := range s.facts {
		requirements, err := b.Requires()
		for i := range requirements {
			n := need{b, &requirements[i]}
			if err == nil && n.formula.forbids() && !ignored(n.fact()) && s.met(n) {
				s.watched = append(s.watched, n)
			}
		}
	}

	return s
}

// run returns the bundles to install, the best that were found, in the order of their
// packages; false when there are none.
func (s *search) run() ([]*Bundle, bool) {
	requirements, err := s.Wanted.Requires()
	if err != nil {
		return nil, false
	}

	agenda := s.needs(s.Wanted, requirements)
	if failure := s.solve(agenda); failure != nil {
		return nil, false
	}

	s.shrink()
	var plan []*Bundle
	for _, name := range slices.Sorted(maps.Keys(s.chosen)) {
		if b := s.chosen[name]; b != s.Wanted {
			plan = append(plan, b)
		}
	}

	return plan, true
}

func (s *search) exhausted() bool { return s.steps > maxSteps }

// needs puts requirements where they are looked after, and gives those that stay met
// once they are.
func (s *search) needs(owner *Bundle, requirements []Requirement) []need {
	var agenda []need
	for i := range requirements {
		n := need{owner, &requirements[i]}
		switch {
		case s.ignored(n.fact()):
		case n.formula.forbids():
			s.watched = append(s.watched, n)
		default:
			agenda = append(agenda, n)
		}
	}

	return agenda
}

// met reports whether a need is met by what there is and what is chosen.
func (s *search) met(n need) bool {
	return n.formula.holds(func(leaf *formula, negated bool) bool { return s.leafMet(n.owner, leaf, negated) })
}

func (s *search) leafMet(owner *Bundle, leaf *formula, negated bool) bool {
	if !negated && owner.meets(leaf) {
		return true
	}

	meets := func(b *Bundle) bool { return b != owner && b.meets(leaf) }
	if slices.ContainsFunc(s.facts, meets) {
		return true
	}
	if leaf.op == opPackage {
		b := s.chosen[leaf.pkg]
		return b != nil && meets(b)
	}

	for _, b := range s.chosen {
		if meets(b) {
			return true
		}
	}

	return leaf.op == opGVK && s.serves(leaf.gvk)
}

// solve meets the agenda. It gives nil when it could, and else what is to blame.
func (s *search) solve(agenda []need) blame {
	if s.steps++; s.exhausted() {
		return blame{}
	}

	for _, n := range s.watched {
		if !s.met(n) {
			return s.branch(n, agenda)
		}
	}

	for i, n := range agenda {
		if !s.met(n) {
			return s.branch(n, agenda[i:])
		}
	}
	return nil
}

// branch tries what would help with a need.
func (s *search) branch(n need, agenda []need) blame {
	guilty := blame{n.owner.Package: true}
	if n.formula.forbids() {
		for name := range s.chosen {
			guilty[name] = true
		}
		s.touchForbidden(n)
	}

	s.touch(n.fact(), n.owner)
	for _, b := range s.options(n.owner, &n.formula) {
		if s.steps++; s.exhausted() {
			return guilty
		}

		requirements, ok := s.open(b, guilty)
		if !ok {
			continue
		}

		watched := s.watched
		s.chosen[b.Package] = b
		failure := s.solve(append(slices.Clone(agenda), s.needs(b, requirements)...))
		if failure == nil {
			return nil
		}

		delete(s.chosen, b.Package)
		s.watched = watched[:len(watched):len(watched)]
		if !failure[b.Package] {
			return failure // Another choice here would change nothing.
		}

		delete(failure, b.Package)
		if len(failure) == 0 {
			s.dead[b] = true
		}

		maps.Copy(guilty, failure)
	}

	return guilty
}

// open reports whether a bundle can be chosen now, and gives what it needs.
func (s *search) open(b *Bundle, guilty blame) ([]Requirement, bool) {
	if s.dead[b] {
		return nil, false
	}
	if s.chosen[b.Package] != nil {
		guilty[b.Package] = true
		return nil, false
	}

	if len(s.chosen) > maxChosen {
		for name := range s.chosen {
			guilty[name] = true
		}
		return nil, false
	}

	if installed := s.fixed[b.Package]; installed != nil {
		s.touch(fact{pkg: b.Package}, installed)
		return nil, false
	}

	requirements, err := b.Requires()
	return requirements, err == nil
}

// touchForbidden notes what is installed although it is forbidden.
func (s *search) touchForbidden(n need) {
	n.formula.leaves(func(leaf *formula, negated bool) {
		for _, b := range s.facts {
			if negated && b != n.owner && b.meets(leaf) {
				s.touch(fact{pkg: b.Package}, b)
			}
		}
	})
}

func (s *search) touch(f fact, owner *Bundle) {
	if _, ok := s.owners[f]; !ok {
		s.touched = append(s.touched, f)
	}
	if !slices.Contains(s.owners[f], owner) && len(s.owners[f]) <= maxListed {
		s.owners[f] = append(s.owners[f], owner)
	}
}

// options are the offers that help with what is not met of a formula, the best first.
func (s *search) options(owner *Bundle, f *formula) []*Bundle {
	switch f.op {
	case opAll:
		for i := range f.parts {
			if !s.met(need{owner, &Requirement{formula: f.parts[i]}}) {
				return s.options(owner, &f.parts[i])
			}
		}
		return nil
	case opAny: // The author's order counts.
		var found []*Bundle
		for i := range f.parts {
			found = append(found, s.options(owner, &f.parts[i])...)
		}
		return found
	case opNot:
		return nil
	default:
		return s.offers().meeting(f)
	}
}

// shrink drops what an earlier choice needed that was not kept.
func (s *search) shrink() {
	for _, name := range slices.Sorted(maps.Keys(s.chosen)) {
		b := s.chosen[name]
		if b == s.Wanted {
			continue
		}
		delete(s.chosen, name)
		if !s.complete() {
			s.chosen[name] = b
		}
	}
}

// complete reports whether the requirements of all that is chosen are met.
func (s *search) complete() bool {
	for _, b := range s.chosen {
		requirements, _ := b.Requires() // It was read before.
		for i := range requirements {
			if n := (need{b, &requirements[i]}); !s.ignored(n.fact()) && !s.met(n) {
				return false
			}
		}
	}

	return true
}
