package resolution

import (
	"fmt"
	"slices"
	"strings"
)

// maxAdvice limits the sentences of advice in an explanation.
const maxAdvice = 5

// explainContradiction returns an UnsatisfiableError with the rules that contradict each other.
func (b *ruleBuilder) explainContradiction(contradiction []int) error {
	rules := b.minimizeContradiction(contradiction)
	pairsByGroup := map[int]int{}
	for i := range rules {
		if rules[i].group >= 0 {
			pairsByGroup[rules[i].group]++
		}
	}

	e := &UnsatisfiableError{}
	for i := range rules {
		text := rules[i].text()
		if g := rules[i].group; g >= 0 && pairsByGroup[g] > 1 {
			text = b.groups[g].summary
		}
		e.Reasons = append(e.Reasons, text)
		if advice := b.adviceForRule(&rules[i]); advice != "" && !slices.Contains(e.advice, advice) && len(e.advice) < maxAdvice {
			e.advice = append(e.advice, advice)
		}
	}

	slices.Sort(e.Reasons)
	e.Reasons = slices.Compact(e.Reasons)
	return e
}

// adviceForRule returns what an administrator can do about a rule in a contradiction, or "".
func (b *ruleBuilder) adviceForRule(r *rule) string {
	e := b.entries[r.variable]
	switch {
	case r.kind == mandatory && e != nil:
		return fmt.Sprintf("ClusterServiceVersion %q is kept as it is because no Subscription refers to it: create a Subscription to a channel "+
			"of package %q that contains it, or delete it if it is not needed.", e.Name, e.Package)
	case r.kind == requires && e != nil && len(r.options) == 0:
		return fmt.Sprintf("No catalog available to this namespace provides what %q requires: add such a catalog to this namespace "+
			"or to the namespace of global catalogs, or install another version.", e.Name)
	case r.kind == prohibited && e == nil:
		return b.adviceForSubscription(r.text())
	case r.group >= 0 && strings.Contains(r.text(), " provide "):
		return "Operators that provide the same API cannot be installed in the same namespace: remove one of them, or install it in another namespace."
	}

	return ""
}

// adviceForSubscription returns advice for a Subscription that cannot be satisfied. reason is
// the text of its rule.
func (b *ruleBuilder) adviceForSubscription(reason string) string {
	at := slices.IndexFunc(b.subscriptionTargets, func(w subscriptionTarget) bool { return w.unsatisfiableReason == reason })
	if at < 0 {
		return ""
	}

	sub := b.subscriptionTargets[at].subscription
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

	return fmt.Sprintf("Subscription %q: its CatalogSource must exist in its own namespace or in the namespace of global catalogs, and have content.", sub.Name)
}
