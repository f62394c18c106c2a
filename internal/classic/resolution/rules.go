package resolution

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/resolve/solve"
)

// ruleBuilder translates the input into rules for the solver. The candidates are Subscriptions,
// which are all chosen, and bundles. A bundle in several channels is one candidate.
type ruleBuilder struct {
	Input
	rules solve.Problem

	installed *Snapshot
	isolated  isolation
	targets   []target
	// held are the packages of which nothing is chosen from a catalog, with the names of their Subscriptions.
	held map[string]string
	// candidates are the candidates of bundles by their first entry.
	candidates map[*Entry]int
	// entries has the entry that each candidate was added for; nil for other candidates.
	entries []*Entry
	// offered has the entry by which each candidate is the provider of a dependency, or nil.
	offered []*Entry

	packages  map[string]int // the groups of bundles of a package
	apis      map[schema.GroupVersionKind]int
	providers map[providersKey]providers
	reasons   []reason // by number
}

// providersKey identifies a dependency of the bundles of a catalog, which prefer their catalog.
type providersKey struct {
	snapshot *Snapshot
	key      string
}

// providers are the bundles that meet a dependency.
type providers struct {
	// formula is met if one of them is chosen.
	formula int
	isNone  bool
}

func newRuleBuilder(in Input, installed *Snapshot, isolated isolation) *ruleBuilder {
	in.Offers = slices.Clone(in.Offers)
	return &ruleBuilder{
		Input: in, installed: installed, isolated: isolated, candidates: map[*Entry]int{}, packages: map[string]int{}, apis: map[schema.GroupVersionKind]int{}, providers: map[providersKey]providers{},
	}
}

// numberReason returns the number of a new reason.
func (b *ruleBuilder) numberReason(r reason) int {
	b.reasons = append(b.reasons, r)
	return len(b.reasons) - 1
}

// candidateFor returns the candidate of an entry's bundle, which is created on first use. At most
// one bundle of each package is chosen, and at most one provider of each API.
func (b *ruleBuilder) candidateFor(e *Entry) int {
	c, ok := b.candidates[e.first]
	if ok {
		return c
	}

	c = b.rules.NewCandidate()
	more := c + 1 - len(b.entries)
	b.entries, b.offered = append(b.entries, make([]*Entry, more)...), append(b.offered, make([]*Entry, more)...)
	b.entries[c] = e
	b.candidates[e.first] = c
	if b.hasNoRequirements(e) {
		return c
	}
	if e.Package != "" {
		group, ok := b.packages[e.Package]
		if !ok {
			group = b.rules.NewGroup(b.numberReason(reason{kind: onePerPackage, entry: e}))
			b.packages[e.Package] = group
		}
		b.rules.Join(group, c)
	}

	for _, gvk := range e.provider.APIs() {
		group, ok := b.apis[gvk]
		if !ok {
			api := gvk
			group = b.rules.NewGroup(b.numberReason(reason{kind: oneProvider, entry: e, api: &api}))
			b.apis[gvk] = group
		}
		b.rules.Join(group, c)
	}
	return c
}

// buildRules adds the rules of Subscriptions and installed CSVs, and of all entries they can
// lead to. The rules of Subscriptions come first, so that their preferences do.
func (b *ruleBuilder) buildRules(subscriptions []*v1alpha1.Subscription) error {
	subscribed := map[string]bool{}
	for _, sub := range subscriptions {
		if b.isolated.subscriptions[sub.Name] {
			continue
		}
		subscribed[sub.Status.InstalledCSV] = true
		if err := b.addSubscriptionRules(sub); err != nil {
			return err
		}
	}

	for _, e := range b.listInstalledEntries() {
		if !subscribed[e.Name] {
			b.rules.AddMandatory(b.candidateFor(e), b.numberReason(reason{kind: csvExists, entry: e}))
		}
	}

	b.held = b.isolated.heldPackages(subscriptions)
	// The solver considers few bundles of a catalog, and asks for the rules of these.
	b.rules.Expand = b.addBundleRules
	return b.checkOptions()
}

// checkOptions returns an error if the dependencies of a bundle that a Subscription has installed or could choose cannot
// be parsed. The Subscription must not get another version silently.
func (b *ruleBuilder) checkOptions() error {
	for i := range b.targets {
		t := &b.targets[i]
		for _, e := range append([]*Entry{t.current}, t.options...) {
			if e == nil || b.hasNoRequirements(e) || e.isProhibited() {
				continue
			}
			if _, err := e.snapshot.parseDependencies(e); err != nil {
				return &SubscriptionError{Subscription: t.subscription.Name, Err: newDependencyError(e, err)}
			}
		}
	}
	return nil
}

func newDependencyError(e *Entry, err error) error {
	return fmt.Errorf("parse requirements of bundle %s: %w", e.displayID(), err)
}

// hasNoRequirements reports whether an entry is an installed one whose own requirements do not count.
func (b *ruleBuilder) hasNoRequirements(e *Entry) bool {
	return e.snapshot == b.installed && b.isolated.csvs[e.Name]
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

// addSubscriptionRules adds the rules of a Subscription: one of its options or the installed
// entry must be chosen.
func (b *ruleBuilder) addSubscriptionRules(sub *v1alpha1.Subscription) error {
	t := target{subscription: sub, candidate: b.rules.NewCandidate(), current: b.findInstalledEntry(sub)}
	b.rules.AddMandatory(t.candidate, b.numberReason(reason{kind: subscriptionExists, target: len(b.targets)}))
	var err error
	if t.options, t.unsatisfiableReason, err = b.listCandidates(sub, t.current); err != nil {
		return err
	}
	if t.unsatisfiableReason == "" && len(t.options) == 0 && t.current == nil {
		t.unsatisfiableReason = "no operators found matching the criteria of subscription " + sub.Name
	}

	b.targets = append(b.targets, t)
	if t.unsatisfiableReason != "" {
		b.rules.AddProhibition(t.candidate, b.numberReason(reason{kind: subscriptionUnsatisfiable, target: len(b.targets) - 1}))
		return nil
	}

	candidates := make([]int, 0, len(t.options)+1)
	for _, e := range t.options {
		c := b.candidateFor(e)
		candidates = append(candidates, c)
		if t.current != nil {
			b.rules.AddConflict(c, b.candidateFor(t.current), b.numberReason(reason{kind: replacesInstalled, entry: e, other: t.current}))
		}
	}

	if t.current != nil {
		candidates = append(candidates, b.candidateFor(t.current))
	}
	b.rules.AddRequirement(t.candidate, candidates, b.numberReason(reason{kind: subscriptionRequires, target: len(b.targets) - 1}))
	return nil
}

// addBundleRules adds the rules of a bundle: those of its dependencies, or that it is not chosen. Candidates that are
// Subscriptions have their rules already.
func (b *ruleBuilder) addBundleRules(candidate int) {
	if candidate >= len(b.entries) || b.entries[candidate] == nil {
		return
	}

	e := b.entries[candidate]
	switch {
	case b.held[e.Package] != "" && e.snapshot != b.installed:
		b.rules.AddProhibition(candidate, b.numberReason(reason{kind: packageHeld, entry: e, subscription: b.held[e.Package]}))
		return
	case b.hasNoRequirements(e):
		return
	case e.isProhibited():
		b.rules.AddProhibition(candidate, b.numberReason(reason{kind: bundleDeprecated, entry: e}))
		return
	}

	dependencies, err := e.snapshot.parseDependencies(e)
	if err != nil {
		b.rules.AddProhibition(candidate, b.numberReason(reason{kind: bundleInvalid, entry: e, err: newDependencyError(e, err)}))
		return
	}
	for _, d := range dependencies {
		found := b.providersOf(e, d)
		b.rules.AddRequirement(candidate, []int{found.formula}, b.numberReason(reason{kind: bundleRequires, entry: e, dependency: d, isUnmet: found.isNone}))
	}
}

// providersOf returns the providers that meet a dependency of an entry.
func (b *ruleBuilder) providersOf(e *Entry, d *dependency) providers {
	key := providersKey{e.snapshot, d.key}
	found, ok := b.providers[key]
	if ok {
		return found
	}

	entries := b.findProviders(e, d)
	candidates := make([]int, len(entries))
	for i, provider := range entries {
		c := b.candidateFor(provider)
		candidates[i] = c
		if b.offered[c] == nil {
			b.offered[c] = provider
		}
	}

	found = providers{formula: b.rules.AnyOf(candidates), isNone: len(entries) == 0}
	b.providers[key] = found
	return found
}

// findProviders returns the entries that meet a dependency of an entry, best first: installed
// entries, then entries of the same catalog, then entries of the other catalogs.
func (b *ruleBuilder) findProviders(e *Entry, d *dependency) []*Entry {
	found := slices.Clone(b.installed.findProviders(d))
	for _, o := range b.Offers {
		if o.Snapshot == e.snapshot {
			found = append(found, o.findProviders(d)...)
		}
	}

	for _, o := range b.Offers {
		if o.Snapshot != e.snapshot {
			found = append(found, o.findProviders(d)...)
		}
	}
	return found
}

// listChoices returns the chosen bundles that are not installed.
func (b *ruleBuilder) listChoices(chosen []int) []Choice {
	wanted := map[int]Choice{}
	for i := range b.targets {
		t := &b.targets[i]
		for _, e := range t.options {
			c := b.candidates[e.first]
			if _, ok := wanted[c]; ok {
				continue
			}
			choice := Choice{Entry: e, Replaces: e.Replaces}
			if t.current != nil {
				choice.Replaces = t.current.Name
			}
			wanted[c] = choice
		}
	}

	var choices []Choice
	for _, c := range chosen {
		if c >= len(b.entries) || b.entries[c] == nil || b.entries[c].snapshot == b.installed {
			continue
		}
		choice, ok := wanted[c]
		if !ok {
			choice = Choice{Entry: b.offered[c], Replaces: b.offered[c].Replaces}
		}
		choices = append(choices, choice)
	}
	return choices
}

func sortedKeys[M ~map[K]V, K comparable, V any](m M, compare func(K, K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
