package dependency

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxExplainSteps limits the steps of all searches for the reason of a failure: some
	// 200 ms.
	maxExplainSteps = 60_000
	// maxAlternatives limits how many other versions of the wanted package are tried.
	maxAlternatives = 20
)

// UnsatisfiableError is the error when no choice of bundles meets all requirements.
type UnsatisfiableError struct {
	// Bundle is the name of the bundle to install.
	Bundle string
	// Conflict is a minimal set of facts that contradict each other, one sentence each.
	// Without any one of them the others would not be in conflict.
	Conflict []string
	// Change is the easiest change that would work; empty when no single change does.
	Change string
}

// Error returns the message with the conflict and the change.
func (e *UnsatisfiableError) Error() string {
	text := fmt.Sprintf("the dependencies of bundle %q cannot be installed: %s", e.Bundle, strings.Join(e.Conflict, "; "))
	if e.Change != "" {
		text += ". " + e.Change
	}
	return text
}

// Plan returns the bundles to install so that their requirements and those of the wanted
// bundle are met, sorted by package. It contains only bundles that are needed, and none
// of an installed package. The same input always has the same plan.
//
// Plan prefers bundles that are not deprecated, then catalogs of a higher priority, the
// catalog of the wanted bundle, default channels, and higher versions. The error is an
// *UnsatisfiableError, or that of a requirement that cannot be parsed.
func (p *Problem) Plan() ([]*Bundle, error) {
	if _, err := p.Wanted.Requires(); err != nil {
		return nil, err
	}

	s := newSearch(p, ignoreNoFact)
	plan, ok := s.findPlan()
	if ok {
		return plan, nil
	}
	if s.isExhausted() {
		return nil, &UnsatisfiableError{Bundle: p.Wanted.Name, Conflict: []string{fmt.Sprintf(
			"no solution was found in %d steps", maxSteps)}, Change: "Install some of the dependencies yourself to make the search easier"}
	}

	core, owners := p.findConflict(s), s.owners
	e := &UnsatisfiableError{Bundle: p.Wanted.Name, Change: p.findChange(core, owners)}
	for _, f := range core {
		e.Conflict = append(e.Conflict, p.describeFact(f, owners[f]))
	}

	if more := len(e.Conflict) - 2*maxListed; more > 0 {
		e.Conflict = append(e.Conflict[:2*maxListed], fmt.Sprintf("and %d more facts of this kind", more))
	}

	return nil, e
}

// ignoreNoFact is the filter for a search that considers all facts.
func ignoreNoFact(fact) bool { return false }

// findConflict reduces the facts that a failed search recorded to a minimal set that still
// makes the search fail.
func (p *Problem) findConflict(failed *search) []fact {
	holds := map[fact]bool{}
	for _, f := range failed.recordedFacts {
		holds[f] = true
	}

	var core []fact
	steps := 0
	for _, f := range slices.Backward(failed.recordedFacts) {
		holds[f] = false
		s := newSearch(p, func(f fact) bool { return !holds[f] })
		if steps <= maxExplainSteps {
			_, ok := s.findPlan()
			if steps += s.steps; !ok && !s.isExhausted() {
				continue
			}
		}

		holds[f] = true
		core = append(core, f)
	}

	slices.SortStableFunc(core, func(a, b fact) int {
		return cmp.Or(
			compareBools(a.pkg != p.Wanted.Package, b.pkg != p.Wanted.Package), compareBools(a.needs == "", b.needs == ""),
			strings.Compare(a.pkg, b.pkg), strings.Compare(a.needs, b.needs))
	})
	return core
}

// describeFact describes a fact.
func (p *Problem) describeFact(f fact, owners []*Bundle) string {
	if f.needs == "" {
		return describeInstalled(owners[0])
	}

	subject := fmt.Sprintf("bundle %q", owners[0].Name)
	switch {
	case f.pkg == p.Wanted.Package:
	case owners[0].Extension != "":
		subject = fmt.Sprintf("extension %q", owners[0].Extension)
	default:
		subject = summarizeOffers(owners)
	}

	text := subject + " needs " + f.needs
	if r := requirementOf(f, owners); r != nil {
		text += p.describeSupply(&r.formula)
	}

	return text
}

// describeSupply states what the catalogs offer for a requirement.
func (p *Problem) describeSupply(f *formula) string {
	if f.hasNegation() {
		return ""
	}

	var offered, near []string
	f.visitLeaves(func(leaf *formula, _ bool) {
		if text := summarizeOffers(p.offerIndex().offersMeeting(leaf)); text != "" {
			offered = append(offered, text)
		} else {
			near = append(near, p.describeNearMiss(leaf)...)
		}
	})
	if len(offered) > 0 {
		return ", which would come with " + joinAlternatives(offered)
	}

	text := ", which " + p.describeNoOffer()
	if len(near) > 0 {
		text += " (" + joinSemicolons(near) + ")"
	}

	return text
}

// findChange describes a single change after which there is a plan: to an installed
// extension, to the wanted bundle, or to the catalogs.
func (p *Problem) findChange(core []fact, owners map[fact][]*Bundle) string {
	left := maxExplainSteps
	solve := func(q *Problem, dropped ...fact) ([]*Bundle, bool) {
		if left < 0 {
			return nil, false
		}

		s := newSearch(q, func(f fact) bool { return slices.Contains(dropped, f) })
		plan, ok := s.findPlan()
		left -= s.steps

		return plan, ok
	}

	for _, f := range core {
		owner := owners[f][0]
		if owner.Extension == "" || owner == p.Wanted {
			continue
		}

		plan, ok := solve(p, f)
		at := slices.IndexFunc(plan, func(b *Bundle) bool { return b.Package == f.pkg })
		switch {
		case ok && at >= 0:
			return fmt.Sprintf("It would work with extension %q at version %s of package %q", owner.Extension, plan[at].Version, f.pkg)
		case ok:
			return fmt.Sprintf("It would work without extension %q", owner.Extension)
		}
	}

	tried := 0
	for _, b := range p.offerIndex().byPackage[p.Wanted.Package] {
		if b.Version.EQ(p.Wanted.Version) || tried == maxAlternatives {
			continue
		}

		tried++
		other := *p
		other.Wanted = b
		if _, ok := solve(&other); ok {
			return fmt.Sprintf("It would work with version %s of package %q: ask for it in spec.source.catalog.version", b.Version, b.Package)
		}
	}

	for _, f := range core {
		text := p.describeMissingOffer(f, owners[f])
		if text == "" {
			continue
		}
		if _, ok := solve(p, f); ok {
			return text
		}
	}

	return ""
}

// describeMissingOffer states what a catalog would have to offer to remove a fact.
func (p *Problem) describeMissingOffer(f fact, owners []*Bundle) string {
	r := requirementOf(f, owners)
	switch {
	case r == nil:
		return ""
	case !p.isOffered(&r.formula) && !r.formula.hasNegation():
		return "It would work with a catalog that offers " + f.needs
	case f.pkg != p.Wanted.Package:
		return fmt.Sprintf("It would work with a version of package %q that does not need %s", f.pkg, f.needs)
	default:
		return ""
	}
}

func (p *Problem) isOffered(f *formula) bool {
	offered := false
	f.visitLeaves(func(leaf *formula, _ bool) { offered = offered || len(p.offerIndex().offersMeeting(leaf)) > 0 })
	return offered
}

// requirementOf returns the requirement of a fact; nil for the fact that a package is
// installed.
func requirementOf(f fact, owners []*Bundle) *Requirement {
	requirements, _ := owners[0].Requires() // The search has parsed them.
	for i := range requirements {
		if requirements[i].text == f.needs {
			return &requirements[i]
		}
	}
	return nil
}
