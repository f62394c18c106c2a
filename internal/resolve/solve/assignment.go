package solve

// literal is a variable or its negation: twice the number of the variable, plus one if negated.
type literal int

func positiveLiteral(v int) literal { return literal(2 * v) }
func negativeLiteral(v int) literal { return literal(2*v + 1) }
func (l literal) negated() literal  { return l ^ 1 }
func (l literal) variable() int     { return int(l) / 2 }
func (l literal) isNegated() bool   { return l&1 == 1 }

// assignment has the values of variables. Each decision starts a level. The values at level 0
// hold for every choice.
type assignment struct {
	values  []int8 // by variable: 1 true, -1 false, 0 open
	levels  []int  // by variable
	reasons []assignmentReason
	trail   []literal
	// levelStarts are the indexes in trail at which each level starts.
	levelStarts      []int
	nextUnpropagated int // index in trail of the first literal that was not propagated
}

// assignmentReason is why a variable has its value: a clause, or, if it is false, another
// member of its group that is true.
type assignmentReason struct {
	clause      *clause
	group       int
	otherMember int
}

// currentLevel returns the number of decisions.
func (a *assignment) currentLevel() int { return len(a.levelStarts) }

// literalValue returns the value of a literal: 1 true, -1 false, 0 open.
func (a *assignment) literalValue(l literal) int8 {
	if l.isNegated() {
		return -a.values[l.variable()]
	}
	return a.values[l.variable()]
}

// decideOn makes an open variable true at a new level.
func (a *assignment) decideOn(v int) {
	a.levelStarts = append(a.levelStarts, len(a.trail))
	a.assignLiteral(positiveLiteral(v), assignmentReason{})
}

// assignLiteral makes a literal true at the current level.
func (a *assignment) assignLiteral(l literal, reason assignmentReason) {
	v := l.variable()
	a.values[v] = 1
	if l.isNegated() {
		a.values[v] = -1
	}

	a.levels[v] = a.currentLevel()
	a.reasons[v] = reason
	a.trail = append(a.trail, l)
}

// backtrackToLevel undoes all assignments above a level.
func (a *assignment) backtrackToLevel(level int) {
	if level >= a.currentLevel() {
		return
	}

	start := a.levelStarts[level]
	for _, l := range a.trail[start:] {
		a.values[l.variable()] = 0
	}
	a.trail, a.levelStarts = a.trail[:start], a.levelStarts[:level]
	a.nextUnpropagated = min(a.nextUnpropagated, start)
}
