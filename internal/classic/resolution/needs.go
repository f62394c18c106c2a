package resolution

import (
	"slices"

	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

// linkChoices sets what choices need of each other. Any part of the choices that has what it needs can be carried out
// without the rest:
//
//   - A bundle needs those that meet its dependencies, unless an installed operator that stays does.
//   - An update that takes away what an installed operator depends on needs the update of that operator, or, if it stays,
//     those that meet the dependency then.
//   - A bundle needs the update that drops an API that it provides.
func linkChoices(b *ruleBuilder, choices []Choice, chosen []int) {
	l := &linker{builder: b, choices: choices, stays: map[*Entry]bool{}}
	for _, c := range chosen {
		if c < len(b.entries) && b.entries[c] != nil && b.entries[c].snapshot == b.installed {
			l.stays[b.entries[c].first] = true
		}
	}

	for i := range choices {
		l.linkDependencies(i)
		l.linkMovedAPIs(i)
	}
	for _, e := range b.listInstalledEntries() {
		if !b.isolated.csvs[e.Name] {
			l.linkDependents(e)
		}
	}
}

// linker sets what choices need of each other.
type linker struct {
	builder *ruleBuilder
	choices []Choice
	// stays are the installed entries that are kept.
	stays map[*Entry]bool
}

// addNeed records that one choice needs another. An index of -1 is ignored.
func (l *linker) addNeed(from, to int) {
	if from != to && from >= 0 && to >= 0 {
		l.choices[from].Needs = joinNames(l.choices[from].Needs, l.choices[to].Name)
	}
}

// indexOfUpdate returns the index of the choice that replaces an installed entry, or -1.
func (l *linker) indexOfUpdate(installed *Entry) int {
	return slices.IndexFunc(l.choices, func(c Choice) bool {
		return c.Replaces == installed.Name || c.Package != "" && c.Package == installed.Package
	})
}

func (l *linker) isMetByKept(f *requirement.Formula) bool {
	for e := range l.stays {
		if f.MetBy(e.provider) {
			return true
		}
	}
	return false
}

func (l *linker) linkDependencies(i int) {
	dependencies, err := l.choices[i].snapshot.parseDependencies(l.choices[i].Entry)
	if err != nil {
		return // A chosen bundle has valid dependencies.
	}
	for _, d := range dependencies {
		if d.formula.MetBy(l.choices[i].provider) || l.isMetByKept(d.formula) {
			continue
		}
		l.linkProviders(i, d.formula)
	}
}

// linkProviders records that a choice needs all others that meet a dependency.
func (l *linker) linkProviders(i int, f *requirement.Formula) {
	for j := range l.choices {
		if f.MetBy(l.choices[j].provider) {
			l.addNeed(i, j)
		}
	}
}

func (l *linker) linkMovedAPIs(i int) {
	for _, api := range l.choices[i].provider.APIs() {
		for _, e := range l.builder.installed.byGVK[api] {
			if !l.stays[e.first] {
				l.addNeed(i, l.indexOfUpdate(e))
			}
		}
	}
}

// linkDependents records what the updates of the operators need that an installed operator depends on.
func (l *linker) linkDependents(e *Entry) {
	dependencies, err := e.snapshot.parseDependencies(e)
	if err != nil {
		return
	}

	for _, d := range dependencies {
		if l.isMetByKept(d.formula) {
			continue
		}
		for _, provider := range l.builder.installed.findProviders(d) {
			update := l.indexOfUpdate(provider)
			switch {
			case update < 0 || d.formula.MetBy(l.choices[update].provider):
			case l.stays[e.first]:
				l.linkProviders(update, d.formula)
			default:
				l.addNeed(update, l.indexOfUpdate(e))
			}
		}
	}
}

// Dependents returns the names of the choices that a predicate selects, and of all that need them.
func Dependents(choices []Choice, isSelected func(*Choice) bool) map[string]bool {
	return selectReachable(choices, isSelected, newNeedGraph(choices).neededBy)
}

// Requirements returns the names of the choices that a predicate selects, and of all that they need.
func Requirements(choices []Choice, isSelected func(*Choice) bool) map[string]bool {
	return selectReachable(choices, isSelected, newNeedGraph(choices).needs)
}

// Units returns the choices in groups that do not need each other.
func Units(choices []Choice) [][]Choice {
	graph := newNeedGraph(choices)
	unitOf := map[string]int{}
	var units [][]Choice
	for i := range choices {
		name := choices[i].Name
		if _, ok := unitOf[name]; !ok {
			for member := range graph.connectedTo(name) {
				unitOf[member] = len(units)
			}
			units = append(units, nil)
		}
		units[unitOf[name]] = append(units[unitOf[name]], choices[i])
	}
	return units
}

// needGraph is what choices need of each other, by their names.
type needGraph struct{ needs, neededBy map[string][]string }

func newNeedGraph(choices []Choice) needGraph {
	isChosen := make(map[string]bool, len(choices))
	for i := range choices {
		isChosen[choices[i].Name] = true
	}

	g := needGraph{needs: map[string][]string{}, neededBy: map[string][]string{}}
	for i := range choices {
		c := &choices[i]
		for _, need := range c.Needs {
			if isChosen[need] {
				g.needs[c.Name] = append(g.needs[c.Name], need)
				g.neededBy[need] = append(g.neededBy[need], c.Name)
			}
		}
	}
	return g
}

// connectedTo returns a name, and all that it is connected to by needs in either direction.
func (g needGraph) connectedTo(name string) map[string]bool {
	connected := map[string]bool{name: true}
	followEdges([]string{name}, connected, g.needs, g.neededBy)
	return connected
}

// selectReachable returns the names of the choices that a predicate selects, and of all that edges lead to from them.
func selectReachable(choices []Choice, isSelected func(*Choice) bool, edges map[string][]string) map[string]bool {
	selected := map[string]bool{}
	var pending []string
	for i := range choices {
		if c := &choices[i]; !selected[c.Name] && isSelected(c) {
			selected[c.Name] = true
			pending = append(pending, c.Name)
		}
	}
	followEdges(pending, selected, edges)
	return selected
}

// followEdges adds all names to reached that edges lead to from the pending ones.
func followEdges(pending []string, reached map[string]bool, edges ...map[string][]string) {
	for len(pending) > 0 {
		name := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for _, of := range edges {
			for _, next := range of[name] {
				if !reached[next] {
					reached[next] = true
					pending = append(pending, next)
				}
			}
		}
	}
}
