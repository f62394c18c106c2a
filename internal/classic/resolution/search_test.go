package resolution

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomProblem makes a small problem: some things are mandatory, and whatever else.
func randomProblem(r *rand.Rand) *problem {
	p := &problem{variables: 3 + r.IntN(9)}
	text := func(i int) func() string { return func() string { return fmt.Sprint("rule ", i) } }
	for i := range 2 + r.IntN(16) {
		u := rule{variable: r.IntN(p.variables), text: text(i), group: -1}
		switch n := r.IntN(10); {
		case n < 2:
			u.kind = mandatory
		case n < 3:
			u.kind = prohibited
		case n < 5:
			u.kind = conflicts
			u.options = []int{(u.variable + 1 + r.IntN(p.variables-1)) % p.variables}
		default:
			u.kind = requires
			u.options = r.Perm(p.variables)[:r.IntN(4)]
		}
		p.rules = append(p.rules, u)
	}

	for range r.IntN(3) {
		p.groups = append(p.groups, conflictGroup{
			members:      r.Perm(p.variables)[:2+r.IntN(p.variables-2)],
			describePair: func(a, b int) string { return fmt.Sprint(a, " and ", b) },
		})
	}

	return p
}

// keeps reports whether a set of variables keeps to the rules.
func keeps(p *problem, chosen func(int) bool) bool {
	for _, r := range p.rules {
		broken := false
		switch r.kind {
		case mandatory:
			broken = !chosen(r.variable)
		case prohibited:
			broken = chosen(r.variable)
		case conflicts:
			broken = chosen(r.variable) && chosen(r.options[0])
		case requires:
			broken = chosen(r.variable) && !slices.ContainsFunc(r.options, chosen)
		}
		if broken {
			return false
		}
	}

	for _, g := range p.groups {
		n := 0
		for _, v := range g.members {
			if chosen(v) {
				n++
			}
		}
		if n > 1 {
			return false
		}
	}

	return true
}

func possible(p *problem) bool {
	for set := range 1 << p.variables {
		if keeps(p, func(v int) bool { return set>>v&1 == 1 }) {
			return true
		}
	}
	return false
}

// What the search says agrees with trying everything; what it blames cannot be together, and no
// part of it can be left out.
func TestSearchMatchesBruteForce(t *testing.T) {
	outcomes := map[bool]int{}
	for seed := range uint64(6000) {
		p := randomProblem(rand.New(rand.NewPCG(seed, 1)))
		want := possible(p)
		outcomes[want]++
		given := len(p.rules)
		chosen, contradiction, err := p.findBestChoice()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := contradiction == nil; got != want {
			t.Fatalf("seed %d: possible %t, want %t", seed, got, want)
		}

		if want {
			bare := &problem{variables: p.variables, rules: p.rules[:given], groups: p.groups}
			if !keeps(bare, func(v int) bool { return slices.Contains(chosen, v) }) {
				t.Fatalf("seed %d: %v breaks a rule", seed, chosen)
			}

			lean := bare.pruneUnneeded(chosen)
			if !keeps(bare, func(v int) bool { return slices.Contains(lean, v) }) {
				t.Fatalf("seed %d: %v, made leaner from %v, breaks a rule", seed, lean, chosen)
			}

			continue
		}

		blamed := &problem{variables: p.variables, rules: p.minimizeContradiction(contradiction)}
		if possible(blamed) {
			t.Fatalf("seed %d: what is blamed does not contradict itself", seed)
		}

		for i := range blamed.rules {
			if less := slices.Delete(slices.Clone(blamed.rules), i, i+1); !possible(&problem{variables: p.variables, rules: less}) {
				t.Fatalf("seed %d: rule %d is blamed without need", seed, i)
			}
		}
	}

	if outcomes[true] < 500 || outcomes[false] < 500 {
		t.Errorf("the problems are one-sided: %v", outcomes)
	}
}

// best returns the choice that trying the options of each requirement in their order comes to first.
func best(p *problem, decided []int) ([]int, bool) {
	var chosen []int
	for _, r := range p.rules {
		if r.kind == mandatory && !slices.Contains(chosen, r.variable) {
			chosen = append(chosen, r.variable)
		}
	}

	taken := 0
	for i := 0; i < len(chosen); i++ {
		for _, r := range p.rules {
			if r.kind != requires || r.variable != chosen[i] || slices.Contains(r.options, r.variable) ||
				slices.ContainsFunc(r.options, func(v int) bool { return slices.Contains(chosen, v) }) {
				continue
			}
			if taken < len(decided) {
				chosen = append(chosen, decided[taken])
				taken++
				continue
			}
			for _, option := range r.options {
				if found, ok := best(p, append(slices.Clone(decided), option)); ok {
					return found, true
				}
			}
			return nil, false
		}
	}

	return chosen, keeps(p, func(v int) bool { return slices.Contains(chosen, v) })
}

// The first option of each requirement is taken with which a choice is still possible.
func TestSearchPrefersFirstPossibleOption(t *testing.T) {
	compared := 0
	for seed := range uint64(3000) {
		p := randomProblem(rand.New(rand.NewPCG(seed, 2)))
		bare := &problem{variables: p.variables, rules: slices.Clone(p.rules), groups: p.groups}
		chosen, contradiction, err := p.findBestChoice()
		if err != nil || contradiction != nil {
			continue
		}

		want, ok := best(bare, nil)
		if !ok {
			t.Fatalf("seed %d: trying in order finds nothing", seed)
		}
		if diff := cmp.Diff(want, chosen); diff != "" {
			t.Fatalf("seed %d: (-tried in order +search)\n%s", seed, diff)
		}

		compared++
	}

	if compared < 500 {
		t.Errorf("only %d problems were compared", compared)
	}
}
