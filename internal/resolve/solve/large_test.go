package solve

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/crillab/gophersat/solver"
)

// catalogUniverse returns a universe like a catalog: packages of versions, at most one version
// of each. A version requires some versions of other packages. The first packages are mandatory.
func catalogUniverse(r *rand.Rand, packages, versions, needs, width, roots int) *universe {
	u := &universe{candidates: packages*versions + roots}
	for pkg := range packages {
		group := universeGroup{isSilent: r.IntN(2) == 0}
		for v := range versions {
			candidate := pkg*versions + v
			group.members = append(group.members, candidate)
			for range r.IntN(needs + 1) {
				u.rules = append(u.rules, universeRule{kind: requirement, candidate: candidate, options: versionsFrom(r, r.IntN(packages), versions, width)})
			}
		}
		u.groups = append(u.groups, group)
	}

	for root := range roots {
		candidate := packages*versions + root
		u.rules = append(u.rules, universeRule{kind: mandatory, candidate: candidate},
			universeRule{kind: requirement, candidate: candidate, options: versionsFrom(r, root, versions, width)})
	}
	return u
}

// versionsFrom returns a range of at most width versions of a package, or with a small chance
// another package instead of it.
func versionsFrom(r *rand.Rand, pkg, versions, width int) []*option {
	var options []*option
	low := r.IntN(versions)
	for v := min(versions, low+1+r.IntN(width)) - 1; v >= low; v-- {
		options = append(options, one(pkg*versions+v))
	}
	if r.IntN(10) == 0 && pkg > 0 {
		options = append(options, &option{form: '&', parts: []*option{one((pkg - 1) * versions), {form: '!', parts: []*option{one(pkg * versions)}}}})
	}
	return options
}

// clauses translates the universe for a SAT solver. Variables start at 1.
func (u *universe) clauses() [][]int {
	var all [][]int
	next := u.candidates
	var literalOf func(o *option) int
	literalOf = func(o *option) int {
		if o.form == 'c' {
			return o.candidate + 1
		}
		next++
		formula := next
		anyPart := []int{-formula}
		for _, part := range o.parts {
			switch l := literalOf(part); o.form {
			case '|':
				anyPart = append(anyPart, l)
			case '&':
				all = append(all, []int{-formula, l})
			default:
				all = append(all, []int{-formula, -l})
			}
		}
		if o.form == '|' {
			all = append(all, anyPart)
		}
		return formula
	}

	for _, r := range u.rules {
		switch r.kind {
		case mandatory:
			all = append(all, []int{r.candidate + 1})
		case prohibition:
			all = append(all, []int{-r.candidate - 1})
		case conflict:
			all = append(all, []int{-r.candidate - 1, -literalOf(r.options[0])})
		case requirement:
			c := []int{-r.candidate - 1}
			for _, o := range r.options {
				c = append(c, literalOf(o))
			}
			all = append(all, c)
		}
	}

	for _, g := range u.groups {
		for i, a := range g.members {
			for _, b := range g.members[:i] {
				all = append(all, []int{-a - 1, -b - 1})
			}
		}
	}
	return all
}

// TestSolveMatchesIndependentSolver compares large universes with an independent SAT solver.
func TestSolveMatchesIndependentSolver(t *testing.T) {
	outcomes := map[bool]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		u := catalogUniverse(r, 20+r.IntN(400), 2+r.IntN(9), 2, 3, 3+r.IntN(6))
		want := solver.New(solver.ParseSlice(u.clauses())).Solve() == solver.Sat
		outcomes[want]++
		chosen, err := u.newProblem(true).Solve()
		var contradiction *Contradiction
		switch {
		case err == nil:
			if !want || !u.keeps(always, func(c int) bool { return slices.Contains(chosen, c) }) {
				t.Errorf("seed %d: got a choice that breaks a rule", seed)
			}
		case !errors.As(err, &contradiction) || want:
			t.Errorf("seed %d: got error %v, want a choice: %t", seed, err, want)
		default:
			blamed := u.restrictTo(contradiction.Reasons)
			if solver.New(solver.ParseSlice(blamed.clauses())).Solve() == solver.Sat {
				t.Errorf("seed %d: got reasons that do not contradict each other", seed)
			}
		}
	}

	if outcomes[true] < 30 || outcomes[false] < 30 {
		t.Errorf("got the outcomes %v, want a fair share of both", outcomes)
	}
}

// restrictTo returns the universe with only the rules of some reasons.
func (u *universe) restrictTo(reasons []Reason) *universe {
	fewer := &universe{candidates: u.candidates}
	for _, r := range reasons {
		if r.IsPair {
			fewer.groups = append(fewer.groups, universeGroup{members: []int{r.A, r.B}})
		} else {
			fewer.rules = append(fewer.rules, u.rules[r.Number])
		}
	}
	for _, g := range u.groups {
		if g.isSilent {
			fewer.groups = append(fewer.groups, g)
		}
	}
	return fewer
}

// TestSolveIsLimited checks that a search without solution ends. There are more pigeons than
// holes, for which learned clauses do not help.
func TestSolveIsLimited(t *testing.T) {
	const pigeons = 12
	p := &Problem{MaxWork: 50_000_000}
	for range pigeons - 1 {
		p.NewGroup(Always)
	}
	for range pigeons {
		var holes []int
		for g := range pigeons - 1 {
			holes = append(holes, p.NewCandidate())
			p.Join(g, holes[g])
		}
		pigeon := p.NewCandidate()
		p.AddMandatory(pigeon, Always)
		p.AddRequirement(pigeon, holes, Always)
	}

	_, err := p.Solve()
	var limit *LimitError
	if !errors.As(err, &limit) || limit.MaxWork != p.MaxWork {
		t.Errorf("got error %v, want a LimitError", err)
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, size := range []struct{ packages, versions, roots int }{{400, 10, 30}, {1600, 10, 300}} {
		u := possibleUniverse(size.packages, size.versions, size.roots)
		b.Run(fmt.Sprintf("%d bundles, %d mandatory", size.packages*size.versions, size.roots), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := u.newProblem(false).Solve(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// possibleUniverse returns a universe with a solution. The ranges of versions are wide.
func possibleUniverse(packages, versions, roots int) *universe {
	for seed := uint64(0); ; seed++ {
		u := catalogUniverse(rand.New(rand.NewPCG(seed, 3)), packages, versions, 1, 3*versions, roots)
		if _, err := u.newProblem(true).SolveWithout(); err == nil || seed == 100 {
			return u
		}
	}
}
