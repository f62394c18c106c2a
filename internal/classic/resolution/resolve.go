package resolution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Offer is a catalog that the namespace can install operators from.
type Offer struct {
	*Snapshot
	// Priority is the priority of the catalog. Dependencies prefer catalogs of higher priority.
	Priority int
}

// Input is the input of Resolve.
type Input struct {
	Namespace string
	Offers    []Offer
	// Subscriptions are the Subscriptions of the namespace.
	Subscriptions []*v1alpha1.Subscription
	// CSVs are the CSVs of the namespace, with or without copied CSVs.
	CSVs []v1alpha1.ClusterServiceVersion
	// FailForward is set if failed operators may be replaced.
	FailForward bool
}

// Choice is a bundle to install.
type Choice struct {
	*Entry
	// Replaces is the name of the CSV that the bundle replaces, or "".
	Replaces string
}

// UnsatisfiableError reports that no choice is possible.
type UnsatisfiableError struct {
	// Reasons contradict each other. Without any one of them a choice would be possible.
	Reasons []string

	advice []string
}

// Error implements error. It lists the reasons.
func (e *UnsatisfiableError) Error() string {
	return "constraints not satisfiable: " + strings.Join(e.Reasons, ", ")
}

// Advice returns sentences that tell an administrator what to do.
func (e *UnsatisfiableError) Advice() string { return strings.Join(e.advice, " ") }

// Resolve chooses the operators of a namespace and returns those that are not installed yet.
// Bundles that Subscriptions ask for come before their dependencies. The result is empty if
// nothing has to be installed. An UnsatisfiableError persists until the input changes.
func Resolve(in Input) ([]Choice, error) {
	csvs, err := selectActiveCSVs(in.CSVs, in.FailForward)
	if err != nil {
		return nil, err
	}

	subscriptions := slices.SortedFunc(slices.Values(in.Subscriptions), func(a, b *v1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
	present, err := newInstalledSnapshot(in.Namespace, csvs, subscriptions)
	if err != nil {
		return nil, err
	}

	b := &ruleBuilder{Input: in, installed: present, variableOf: map[*Entry]int{}, replacedNames: map[*Entry]string{}}
	slices.SortFunc(b.Offers, func(x, y Offer) int {
		return cmp.Or(
			cmp.Compare(y.Priority, x.Priority),
			compareOwnNamespaceFirst(in.Namespace, x.Catalog.Namespace, y.Catalog.Namespace),
			strings.Compare(x.Catalog.Name, y.Catalog.Name),
		)
	})
	if err := b.buildRules(subscriptions); err != nil {
		return nil, err
	}

	return b.solveAndExplain()
}

// compareOwnNamespaceFirst orders namespaces by name, with the namespace own first.
func compareOwnNamespaceFirst(own, a, b string) int {
	switch {
	case a == b:
		return 0
	case a == own:
		return -1
	case b == own:
		return 1
	}

	return strings.Compare(a, b)
}

// ruleBuilder translates the input into rules for the search.
type ruleBuilder struct {
	Input
	problem

	installed *Snapshot
	// entries are the entries by variable; nil for the variables of Subscriptions.
	entries             []*Entry
	variableOf          map[*Entry]int
	replacedNames       map[*Entry]string
	subscriptionTargets []subscriptionTarget
}

// subscriptionTarget is the outcome of listing candidates for a Subscription.
type subscriptionTarget struct {
	subscription        *v1alpha1.Subscription
	optionCount         int
	unsatisfiableReason string
}

// addRule adds a rule that belongs to no conflict group.
func (b *ruleBuilder) addRule(r rule) {
	r.group = -1
	b.rules = append(b.rules, r)
}

func constantText(text string) func() string { return func() string { return text } }

// newVariable returns a new variable for an entry, or for a Subscription if e is nil.
func (b *ruleBuilder) newVariable(e *Entry) int {
	b.entries = append(b.entries, e)
	b.variables = len(b.entries)
	return b.variables - 1
}

// variableForEntry returns the variable of an entry, which is created on first use.
func (b *ruleBuilder) variableForEntry(e *Entry) int {
	n, ok := b.variableOf[e]
	if !ok {
		n = b.newVariable(e)
		b.variableOf[e] = n
	}
	return n
}

// buildRules adds the rules of installed CSVs and Subscriptions, and of all entries they can
// lead to.
func (b *ruleBuilder) buildRules(subscriptions []*v1alpha1.Subscription) error {
	subscribed := map[string]bool{}
	for _, sub := range subscriptions {
		subscribed[sub.Status.InstalledCSV] = true
	}

	for _, e := range b.listInstalledEntries() {
		n := b.variableForEntry(e)
		if !subscribed[e.Name] {
			b.addRule(rule{kind: mandatory, variable: n, text: constantText("clusterserviceversion " + e.Name + " exists and is not referenced by a subscription")})
		}
	}

	for _, sub := range subscriptions {
		if err := b.addSubscriptionRules(sub); err != nil {
			return err
		}
	}

	// Dependencies of an entry add more entries.
	for n := 0; ; n++ {
		if n == len(b.entries) {
			b.addUniquenessGroups()
			return nil
		}
		if e := b.entries[n]; e != nil {
			if err := b.addDependencyRules(n, e); err != nil {
				return err
			}
		}
	}
}

// listInstalledEntries returns the installed entries, sorted by name.
func (b *ruleBuilder) listInstalledEntries() []*Entry {
	var all []*Entry
	for _, name := range b.installed.packageNames {
		all = append(all, b.installed.packages[name].all...)
	}
	slices.SortFunc(all, func(x, y *Entry) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// addSubscriptionRules adds the rules of a Subscription: one of its candidates or the installed
// entry must be chosen.
func (b *ruleBuilder) addSubscriptionRules(sub *v1alpha1.Subscription) error {
	n := b.newVariable(nil)
	b.addRule(rule{kind: mandatory, variable: n, text: constantText("subscription " + sub.Name + " exists")})
	current := b.findInstalledEntry(sub)
	options, reason, err := b.listCandidates(sub, current)
	if err != nil {
		return err
	}
	if reason == "" && len(options) == 0 && current == nil {
		reason = "no operators found matching the criteria of subscription " + sub.Name
	}

	b.subscriptionTargets = append(b.subscriptionTargets, subscriptionTarget{subscription: sub, optionCount: len(options), unsatisfiableReason: reason})
	if reason != "" {
		b.addRule(rule{kind: prohibited, variable: n, text: constantText(reason)})
		return nil
	}

	variables := make([]int, 0, len(options)+1)
	for _, e := range options {
		variables = append(variables, b.variableForEntry(e))
		if current == nil {
			continue
		}
		b.replacedNames[e] = current.Name
		b.addRule(rule{kind: conflicts, variable: b.variableForEntry(e), options: []int{b.variableForEntry(current)}, text: constantText(e.displayID() + " conflicts with " + current.displayID())})
	}

	if current != nil {
		options, variables = append(options, current), append(variables, b.variableForEntry(current))
	}

	b.addRule(rule{kind: requires, variable: n, options: variables, text: func() string { return formatSubscriptionRule(sub.Name, options) }})
	return nil
}

// formatSubscriptionRule returns the text of the rule that a Subscription requires one of its
// options.
func formatSubscriptionRule(name string, options []*Entry) string {
	ids := make([]string, len(options))
	for i, e := range options {
		ids[i] = e.displayID()
	}

	last := len(ids) - 1
	if last == 0 {
		return fmt.Sprintf("subscription %s requires %s", name, ids[0])
	}

	return fmt.Sprintf("subscription %s requires at least one of %s or %s", name, strings.Join(ids[:last], ", "), ids[last])
}

// findInstalledEntry returns the entry that a Subscription has installed. It returns nil if
// there is none, or if the Subscription now names another package.
func (b *ruleBuilder) findInstalledEntry(sub *v1alpha1.Subscription) *Entry {
	if sub.Status.InstalledCSV == "" {
		return nil
	}

	for _, p := range b.installed.packages {
		for _, e := range p.all {
			if e.Name == sub.Status.InstalledCSV && (e.Package == "" || e.Package == sub.Spec.Package) {
				return e
			}
		}
	}

	return nil
}

// listCandidates returns the entries that a Subscription can install next, best first, without
// the installed one. If there cannot be any, it returns the reason.
func (b *ruleBuilder) listCandidates(sub *v1alpha1.Subscription, current *Entry) (options []*Entry, reason string, err error) {
	spec := &sub.Spec
	source := types.NamespacedName{Namespace: spec.CatalogSourceNamespace, Name: spec.CatalogSource}
	at := slices.IndexFunc(b.Offers, func(o Offer) bool { return o.Catalog == source })
	if at < 0 || b.Offers[at].Len() == 0 {
		return nil, fmt.Sprintf("no operators found from catalog %s in namespace %s referenced by subscription %s", source.Name, source.Namespace, sub.Name), nil
	}

	offered := b.Offers[at].packages[spec.Package]
	if offered == nil {
		return nil, fmt.Sprintf("no operators found in package %s in the catalog referenced by subscription %s", spec.Package, sub.Name), nil
	}

	channels := offered.channels
	if spec.Channel != "" {
		channels = slices.DeleteFunc(slices.Clone(channels), func(c *channel) bool { return c.name != spec.Channel })
		if len(channels) == 0 {
			return nil, fmt.Sprintf("no operators found in channel %s of package %s in the catalog referenced by subscription %s", spec.Channel, spec.Package, sub.Name), nil
		}
	}

	if current == nil && spec.StartingCSV != "" {
		options = offered.findEntriesByName(spec.StartingCSV, channels)
		if len(options) == 0 {
			reason = fmt.Sprintf("no operators found with name %s in channel %s of package %s in the catalog referenced by subscription %s",
				spec.StartingCSV, spec.Channel, spec.Package, sub.Name)
		}
		return options, reason, nil
	}

	for _, c := range channels {
		if c.orderErr != nil {
			return nil, "", fmt.Errorf("subscription %s/%s: %w", sub.Namespace, sub.Name, c.orderErr)
		}
		for _, e := range c.entries {
			if current == nil || e.isUpdateOf(current) {
				options = append(options, e)
			}
		}
	}

	return options, "", nil
}

// findEntriesByName returns the entries with a bundle name, in the order of the channels.
func (p *packageEntries) findEntriesByName(name string, channels []*channel) []*Entry {
	var found []*Entry
	for _, c := range channels {
		for _, e := range p.all {
			if e.Name == name && e.Channel == c.name {
				found = append(found, e)
			}
		}
	}

	return found
}

// addDependencyRules adds the rules for the requirements of an entry. A deprecated bundle
// cannot be chosen at all.
func (b *ruleBuilder) addDependencyRules(n int, e *Entry) error {
	if e.snapshot != b.installed && e.isProhibited() {
		b.addRule(rule{kind: prohibited, variable: n, text: constantText("bundle " + e.displayID() + " is deprecated")})
		return nil
	}

	requirements, err := e.snapshot.parseRequirements(e)
	if err != nil {
		return fmt.Errorf("parse requirements of bundle %s: %w", e.displayID(), err)
	}

	for _, requirement := range requirements {
		var options []int
		for _, option := range b.findProviders(e, requirement) {
			options = append(options, b.variableForEntry(option))
		}
		b.addRule(rule{kind: requires, variable: n, options: options, text: constantText("bundle " + e.Name + " requires an operator " + requirement.text)})
	}

	return nil
}

// findProviders returns the entries that meet a requirement of an entry, best first: installed
// entries, then entries of the same catalog, then entries of the other catalogs.
func (b *ruleBuilder) findProviders(e *Entry, r *requirement) []*Entry {
	found := slices.Clone(b.installed.findProviders(r))
	for _, o := range b.Offers {
		if o.Snapshot == e.snapshot {
			found = append(found, o.findProviders(r)...)
		}
	}

	for _, o := range b.Offers {
		if o.Snapshot != e.snapshot {
			found = append(found, o.findProviders(r)...)
		}
	}
	return found
}

// addUniquenessGroups adds the rules that each API has one provider and each package one
// bundle.
func (b *ruleBuilder) addUniquenessGroups() {
	byPackage, byAPI := map[string][]int{}, map[schema.GroupVersionKind][]int{}
	for n, e := range b.entries {
		if e == nil {
			continue
		}
		if e.Package != "" {
			byPackage[e.Package] = append(byPackage[e.Package], n)
		}
		for _, gvk := range e.providedGVKs() {
			byAPI[gvk] = append(byAPI[gvk], n)
		}
	}

	for _, name := range sortedKeys(byPackage, strings.Compare) {
		b.addConflictGroup(byPackage[name], "originate from package "+name, "there can be only one operator from package "+name)
	}

	for _, gvk := range sortedKeys(byAPI, func(x, y schema.GroupVersionKind) int { return strings.Compare(x.String(), y.String()) }) {
		api := fmt.Sprintf("%s (%s/%s)", gvk.Kind, gvk.Group, gvk.Version)
		b.addConflictGroup(byAPI[gvk], "provide "+api, "there can be only one provider of "+api)
	}
}

func sortedKeys[M ~map[K]V, K comparable, V any](m M, compare func(K, K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}

// addConflictGroup adds a conflict group unless it has fewer than two members.
func (b *ruleBuilder) addConflictGroup(members []int, have, summary string) {
	if len(members) < 2 {
		return
	}

	b.groups = append(b.groups, conflictGroup{
		members: members, summary: summary,
		describePair: func(x, y int) string {
			ids := []string{b.entries[x].displayID(), b.entries[y].displayID()}
			slices.Sort(ids)
			return ids[0] + " and " + ids[1] + " " + have
		},
	})
}

// solveAndExplain searches for a choice and drops the entries that nothing needs. If there is
// no choice, it returns the explanation as an error.
func (b *ruleBuilder) solveAndExplain() ([]Choice, error) {
	ruleCount := len(b.rules)
	chosen, contradiction, err := b.findBestChoice()
	switch {
	case err != nil:
		return nil, err
	case contradiction != nil:
		return nil, b.explainContradiction(contradiction)
	}

	b.rules = b.rules[:ruleCount]
	var choices []Choice
	for _, n := range b.pruneUnneeded(chosen) {
		e := b.entries[n]
		if e == nil || e.snapshot == b.installed {
			continue
		}

		replaces, ok := b.replacedNames[e]
		if !ok {
			replaces = e.Replaces
		}

		choices = append(choices, Choice{Entry: e, Replaces: replaces})
	}

	return choices, nil
}
