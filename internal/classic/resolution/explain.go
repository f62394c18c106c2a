package resolution

import (
	"fmt"
	"slices"
	"strings"
)

// maxAdvice bounds how many sentences of advice an explanation has.
const maxAdvice = 5

// explain says why no choice is possible.
func (b *builder) explain(contradiction []int) error {
	rules := b.minimal(contradiction)
	pairs := map[int]int{} // by group
	for i := range rules {
		if rules[i].group >= 0 {
			pairs[rules[i].group]++
		}
	}

	e := &UnsatisfiableError{}
	for i := range rules {
		text := rules[i].text()
		if g := rules[i].group; g >= 0 && pairs[g] > 1 {
			text = b.groups[g].summary
		}
		e.Reasons = append(e.Reasons, text)
		if advice := b.advise(&rules[i]); advice != "" && !slices.Contains(e.advice, advice) && len(e.advice) < maxAdvice {
			e.advice = append(e.advice, advice)
		}
	}

	slices.Sort(e.Reasons)
	e.Reasons = slices.Compact(e.Reasons)
	return e
}

// advise says what can be done about a rule that takes part in a contradiction.
func (b *builder) advise(r *rule) string {
	e := b.entries[r.of]
	switch {
	case r.sort == mandatory && e != nil:
		return fmt.Sprintf("ClusterServiceVersion %q is kept as it is because no Subscription has installed it: create one to a channel "+
			"of package %q that has it, or delete it if it is not needed.", e.Name, e.Package)
	case r.sort == requires && e != nil && len(r.options) == 0:
		return fmt.Sprintf("No catalog that this namespace may use offers what %q requires: add a catalog that does, to this namespace "+
			"or to that of global catalogs, or install another version.", e.Name)
	case r.sort == prohibited && e == nil:
		return b.adviseSubscription(r.text())
	case r.group >= 0 && strings.Contains(r.text(), " provide "):
		return "Operators that provide the same API cannot be installed in the same namespace: give up one of them, or put it into another namespace."
	}

	return ""
}

// adviseSubscription says what is offered in place of what a Subscription asks for.
func (b *builder) adviseSubscription(impossible string) string {
	at := slices.IndexFunc(b.wants, func(w want) bool { return w.impossible == impossible })
	if at < 0 {
		return ""
	}

	sub := b.wants[at].subscription
	for _, o := range b.Offers {
		if o.Catalog.Name != sub.Spec.CatalogSource || o.Catalog.Namespace != sub.Spec.CatalogSourceNamespace {
			continue
		}

		p := o.packages[sub.Spec.Package]
		if p == nil {
			return fmt.Sprintf("Subscription %q: correct spec.name, or spec.source if another catalog has the package.", sub.Name)
		}

		names := make([]string, len(p.channels))
		for i, c := range p.channels {
			names[i] = c.name
		}

		return fmt.Sprintf("Subscription %q: package %q has the channels %s; correct spec.channel or spec.startingCSV.", sub.Name, sub.Spec.Package, strings.Join(names, ", "))
	}

	return fmt.Sprintf("Subscription %q: the catalog must be in its own namespace or in that of global catalogs, exist, and have content.", sub.Name)
}
