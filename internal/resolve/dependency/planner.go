package dependency

import (
	"maps"
	"slices"
)

const (
	// maxSteps limits the steps of one search: some 50 ms.
	maxSteps = 20_000
	// maxChosen limits how many packages are installed as dependencies of one bundle.
	maxChosen = 100
)

// fact is a possible reason for a failed search: a package has a requirement, or a
// package is installed. To ignore a fact makes the search easier.
type fact struct {
	pkg string
	// needs is the text of the requirement; empty for the fact that the package is installed.
	needs string
}

// need is a requirement of a bundle in the search.
type need struct {
	owner *Bundle
	*Requirement
}

func (n need) asFact() fact { return fact{pkg: n.owner.Package, needs: n.text} }

// blame is the set of packages whose choices caused a failure. Another choice for any
// other package would not change the failure.
type blame map[string]bool

// search chooses bundles, at most one of each package, so that their requirements and
// those of the wanted bundle are met. After a failure it backtracks to the last choice
// that contributed to it.
type search struct {
	*Problem
	// ignored reports whether the search ignores a fact.
	ignored            func(fact) bool
	installedBundles   []*Bundle
	installedByPackage map[string]*Bundle
	chosen             map[string]*Bundle
	// unsatisfiable are bundles whose requirements cannot be met by any choice.
	unsatisfiable map[*Bundle]bool
	// watched are needs that an additional bundle can break.
	watched []need
	// recordedFacts contributed to failures, in the order of discovery.
	// owners has the bundles of each fact.
	recordedFacts []fact
	owners        map[fact][]*Bundle
	steps         int
}

func newSearch(p *Problem, ignored func(fact) bool) *search {
	s := &search{
		Problem: p, ignored: ignored, installedByPackage: map[string]*Bundle{}, chosen: map[string]*Bundle{p.Wanted.Package: p.Wanted},
		unsatisfiable: map[*Bundle]bool{}, owners: map[fact][]*Bundle{},
	}
	for _, b := range p.Installed {
		if !ignored(fact{pkg: b.Package}) {
			s.installedBundles = append(s.installedBundles, b)
			s.installedByPackage[b.Package] = b
		}
	}

	// A choice must not violate a negated requirement of an installed bundle.
	for _, b := range s.installedBundles {
		requirements, err := b.Requires()
		for i := range requirements {
			n := need{b, &requirements[i]}
			if err == nil && n.formula.hasNegation() && !ignored(n.asFact()) && s.isNeedMet(n) {
				s.watched = append(s.watched, n)
			}
		}
	}

	return s
}

// findPlan returns the bundles to install, sorted by package; false when there is no
// solution.
func (s *search) findPlan() ([]*Bundle, bool) {
	requirements, err := s.Wanted.Requires()
	if err != nil {
		return nil, false
	}

	agenda := s.addNeeds(s.Wanted, requirements)
	if failure := s.solve(agenda); failure != nil {
		return nil, false
	}

	s.removeUnneededBundles()
	var plan []*Bundle
	for _, name := range slices.Sorted(maps.Keys(s.chosen)) {
		if b := s.chosen[name]; b != s.Wanted {
			plan = append(plan, b)
		}
	}

	return plan, true
}

// isExhausted reports whether the search has reached its limit of steps.
func (s *search) isExhausted() bool { return s.steps > maxSteps }

// addNeeds adds the requirements with a negation to watched and returns the other ones,
// which stay met once they are met.
func (s *search) addNeeds(owner *Bundle, requirements []Requirement) []need {
	var agenda []need
	for i := range requirements {
		n := need{owner, &requirements[i]}
		switch {
		case s.ignored(n.asFact()):
		case n.formula.hasNegation():
			s.watched = append(s.watched, n)
		default:
			agenda = append(agenda, n)
		}
	}

	return agenda
}

// isNeedMet reports whether the installed and chosen bundles meet a need.
func (s *search) isNeedMet(n need) bool {
	return n.formula.isMetWith(func(leaf *formula, negated bool) bool { return s.isLeafMet(n.owner, leaf, negated) })
}

func (s *search) isLeafMet(owner *Bundle, leaf *formula, negated bool) bool {
	if !negated && owner.meetsLeaf(leaf) {
		return true
	}

	meets := func(b *Bundle) bool { return b != owner && b.meetsLeaf(leaf) }
	if slices.ContainsFunc(s.installedBundles, meets) {
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

	return leaf.op == opGVK && s.willServe(leaf.gvk)
}

// solve chooses bundles until all needs of the agenda are met. It returns nil on success,
// else the packages to blame.
func (s *search) solve(agenda []need) blame {
	if s.steps++; s.isExhausted() {
		return blame{}
	}

	for _, n := range s.watched {
		if !s.isNeedMet(n) {
			return s.tryHelpfulOffers(n, agenda)
		}
	}

	for i, n := range agenda {
		if !s.isNeedMet(n) {
			return s.tryHelpfulOffers(n, agenda[i:])
		}
	}
	return nil
}

// tryHelpfulOffers tries each offer that helps to meet a need, and solves the rest of the agenda.
// It returns nil on success, else the packages to blame.
func (s *search) tryHelpfulOffers(n need, agenda []need) blame {
	guilty := blame{n.owner.Package: true}
	if n.formula.hasNegation() {
		for name := range s.chosen {
			guilty[name] = true
		}
		s.recordForbiddenBundles(n)
	}

	s.recordFact(n.asFact(), n.owner)
	for _, b := range s.listHelpfulOffers(n.owner, &n.formula) {
		if s.steps++; s.isExhausted() {
			return guilty
		}

		requirements, ok := s.requirementsIfSelectable(b, guilty)
		if !ok {
			continue
		}

		watched := s.watched
		s.chosen[b.Package] = b
		failure := s.solve(append(slices.Clone(agenda), s.addNeeds(b, requirements)...))
		if failure == nil {
			return nil
		}

		delete(s.chosen, b.Package)
		s.watched = watched[:len(watched):len(watched)]
		if !failure[b.Package] {
			return failure // Another choice for this package would not help.
		}

		delete(failure, b.Package)
		if len(failure) == 0 {
			s.unsatisfiable[b] = true
		}

		maps.Copy(guilty, failure)
	}

	return guilty
}

// requirementsIfSelectable returns the requirements of a bundle and whether it can be chosen now. If
// not, it adds the packages to blame to guilty, or records the fact that prevents it.
func (s *search) requirementsIfSelectable(b *Bundle, guilty blame) ([]Requirement, bool) {
	if s.unsatisfiable[b] {
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

	if installed := s.installedByPackage[b.Package]; installed != nil {
		s.recordFact(fact{pkg: b.Package}, installed)
		return nil, false
	}

	requirements, err := b.Requires()
	return requirements, err == nil
}

// recordForbiddenBundles records the installed bundles that a need forbids.
func (s *search) recordForbiddenBundles(n need) {
	n.formula.visitLeaves(func(leaf *formula, negated bool) {
		for _, b := range s.installedBundles {
			if negated && b != n.owner && b.meetsLeaf(leaf) {
				s.recordFact(fact{pkg: b.Package}, b)
			}
		}
	})
}

// recordFact records a fact that contributed to a failure, and its owner.
func (s *search) recordFact(f fact, owner *Bundle) {
	if _, ok := s.owners[f]; !ok {
		s.recordedFacts = append(s.recordedFacts, f)
	}
	if !slices.Contains(s.owners[f], owner) && len(s.owners[f]) <= maxListed {
		s.owners[f] = append(s.owners[f], owner)
	}
}

// listHelpfulOffers returns the offers that meet an unmet part of a formula, the best first.
func (s *search) listHelpfulOffers(owner *Bundle, f *formula) []*Bundle {
	switch f.op {
	case opAll:
		for i := range f.parts {
			if !s.isNeedMet(need{owner, &Requirement{formula: f.parts[i]}}) {
				return s.listHelpfulOffers(owner, &f.parts[i])
			}
		}
		return nil
	case opAny: // The author's order counts.
		var found []*Bundle
		for i := range f.parts {
			found = append(found, s.listHelpfulOffers(owner, &f.parts[i])...)
		}
		return found
	case opNot:
		return nil
	default:
		return s.offerIndex().offersMeeting(f)
	}
}

// removeUnneededBundles removes bundles that were chosen for a bundle that was dropped later.
func (s *search) removeUnneededBundles() {
	for _, name := range slices.Sorted(maps.Keys(s.chosen)) {
		b := s.chosen[name]
		if b == s.Wanted {
			continue
		}
		delete(s.chosen, name)
		if !s.allChosenRequirementsMet() {
			s.chosen[name] = b
		}
	}
}

// allChosenRequirementsMet reports whether the requirements of all chosen bundles are met.
func (s *search) allChosenRequirementsMet() bool {
	for _, b := range s.chosen {
		requirements, _ := b.Requires() // The search has parsed them.
		for i := range requirements {
			if n := (need{b, &requirements[i]}); !s.ignored(n.asFact()) && !s.isNeedMet(n) {
				return false
			}
		}
	}

	return true
}
