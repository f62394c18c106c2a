package dependency

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxExplained bounds the steps of all searches for the reason of a failure: some
	// 200 ms.
	maxExplained = 60_000
	// maxAlternatives bounds how many other versions of the wanted package are tried.
	maxAlternatives = 20
)

// UnsatisfiableError says that no choice of bundles meets all requirements.
type UnsatisfiableError struct {
	// Bundle is the bundle that was to be installed.
	Bundle string
	// Conflict are facts that cannot be true together, one sentence each: with any one
	// of them gone these would no longer stand in the way.
	Conflict []string
	// Change is the nearest change that would work; empty when no single one does.
	Change string
}

// Error returns the facts, and the change.
func (e *UnsatisfiableError) Error() string {
	text := fmt.Sprintf("the dependencies of bundle %q cannot be installed: %s", e.Bundle, strings.Join(e.Conflict, "; "))
	if e.Change != "" {
		text += ". " + e.Change
	}
	return text
}

// Plan chooses the bundles to install so that the requirements of the wanted bundle, and
// of those that are chosen, are met: sorted by package, none that is not needed, none of
// a package that is installed. The same facts always give the same plan.
//
// Of what would do it prefers bundles that are not deprecated, then catalogs of a higher
// priority, the catalog of the wanted bundle, default channels, and higher versions. The
// error is an *UnsatisfiableError, or that of a requirement that cannot be read.
func (p *Problem) Plan() ([]*Bundle, error) {
	if _, err := p.Wanted.Requires(); err != nil {
		return nil, err
	}

	s := newSearch(p, none)
	plan, ok := s.run()
	if ok {
		return plan, nil
	}
	if s.exhausted() {
		return nil, &UnsatisfiableError{Bundle: p.Wanted.Name, Conflict: []string{fmt.Sprintf(
			"no solution was found in %d steps", maxSteps)}, Change: "Install some of the dependencies yourself to make the search easier"}
	}

	core, owners := p.core(s), s.owners
	e := &UnsatisfiableError{Bundle: p.Wanted.Name, Change: p.change(core, owners)}
	for _, f := range core {
		e.Conflict = append(e.Conflict, p.factText(f, owners[f]))
	}

	if more := len(e.Conflict) - 2*maxListed; more > 0 {
		e.Conflict = append(e.Conflict[:2*maxListed], fmt.Sprintf("and %d more facts of this kind", more))
	}

	return nil, e
}

// none ignores no fact.
func none(fact) bool { return false }

// core reduces the facts that a failed search touched, which are enough for it to fail,
// to some that each are needed for that.
func (p *Problem) core(failed *search) []fact {
	holds := map[fact]bool{}
	for _, f := range failed.touched {
		holds[f] = true
	}

	var core []fact
	steps := 0
	for _, f := range slices.Backward(failed.touched) {
		holds[f] = false
		s := newSearch(p, func(f fact) bool { return !holds[f] })
		if steps <= maxExplained {
			_, ok := s.run()
			if steps += s.steps; !ok && !s.exhausted() {
				continue
			}
		}

		holds[f] = true
		core = append(core, f)
	}

	slices.SortStableFunc(core, func(a, b fact) int {
		return cmp.Or(
			later(a.pkg != p.Wanted.Package, b.pkg != p.Wanted.Package), later(a.needs == "", b.needs == ""),
			strings.Compare(a.pkg, b.pkg), strings.Compare(a.needs, b.needs))
	})
	return core
}

// factText puts a fact into words.
func (p *Problem) factText(f fact, owners []*Bundle) string {
	if f.needs == "" {
		return installedText(owners[0])
	}

	who := fmt.Sprintf("bundle %q", owners[0].Name)
	switch {
	case f.pkg == p.Wanted.Package:
	case owners[0].Extension != "":
		who = fmt.Sprintf("extension %q", owners[0].Extension)
	default:
		who = summary(owners)
	}

	text := who + " needs " + f.needs
	if r := requirementOf(f, owners); r != nil {
		text += p.supply(&r.formula)
	}

	return text
}

// supply says what the catalogs have for a requirement.
func (p *Problem) supply(f *formula) string {
	if f.forbids() {
		return ""
	}

	var offered, near []string
	f.leaves(func(leaf *formula, _ bool) {
		if text := summary(p.offers().meeting(leaf)); text != "" {
			offered = append(offered, text)
		} else {
			near = append(near, p.nearMiss(leaf)...)
		}
	})
	if len(offered) > 0 {
		return ", which would come with " + orList(offered)
	}

	text := ", which " + p.nobody()
	if len(near) > 0 {
		text += " (" + list(near) + ")"
	}

	return text
}

// change finds a single change after which there is a plan: of what is installed, of
// what is wanted, or of the catalogs.
func (p *Problem) change(core []fact, owners map[fact][]*Bundle) string {
	left := maxExplained
	solve := func(q *Problem, dropped ...fact) ([]*Bundle, bool) {
		if left < 0 {
			return nil, false
		}

		s := newSearch(q, func(f fact) bool { return slices.Contains(dropped, f) })
		plan, ok := s.run()
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
	for _, b := range p.offers().byPackage[p.Wanted.Package] {
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
		text := p.offerText(f, owners[f])
		if text == "" {
			continue
		}
		if _, ok := solve(p, f); ok {
			return text
		}
	}

	return ""
}

// offerText says what a catalog would have to offer for a fact to be gone.
func (p *Problem) offerText(f fact, owners []*Bundle) string {
	r := requirementOf(f, owners)
	switch {
	case r == nil:
		return ""
	case !p.isOffered(&r.formula) && !r.formula.forbids():
		return "It would work with a catalog that offers " + f.needs
	case f.pkg != p.Wanted.Package:
		return fmt.Sprintf("It would work with a version of package %q that does not need %s", f.pkg, f.needs)
	default:
		return ""
	}
}

func (p *Problem) isOffered(f *formula) bool {
	offered := false
	f.leaves(func(leaf *formula, _ bool) { offered = offered || len(p.offers().meeting(leaf)) > 0 })
	return offered
}

// requirementOf finds the requirement that a fact is about; nil when it is about none.
func requirementOf(f fact, owners []*Bundle) *Requirement {
	requirements, _ := owners[0].Requires() // It was read before.
	for i := range requirements {
		if requirements[i].text == f.needs {
			return &requirements[i]
		}
	}
	return nil
}
