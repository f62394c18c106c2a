package solve

import (
	"cmp"
	"maps"
	"slices"
)

// learnFrom backtracks from a violated clause and adds a clause that prevents the conflict. It
// returns false if no choice is possible; the contradiction is set then.
func (p *propagator) learnFrom(violated *clause) bool {
	for violated != nil {
		level := 0
		for _, l := range violated.literals {
			level = max(level, p.levels[l.variable()])
		}
		if level == 0 {
			p.contradiction = violated
			return false
		}

		p.backtrackToLevel(level)
		violated = p.addClause(p.analyzeConflict(violated))
	}

	return true
}

// analyzeConflict returns the clause learned from a violated clause. One of its literals became
// false at the current level.
func (p *propagator) analyzeConflict(violated *clause) *clause {
	learned := &clause{reason: Reason{Number: Always}}
	var marked []int
	open := 0 // literals of the current level that are still to be replaced by their reasons
	at := len(p.trail) - 1
	for c := violated; ; {
		p.work += len(c.literals)
		learned.antecedents = append(learned.antecedents, c)
		for _, l := range c.literals {
			v := l.variable()
			if p.isMarked[v] || p.levels[v] == 0 {
				continue
			}

			p.isMarked[v] = true
			marked = append(marked, v)
			if p.levels[v] == p.currentLevel() {
				open++
			} else {
				learned.literals = append(learned.literals, l)
			}
		}

		for !p.isMarked[p.trail[at].variable()] {
			at--
		}
		l := p.trail[at]
		at--
		if open--; open == 0 {
			learned.literals = append(learned.literals, l.negated())
			break
		}
		c = p.reasonClause(l.variable())
	}

	for _, v := range marked {
		p.isMarked[v] = false
	}
	return learned
}

// newContradiction returns the error with the reasons of the rules that the contradiction
// follows from.
func (p *propagator) newContradiction() error {
	isVisited := map[*clause]bool{}
	isExplained := make([]bool, len(p.values))
	reasons := map[Reason]bool{}
	pending := []*clause{p.contradiction}
	for len(pending) > 0 {
		c := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if isVisited[c] {
			continue
		}

		isVisited[c] = true
		if c.reason.Number != Always {
			reasons[c.reason] = true
		}
		pending = append(pending, c.antecedents...)
		for _, l := range c.literals {
			if v := l.variable(); p.values[v] != 0 && p.levels[v] == 0 && !isExplained[v] {
				isExplained[v] = true
				pending = append(pending, p.reasonClause(v))
			}
		}
	}

	return &Contradiction{Reasons: slices.SortedFunc(maps.Keys(reasons), compareReasons)}
}

func compareReasons(a, b Reason) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
}
