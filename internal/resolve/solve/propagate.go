package solve

import "slices"

// propagator has the clauses, and assigns what follows from them and from groups.
type propagator struct {
	*Problem
	isEnabled func(Reason) bool
	assignment
	work int

	// watches are the clauses by watched literal. A clause is visited when the literal becomes
	// false.
	watches  [][]*clause
	groupsOf [][]int // by variable
	joined   int     // how many memberships of the problem are in groupsOf
	isMarked []bool  // by variable, while a conflict is analyzed
	// contradiction is a clause that is false for every choice.
	contradiction *clause
}

// clause is a set of literals of which at least one is true. It follows from a rule, or from
// other clauses.
type clause struct {
	literals    []literal
	reason      Reason
	antecedents []*clause
}

// newRuleClause returns the clause of a rule.
func newRuleClause(r *rule) *clause {
	c := &clause{reason: Reason{Number: r.reason}}
	switch r.kind {
	case mandatory:
		c.literals = []literal{positiveLiteral(r.variable)}
	case prohibition:
		c.literals = []literal{negativeLiteral(r.variable)}
	case conflict:
		c.literals = []literal{negativeLiteral(r.variable), negativeLiteral(r.options[0])}
	case requirement:
		c.literals = make([]literal, 1, 1+len(r.options))
		c.literals[0] = negativeLiteral(r.variable)
		for _, o := range r.options {
			c.literals = append(c.literals, positiveLiteral(o))
		}
	}

	return c
}

// isRuleEnabled reports whether rules with a reason apply.
func (p *propagator) isRuleEnabled(r Reason) bool {
	return r.Number == Always || p.isEnabled == nil || p.isEnabled(r)
}

// pairReason returns the reason why two members of a group are not both chosen.
func (p *propagator) pairReason(g, a, b int) Reason {
	if p.groups[g].reason == Always {
		return Reason{Number: Always}
	}
	return Reason{Number: p.groups[g].reason, IsPair: true, A: min(a, b), B: max(a, b)}
}

// newPairClause returns the clause that two members of a group are not both chosen.
func (p *propagator) newPairClause(g, a, b int) *clause {
	return &clause{literals: []literal{negativeLiteral(a), negativeLiteral(b)}, reason: p.pairReason(g, a, b)}
}

// reasonClause returns the clause from which the value of a variable follows.
func (p *propagator) reasonClause(v int) *clause {
	reason := p.reasons[v]
	if reason.clause != nil {
		return reason.clause
	}
	return p.newPairClause(reason.group, v, reason.otherMember)
}

// growTables adds entries for new variables, and new memberships of groups.
func (p *propagator) growTables(count int) {
	p.watches = growSlice(p.watches, 2*count)
	p.groupsOf, p.isMarked = growSlice(p.groupsOf, count), growSlice(p.isMarked, count)
	p.values, p.levels, p.reasons = growSlice(p.values, count), growSlice(p.levels, count), growSlice(p.reasons, count)

	for ; p.joined < len(p.joins); p.joined++ {
		m := p.joins[p.joined]
		p.groupsOf[m.candidate] = append(p.groupsOf[m.candidate], m.group)
		if p.values[m.candidate] != 0 {
			continue
		}
		for _, other := range p.groups[m.group].members {
			if p.values[other] > 0 && p.isRuleEnabled(p.pairReason(m.group, m.candidate, other)) {
				p.assignLiteral(negativeLiteral(m.candidate), assignmentReason{group: m.group, otherMember: other})
				break
			}
		}
	}
}

// addClause adds a clause and assigns the literal that it forces, if any. It returns the clause
// if it is violated and forces nothing.
func (p *propagator) addClause(c *clause) (violated *clause) {
	p.work += len(c.literals)
	p.moveWatchedToFront(c)
	first := c.literals[0]
	if len(c.literals) == 1 {
		p.backtrackToLevel(0)
		if p.literalValue(first) < 0 {
			return c
		}
	} else {
		second := c.literals[1]
		p.watches[first] = append(p.watches[first], c)
		p.watches[second] = append(p.watches[second], c)
		switch level := p.levels[second.variable()]; {
		case p.literalValue(second) >= 0:
			return nil
		case p.literalValue(first) < 0 && p.levels[first.variable()] == level:
			return c
		case p.literalValue(first) < 0:
			p.backtrackToLevel(level)
		}
	}

	if p.literalValue(first) == 0 {
		p.assignLiteral(first, assignmentReason{clause: c})
	}
	return nil
}

// addClauseAndLearn adds a clause, and learns from it if it is violated. It returns false if no
// choice is possible.
func (p *propagator) addClauseAndLearn(c *clause) bool {
	violated := p.addClause(c)
	return violated == nil || p.learnFrom(violated)
}

// moveWatchedToFront moves the two literals to watch to the front: those that are not false,
// then those that became false last.
func (p *propagator) moveWatchedToFront(c *clause) {
	for i := range min(2, len(c.literals)) {
		best := i
		for j := i + 1; j < len(c.literals); j++ {
			if p.watchPriority(c.literals[j]) > p.watchPriority(c.literals[best]) {
				best = j
			}
		}
		c.literals[i], c.literals[best] = c.literals[best], c.literals[i]
	}
}

// watchPriority returns how suitable a literal is for watching; higher is better.
func (p *propagator) watchPriority(l literal) int {
	if p.literalValue(l) >= 0 {
		return p.currentLevel() + 1
	}
	return p.levels[l.variable()]
}

// propagateAssignments assigns everything that follows from the trail. It returns a clause that
// is violated, or nil.
func (p *propagator) propagateAssignments() (violated *clause) {
	for ; p.nextUnpropagated < len(p.trail); p.nextUnpropagated++ {
		l := p.trail[p.nextUnpropagated]
		if !l.isNegated() {
			if violated := p.propagateGroups(l.variable()); violated != nil {
				return violated
			}
		}
		if violated := p.propagateClauses(l.negated()); violated != nil {
			return violated
		}
	}

	return nil
}

// propagateGroups assigns false to the other members of a chosen candidate's groups. It returns
// a clause that is violated, or nil.
func (p *propagator) propagateGroups(v int) (violated *clause) {
	for _, g := range p.groupsOf[v] {
		p.work += len(p.groups[g].members)
		for _, other := range p.groups[g].members {
			switch {
			case other == v || p.values[other] < 0 || !p.isRuleEnabled(p.pairReason(g, v, other)):
			case p.values[other] > 0:
				return p.newPairClause(g, v, other)
			default:
				p.assignLiteral(negativeLiteral(other), assignmentReason{group: g, otherMember: v})
			}
		}
	}

	return nil
}

// propagateClauses visits the clauses that watch a literal which has become false. It returns a
// clause that is violated, or nil.
func (p *propagator) propagateClauses(falsified literal) (violated *clause) {
	watching := p.watches[falsified]
	kept := watching[:0]
	for i, c := range watching {
		p.work++
		if c.literals[0] == falsified {
			c.literals[0], c.literals[1] = c.literals[1], c.literals[0]
		}
		if p.literalValue(c.literals[0]) > 0 {
			kept = append(kept, c)
			continue
		}

		p.work += len(c.literals)
		if at := slices.IndexFunc(c.literals[2:], func(l literal) bool { return p.literalValue(l) >= 0 }); at >= 0 {
			c.literals[1], c.literals[at+2] = c.literals[at+2], c.literals[1]
			p.watches[c.literals[1]] = append(p.watches[c.literals[1]], c)
			continue
		}

		kept = append(kept, c)
		if p.literalValue(c.literals[0]) < 0 {
			p.watches[falsified] = append(kept, watching[i+1:]...)
			return c
		}

		p.assignLiteral(c.literals[0], assignmentReason{clause: c})
	}

	p.watches[falsified] = kept
	return nil
}
