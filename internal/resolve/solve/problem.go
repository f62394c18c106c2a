// Package solve chooses candidates under rules. It knows nothing of bundles: candidates are
// numbers, and the caller says why each rule exists.
//
// The choice is the best one in the order of preference: walking from the mandatory candidates
// along the requirements of chosen candidates, breadth first, each requirement that is not met
// takes its first option with which a choice is still possible. Formulas that hold unless
// another candidate is chosen come before other options. If no choice is possible, the result is a
// minimal set of reasons that contradict each other.
//
// Package requirement decodes what bundles require; the packages that use both, such as
// dependency, translate it into rules.
package solve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Always is the reason of rules that cannot be the cause of a contradiction by themselves.
// Explanations do not contain it.
const Always = -1

// DefaultMaxWork is the usual limit of the work of one solution: one to three seconds. Real
// catalogs need about a thousandth of it.
const DefaultMaxWork = 500_000_000

// Problem is a set of candidates and the rules for choosing among them. The zero value has no
// candidates. The order in which mandatory candidates and requirements are added is the order
// of preference.
//
// Each rule has a reason: Always, or a number that the caller chooses.
type Problem struct {
	// Expand adds the rules of a candidate. It is called once for each candidate that is worth
	// considering. It may add candidates. Nil means that all rules have been added before.
	Expand func(candidate int)
	// MaxWork limits the work of one solution, in visited candidates. Zero means DefaultMaxWork.
	MaxWork int

	// variables has a variable for each candidate and each formula over candidates.
	variables []variable
	mandatory []rule
	groups    []group
	// joins are the memberships in groups, in the order in which they were added.
	joins []membership
}

// variable is a candidate, or a formula over candidates. A formula is true only if it is met,
// and no part of the choice.
type variable struct {
	isFormula bool
	// isForbidding is set for NoneOf. It is met only if it was decided on, because a candidate
	// that is chosen later can violate it.
	isForbidding bool
	isExpanded   bool
	rules        []rule
}

// rule is a rule about a variable.
type rule struct {
	kind     ruleKind
	variable int
	// options of a requirement are the variables that satisfy it, best first. A conflict has
	// one option, the other variable.
	options []int
	reason  int
}

type ruleKind int

const (
	mandatory   ruleKind = iota // the variable is chosen
	prohibition                 // the variable is not chosen
	requirement                 // if the variable is chosen, so is one of the options
	conflict                    // the variable and the option are not both chosen
)

// group is a set of candidates of which at most one is chosen.
type group struct {
	members []int
	reason  int
}

type membership struct{ group, candidate int }

// NewCandidate adds a candidate and returns its number.
func (p *Problem) NewCandidate() int {
	p.variables = append(p.variables, variable{})
	return len(p.variables) - 1
}

// AddMandatory adds the rule that a candidate is chosen.
func (p *Problem) AddMandatory(candidate, reason int) {
	p.mandatory = append(p.mandatory, rule{kind: mandatory, variable: candidate, reason: reason})
}

// AddProhibition adds the rule that a candidate is not chosen.
func (p *Problem) AddProhibition(candidate, reason int) {
	p.addRule(rule{kind: prohibition, variable: candidate, reason: reason})
}

// AddRequirement adds the rule that a chosen candidate requires one of the options: candidates
// or formulas, best first. A candidate that is among its options satisfies the rule.
func (p *Problem) AddRequirement(candidate int, options []int, reason int) {
	if !slices.Contains(options, candidate) {
		p.addRule(rule{kind: requirement, variable: candidate, options: options, reason: reason})
	}
}

// AddConflict adds the rule that two candidates are not both chosen.
func (p *Problem) AddConflict(a, b, reason int) {
	p.addRule(rule{kind: conflict, variable: a, options: []int{b}, reason: reason})
}

func (p *Problem) addRule(r rule) {
	v := &p.variables[r.variable]
	v.rules = append(v.rules, r)
}

// NewGroup adds a group, of which at most one candidate is chosen, and returns its number.
func (p *Problem) NewGroup(reason int) int {
	p.groups = append(p.groups, group{reason: reason})
	return len(p.groups) - 1
}

// Join adds a candidate to a group.
func (p *Problem) Join(group, candidate int) {
	p.groups[group].members = append(p.groups[group].members, candidate)
	p.joins = append(p.joins, membership{group, candidate})
}

// AnyOf returns a formula that is met if one of the options is chosen, best first.
func (p *Problem) AnyOf(options []int) int {
	v := p.newFormula()
	p.AddRequirement(v, options, Always)
	return v
}

// AllOf returns a formula that is met if all parts are.
func (p *Problem) AllOf(parts []int) int {
	v := p.newFormula()
	for _, part := range parts {
		p.AddRequirement(v, []int{part}, Always)
	}
	return v
}

// NoneOf returns a formula that is met if none of the candidates is chosen.
func (p *Problem) NoneOf(candidates []int) int {
	v := p.newFormula()
	p.variables[v].isForbidding = true
	for _, c := range candidates {
		p.AddConflict(v, c, Always)
	}
	return v
}

func (p *Problem) newFormula() int {
	p.variables = append(p.variables, variable{isFormula: true, isExpanded: true})
	return len(p.variables) - 1
}

// rulesOf returns the rules about a variable.
func (p *Problem) rulesOf(v int) []rule {
	if !p.variables[v].isExpanded {
		p.variables[v].isExpanded = true
		if p.Expand != nil {
			p.Expand(v)
		}
	}
	return p.variables[v].rules
}

// Reason is why a rule exists, in an explanation.
type Reason struct {
	// Number is the reason that the rule was added with.
	Number int
	// IsPair is set if the reason is that of a group. The candidates A and B, with A < B, are
	// the members that are not both chosen.
	IsPair bool
	A, B   int
}

// Contradiction is the error of a problem without solution.
type Contradiction struct {
	// Reasons contradict each other. They are sorted, and without any one of them a choice
	// would be possible, unless the search for a smaller set reached the limit of work.
	Reasons []Reason
}

// Error implements error. The caller has the texts of the reasons.
func (e *Contradiction) Error() string {
	return fmt.Sprintf("%d rules contradict each other", len(e.Reasons))
}

// LimitError is the error of a search that reached the limit of work.
type LimitError struct {
	// MaxWork is the limit.
	MaxWork int
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("no solution was found within the limit of %d visited candidates", e.MaxWork)
}

// Solve returns the best choice without candidates that nothing needs, in the order in which
// they were chosen: the mandatory candidates, then those that meet requirements. The error is a
// *Contradiction or a *LimitError.
func (p *Problem) Solve() ([]int, error) {
	chosen, err := solveEnabled(p, nil)
	var contradiction *Contradiction
	if errors.As(err, &contradiction) {
		contradiction.Reasons = minimizeReasons(p, contradiction.Reasons)
	}
	return chosen, err
}

// SolveWithout is like Solve but ignores the rules with some reasons, and does not minimize the
// reasons of a Contradiction.
func (p *Problem) SolveWithout(reasons ...int) ([]int, error) {
	return solveEnabled(p, func(r Reason) bool { return !slices.Contains(reasons, r.Number) })
}

// solveEnabled returns the best choice under the rules whose reason is enabled; under all rules
// if isEnabled is nil.
func solveEnabled(p *Problem, isEnabled func(Reason) bool) ([]int, error) {
	s := newSearch(p, cmp.Or(p.MaxWork, DefaultMaxWork), isEnabled)
	if err := s.run(); err != nil {
		return nil, err
	}
	return s.pruneUnneeded(), nil
}
