package dependency

import (
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
	"github.com/mainstay-dev/mainstay/internal/resolve/solve"
)

const (
	// maxPlanWork limits the work of one plan: some 200 ms.
	maxPlanWork = 50_000_000
	// maxChosen limits how many packages are installed as dependencies of one bundle.
	maxChosen = 100
)

// fact is a possible reason for a contradiction: a package has a requirement, or a package is
// installed. To ignore a fact makes a plan easier.
type fact struct {
	pkg string
	// needs is the text of the requirement; empty for the fact that the package is installed.
	needs string
}

// planner translates a problem into rules about candidates. The installed bundles and the wanted
// one are mandatory, and at most one bundle of each package is chosen. The rules of an offered
// bundle are made when the solver considers the bundle.
type planner struct {
	*Problem
	rules solve.Problem

	candidates map[*Bundle]int
	bundles    map[int]*Bundle // by candidate
	groups     map[string]int  // by package
	leaves     map[leafKey]int // the formulas of leaves that must be met

	facts       []fact // by the number of the reason
	factNumbers map[fact]int
	owners      map[fact][]*Bundle
}

func newPlanner(p *Problem) *planner {
	l := &planner{
		Problem: p, candidates: map[*Bundle]int{}, bundles: map[int]*Bundle{}, groups: map[string]int{}, leaves: map[leafKey]int{},
		factNumbers: map[fact]int{}, owners: map[fact][]*Bundle{},
	}
	l.rules.MaxWork = maxPlanWork
	l.rules.Expand = l.addRequirements

	l.rules.AddMandatory(l.candidateFor(p.Wanted), solve.Always)
	for _, b := range p.Installed {
		l.rules.AddMandatory(l.candidateFor(b), l.numberFact(fact{pkg: b.Package}, b))
		l.protectRequirements(b)
	}
	return l
}

// candidateFor returns the candidate of a bundle, which is created on first use.
func (l *planner) candidateFor(b *Bundle) int {
	c, ok := l.candidates[b]
	if ok {
		return c
	}

	group, ok := l.groups[b.Package]
	if !ok {
		group = l.rules.NewGroup(solve.Always)
		l.groups[b.Package] = group
	}

	c = l.rules.NewCandidate()
	l.rules.Join(group, c)
	l.candidates[b], l.bundles[c] = c, b
	return c
}

// numberFact returns the number of a fact, and records that it is about a bundle.
func (l *planner) numberFact(f fact, owner *Bundle) int {
	number, ok := l.factNumbers[f]
	if !ok {
		number = len(l.facts)
		l.facts = append(l.facts, f)
		l.factNumbers[f] = number
	}
	if !slices.Contains(l.owners[f], owner) && len(l.owners[f]) <= maxListed {
		l.owners[f] = append(l.owners[f], owner)
	}
	return number
}

// addRequirements adds the rules for the requirements of a candidate. A bundle whose
// requirements cannot be parsed is not chosen.
func (l *planner) addRequirements(candidate int) {
	b := l.bundles[candidate]
	if slices.Contains(l.Installed, b) {
		return
	}

	requirements, err := b.Requires()
	if err != nil {
		l.rules.AddProhibition(candidate, solve.Always)
		return
	}
	for i := range requirements {
		l.addRequirement(candidate, b, &requirements[i])
	}
}

// protectRequirements adds the requirements of an installed bundle that are met now and that an
// additional bundle can violate. They hold for every plan.
func (l *planner) protectRequirements(b *Bundle) {
	requirements, err := b.Requires()
	if err != nil {
		return
	}
	for i := range requirements {
		if r := &requirements[i]; r.formula.HasNegation() && l.isMetBeside(b, r) {
			l.addRequirement(l.candidateFor(l.Wanted), b, r)
		}
	}
}

// addRequirement adds the rule that a chosen candidate depends on a requirement of a bundle.
func (l *planner) addRequirement(candidate int, owner *Bundle, r *Requirement) {
	l.rules.AddRequirement(candidate, []int{l.formulaFor(owner, r.formula, false)}, l.numberFact(fact{owner.Package, r.text}, owner))
}

// isMetBeside reports whether the installed bundles and the wanted one meet a requirement of an
// installed bundle.
func (l *planner) isMetBeside(owner *Bundle, r *Requirement) bool {
	return r.formula.IsMetWith(func(leaf *requirement.Formula, negated bool) bool {
		meets := func(b *Bundle) bool { return (b != owner || !negated) && b.meetsLeaf(leaf) }
		return meets(l.Wanted) || slices.ContainsFunc(l.Installed, meets) || l.isServed(leaf)
	})
}

// isServed reports whether the API server will serve the API of a leaf.
func (l *planner) isServed(leaf *requirement.Formula) bool {
	return leaf.Operator == requirement.API && l.willServe(leaf.GVK)
}

// formulaFor returns the solver's formula for a requirement of a bundle; for its negation if
// negated is set.
func (l *planner) formulaFor(owner *Bundle, f *requirement.Formula, negated bool) int {
	if f.IsLeaf() {
		if negated {
			return l.formulaForAbsence(owner, f)
		}
		return l.formulaForLeaf(f)
	}

	parts := make([]int, len(f.Parts))
	for i := range f.Parts {
		parts[i] = l.formulaFor(owner, &f.Parts[i], negated != (f.Operator == requirement.Not))
	}

	// None of the parts is met if each of them is not met.
	if (f.Operator == requirement.Any) == negated {
		return l.rules.AllOf(parts)
	}
	return l.rules.AnyOf(parts)
}

// formulaForLeaf returns the formula that some bundle meets a leaf. It is shared by all bundles
// that require it.
func (l *planner) formulaForLeaf(leaf *requirement.Formula) int {
	key := keyOfLeaf(leaf)
	v, ok := l.leaves[key]
	if !ok {
		if l.isServed(leaf) {
			v = l.rules.AllOf(nil)
		} else {
			v = l.rules.AnyOf(l.candidatesMeeting(leaf))
		}
		l.leaves[key] = v
	}
	return v
}

// formulaForAbsence returns the formula that no bundle but the owner meets a leaf.
func (l *planner) formulaForAbsence(owner *Bundle, leaf *requirement.Formula) int {
	if l.isServed(leaf) {
		return l.rules.AnyOf(nil)
	}
	candidate := l.candidateFor(owner)
	return l.rules.NoneOf(slices.DeleteFunc(l.candidatesMeeting(leaf), func(c int) bool { return c == candidate }))
}

// candidatesMeeting returns the candidates that meet a leaf: the wanted bundle, installed ones,
// and offers, the best first.
func (l *planner) candidatesMeeting(leaf *requirement.Formula) []int {
	var found []int
	if l.Wanted.meetsLeaf(leaf) {
		found = append(found, l.candidateFor(l.Wanted))
	}
	for _, b := range l.Installed {
		if b.meetsLeaf(leaf) {
			found = append(found, l.candidateFor(b))
		}
	}
	for _, b := range l.offerIndex().offersMeeting(leaf) {
		found = append(found, l.candidateFor(b))
	}
	return found
}

// plannedBundles returns the bundles to install among the chosen candidates, sorted by package.
func (l *planner) plannedBundles(chosen []int) []*Bundle {
	var plan []*Bundle
	for _, c := range chosen {
		if b := l.bundles[c]; b != l.Wanted && !slices.Contains(l.Installed, b) {
			plan = append(plan, b)
		}
	}
	slices.SortFunc(plan, func(a, b *Bundle) int { return strings.Compare(a.Package, b.Package) })
	return plan
}
