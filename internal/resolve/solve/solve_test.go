package solve

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func always(Reason) bool { return true }

// TestSolveMatchesBruteForce compares choices with a brute-force search: whether a choice exists, and
// which choice is preferred. The reasons of a contradiction contradict each other, and none of them
// can be left out.
func TestSolveMatchesBruteForce(t *testing.T) {
	outcomes := map[bool]int{}
	for seed := range uint64(12_000) {
		u := randomUniverse(rand.New(rand.NewPCG(seed, 1)))
		want := u.isPossible(always)
		outcomes[want]++
		p := u.newProblem(seed%2 == 0)
		s := newSearch(p, DefaultMaxWork, nil)
		err := s.run()
		if got := err == nil; got != want {
			t.Fatalf("seed %d: got possible %t (%v), want %t", seed, got, err, want)
		}
		if !want {
			checkContradiction(t, seed, u, p)
			continue
		}

		best, ok := u.findBest(nil)
		if !ok {
			t.Fatalf("seed %d: the search in order finds no choice, want one", seed)
		}
		if diff := cmp.Diff(best, s.chosen); diff != "" {
			t.Fatalf("seed %d: choice (-searched in order +got)\n%s", seed, diff)
		}

		lean, err := p.Solve()
		if err != nil || !u.keeps(always, func(c int) bool { return slices.Contains(lean, c) }) {
			t.Fatalf("seed %d: got %v (%v), want a choice that breaks no rule", seed, lean, err)
		}
		checkNeeded(t, seed, u, lean)
	}

	if outcomes[true] < 1000 || outcomes[false] < 1000 {
		t.Errorf("got the outcomes %v, want a fair share of both", outcomes)
	}
}

func checkContradiction(t *testing.T, seed uint64, u *universe, p *Problem) {
	t.Helper()
	_, err := p.Solve()
	var contradiction *Contradiction
	if !errors.As(err, &contradiction) {
		t.Fatalf("seed %d: got error %v, want a contradiction", seed, err)
	}

	for i := -1; i < len(contradiction.Reasons); i++ {
		isEnabled := func(r Reason) bool {
			at := slices.Index(contradiction.Reasons, r)
			return at >= 0 && at != i
		}
		if got, want := u.isPossible(isEnabled), i >= 0; got != want {
			t.Fatalf("seed %d: without reason %d of %v: got possible %t, want %t", seed, i, contradiction.Reasons, got, want)
		}
	}
}

// checkNeeded checks that no candidate can be left out of a choice.
func checkNeeded(t *testing.T, seed uint64, u *universe, chosen []int) {
	t.Helper()
	for _, left := range chosen {
		if u.keeps(always, func(c int) bool { return c != left && slices.Contains(chosen, c) }) {
			t.Fatalf("seed %d: got the choice %v, want one without %d, which is not needed", seed, chosen, left)
		}
	}
}
