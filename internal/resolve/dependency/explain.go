package dependency

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
	"github.com/mainstay-dev/mainstay/internal/resolve/solve"
)

const (
	// maxChangeWork limits the work to try one change: some 10 ms.
	maxChangeWork = 2_000_000
	// maxChanges limits how many changes are tried.
	maxChanges = 20
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

	l := newPlanner(p)
	chosen, err := l.rules.Solve()
	if err != nil {
		return nil, l.explainFailure(err)
	}

	plan := l.plannedBundles(chosen)
	if len(plan) > maxChosen {
		return nil, &UnsatisfiableError{Bundle: p.Wanted.Name, Conflict: []string{fmt.Sprintf(
			"%d packages would be installed, and at most %d are allowed", len(plan), maxChosen)}, Change: "Install some of the dependencies yourself"}
	}
	return plan, nil
}

// explainFailure returns the UnsatisfiableError for an error of the solver.
func (l *planner) explainFailure(err error) error {
	var contradiction *solve.Contradiction
	if !errors.As(err, &contradiction) {
		return &UnsatisfiableError{Bundle: l.Wanted.Name, Conflict: []string{fmt.Sprintf(
			"no solution was found in %d steps", l.rules.MaxWork)}, Change: "Install some of the dependencies yourself to make the search easier"}
	}

	core := make([]fact, len(contradiction.Reasons))
	for i, r := range contradiction.Reasons {
		core[i] = l.facts[r.Number]
	}
	slices.SortStableFunc(core, func(a, b fact) int {
		return cmp.Or(
			compareBools(a.pkg != l.Wanted.Package, b.pkg != l.Wanted.Package), compareBools(a.needs == "", b.needs == ""),
			strings.Compare(a.pkg, b.pkg), strings.Compare(a.needs, b.needs))
	})

	e := &UnsatisfiableError{Bundle: l.Wanted.Name, Change: l.findChange(core)}
	for _, f := range core {
		e.Conflict = append(e.Conflict, l.describeFact(f, l.owners[f]))
	}
	if more := len(e.Conflict) - 2*maxListed; more > 0 {
		e.Conflict = append(e.Conflict[:2*maxListed], fmt.Sprintf("and %d more facts of this kind", more))
	}
	return e
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
		text += p.describeSupply(r.formula)
	}

	return text
}

// describeSupply states what the catalogs offer for a requirement.
func (p *Problem) describeSupply(f *requirement.Formula) string {
	if f.HasNegation() {
		return ""
	}

	var offered, near []string
	f.VisitLeaves(func(leaf *requirement.Formula, _ bool) {
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
func (l *planner) findChange(core []fact) string {
	l.rules.MaxWork = maxChangeWork
	core = core[:min(len(core), maxChanges)]
	for _, f := range core {
		if text := l.describeChangeOfExtension(f); text != "" {
			return text
		}
	}

	tried := 0
	for _, b := range l.offerIndex().byPackage[l.Wanted.Package] {
		if b.Version.EQ(l.Wanted.Version) || tried == maxChanges {
			continue
		}

		tried++
		other := *l.Problem
		other.Wanted = b
		if _, err := newPlanner(&other).rules.SolveWithout(); err == nil {
			return fmt.Sprintf("It would work with version %s of package %q: ask for it in spec.source.catalog.version", b.Version, b.Package)
		}
	}

	for _, f := range core {
		text := l.describeMissingOffer(f, l.owners[f])
		if text == "" {
			continue
		}
		if _, err := l.rules.SolveWithout(l.factNumbers[f]); err == nil {
			return text
		}
	}

	return ""
}

// describeChangeOfExtension describes the change of an installed extension that removes a fact,
// if there is a plan without the fact.
func (l *planner) describeChangeOfExtension(f fact) string {
	owner := l.owners[f][0]
	if owner.Extension == "" || owner == l.Wanted {
		return ""
	}

	chosen, err := l.rules.SolveWithout(l.factNumbers[f])
	if err != nil {
		return ""
	}

	plan := l.plannedBundles(chosen)
	if at := slices.IndexFunc(plan, func(b *Bundle) bool { return b.Package == f.pkg }); at >= 0 {
		return fmt.Sprintf("It would work with extension %q at version %s of package %q", owner.Extension, plan[at].Version, f.pkg)
	}
	return fmt.Sprintf("It would work without extension %q", owner.Extension)
}

// describeMissingOffer states what a catalog would have to offer to remove a fact.
func (p *Problem) describeMissingOffer(f fact, owners []*Bundle) string {
	r := requirementOf(f, owners)
	switch {
	case r == nil:
		return ""
	case !p.isOffered(r.formula) && !r.formula.HasNegation():
		return "It would work with a catalog that offers " + f.needs
	case f.pkg != p.Wanted.Package:
		return fmt.Sprintf("It would work with a version of package %q that does not need %s", f.pkg, f.needs)
	default:
		return ""
	}
}

func (p *Problem) isOffered(f *requirement.Formula) bool {
	offered := false
	f.VisitLeaves(func(leaf *requirement.Formula, _ bool) {
		offered = offered || len(p.offerIndex().offersMeeting(leaf)) > 0
	})
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
