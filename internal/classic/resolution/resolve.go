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

// Offer is a catalog that operators of a namespace may come from.
type Offer struct {
	*Snapshot
	// Priority of the catalog: the higher, the sooner a dependency is taken from it.
	Priority int
}

// Input is what a choice is made of.
type Input struct {
	Namespace string
	Offers    []Offer
	// Subscriptions of the namespace.
	Subscriptions []*v1alpha1.Subscription
	// CSVs of the namespace, copies among them or not.
	CSVs []v1alpha1.ClusterServiceVersion
	// FailForward reports whether operators that failed may be replaced.
	FailForward bool
}

// Choice is a bundle that is to be installed.
type Choice struct {
	*Entry
	// Replaces is the ClusterServiceVersion that it takes the place of; empty when there is none.
	Replaces string
}

// UnsatisfiableError says that no choice is possible.
type UnsatisfiableError struct {
	// Reasons contradict each other; without any one of them there would be a choice.
	Reasons []string

	advice []string
}

// Error lists the reasons.
func (e *UnsatisfiableError) Error() string {
	return "constraints not satisfiable: " + strings.Join(e.Reasons, ", ")
}

// Advice says in sentences what a person can do about it.
func (e *UnsatisfiableError) Advice() string { return strings.Join(e.advice, " ") }

// Resolve chooses the operators of a namespace. It gives those that are to be installed, what
// Subscriptions ask for before what that needs; none means that all is as it should be. An error of type
// UnsatisfiableError stays until something changes.
func Resolve(in Input) ([]Choice, error) {
	csvs, err := standing(in.CSVs, in.FailForward)
	if err != nil {
		return nil, err
	}

	subscriptions := slices.SortedFunc(slices.Values(in.Subscriptions), func(a, b *v1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
	present, err := installed(in.Namespace, csvs, subscriptions)
	if err != nil {
		return nil, err
	}

	b := &builder{Input: in, present: present, numbers: map[*Entry]int{}, replaces: map[*Entry]string{}}
	slices.SortFunc(b.Offers, func(x, y Offer) int {
		return cmp.Or(
			cmp.Compare(y.Priority, x.Priority),
			compareOwn(in.Namespace, x.Catalog.Namespace, y.Catalog.Namespace),
			strings.Compare(x.Catalog.Name, y.Catalog.Name),
		)
	})
	if err := b.build(subscriptions); err != nil {
		return nil, err
	}

	return b.solve()
}

func compareOwn(own, a, b string) int {
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

// builder puts what is known into rules.
type builder struct {
	Input
	problem

	present *Snapshot
	// entries by number; nil for Subscriptions.
	entries  []*Entry
	numbers  map[*Entry]int
	replaces map[*Entry]string
	wants    []want
}

// want is what a Subscription may become.
type want struct {
	subscription *v1alpha1.Subscription
	options      int
	impossible   string
}

func (b *builder) add(r rule) {
	r.group = -1
	b.rules = append(b.rules, r)
}

func fixed(text string) func() string { return func() string { return text } }

func (b *builder) variable(e *Entry) int {
	b.entries = append(b.entries, e)
	b.variables = len(b.entries)
	return b.variables - 1
}

// number is the variable of an entry, which it gets when it is first met.
func (b *builder) number(e *Entry) int {
	n, ok := b.numbers[e]
	if !ok {
		n = b.variable(e)
		b.numbers[e] = n
	}
	return n
}

func (b *builder) build(subscriptions []*v1alpha1.Subscription) error {
	subscribed := map[string]bool{}
	for _, sub := range subscriptions {
		subscribed[sub.Status.InstalledCSV] = true
	}

	for _, e := range b.presentEntries() {
		n := b.number(e)
		if !subscribed[e.Name] {
			b.add(rule{sort: mandatory, of: n, text: fixed("clusterserviceversion " + e.Name + " exists and is not referenced by a subscription")})
		}
	}

	for _, sub := range subscriptions {
		if err := b.subscribe(sub); err != nil {
			return err
		}
	}

	// What an entry needs brings in more entries.
	for n := 0; ; n++ {
		if n == len(b.entries) {
			b.exclude()
			return nil
		}
		if e := b.entries[n]; e != nil {
			if err := b.depend(n, e); err != nil {
				return err
			}
		}
	}
}

func (b *builder) presentEntries() []*Entry {
	var all []*Entry
	for _, name := range b.present.names {
		all = append(all, b.present.packages[name].all...)
	}
	slices.SortFunc(all, func(x, y *Entry) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// subscribe adds what a Subscription asks for.
func (b *builder) subscribe(sub *v1alpha1.Subscription) error {
	n := b.variable(nil)
	b.add(rule{sort: mandatory, of: n, text: fixed("subscription " + sub.Name + " exists")})
	current := b.current(sub)
	options, impossible, err := b.candidates(sub, current)
	if err != nil {
		return err
	}
	if impossible == "" && len(options) == 0 && current == nil {
		impossible = "no operators found matching the criteria of subscription " + sub.Name
	}

	b.wants = append(b.wants, want{subscription: sub, options: len(options), impossible: impossible})
	if impossible != "" {
		b.add(rule{sort: prohibited, of: n, text: fixed(impossible)})
		return nil
	}

	numbers := make([]int, 0, len(options)+1)
	for _, e := range options {
		numbers = append(numbers, b.number(e))
		if current == nil {
			continue
		}
		b.replaces[e] = current.Name
		b.add(rule{sort: conflicts, of: b.number(e), options: []int{b.number(current)}, text: fixed(e.id() + " conflicts with " + current.id())})
	}

	if current != nil {
		options, numbers = append(options, current), append(numbers, b.number(current))
	}

	b.add(rule{sort: requires, of: n, options: numbers, text: func() string { return subscriptionText(sub.Name, options) }})
	return nil
}

func subscriptionText(name string, options []*Entry) string {
	ids := make([]string, len(options))
	for i, e := range options {
		ids[i] = e.id()
	}

	last := len(ids) - 1
	if last == 0 {
		return fmt.Sprintf("subscription %s requires %s", name, ids[0])
	}

	return fmt.Sprintf("subscription %s requires at least one of %s or %s", name, strings.Join(ids[:last], ", "), ids[last])
}

// current is what a Subscription has installed; nil when that is nothing, or of another package than it asks
// for by now.
func (b *builder) current(sub *v1alpha1.Subscription) *Entry {
	if sub.Status.InstalledCSV == "" {
		return nil
	}

	for _, p := range b.present.packages {
		for _, e := range p.all {
			if e.Name == sub.Status.InstalledCSV && (e.Package == "" || e.Package == sub.Spec.Package) {
				return e
			}
		}
	}

	return nil
}

// candidates are the entries that a Subscription can become next, the best first, without what it is; or why
// there cannot be any.
func (b *builder) candidates(sub *v1alpha1.Subscription, current *Entry) (options []*Entry, impossible string, err error) {
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
		options = offered.named(spec.StartingCSV, channels)
		if len(options) == 0 {
			impossible = fmt.Sprintf("no operators found with name %s in channel %s of package %s in the catalog referenced by subscription %s",
				spec.StartingCSV, spec.Channel, spec.Package, sub.Name)
		}
		return options, impossible, nil
	}

	for _, c := range channels {
		if c.err != nil {
			return nil, "", fmt.Errorf("subscription %s/%s: %w", sub.Namespace, sub.Name, c.err)
		}
		for _, e := range c.entries {
			if current == nil || e.isUpdateOf(current) {
				options = append(options, e)
			}
		}
	}

	return options, "", nil
}

// named returns the entries of a bundle, in the order of the channels.
func (p *pkg) named(name string, channels []*channel) []*Entry {
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

// depend adds what an entry needs of others.
func (b *builder) depend(n int, e *Entry) error {
	if e.in != b.present && e.isProhibited() {
		b.add(rule{sort: prohibited, of: n, text: fixed("bundle " + e.id() + " is deprecated")})
		return nil
	}

	needs, err := e.in.requirements(e)
	if err != nil {
		return fmt.Errorf("what bundle %s needs cannot be read: %w", e.id(), err)
	}

	for _, need := range needs {
		var options []int
		for _, option := range b.meeting(e, need) {
			options = append(options, b.number(option))
		}
		b.add(rule{sort: requires, of: n, options: options, text: fixed("bundle " + e.Name + " requires an operator " + need.text)})
	}

	return nil
}

// meeting are the entries that meet what an entry needs, the best first: what is installed, then its own
// catalog, then the others.
func (b *builder) meeting(e *Entry, need *requirement) []*Entry {
	found := slices.Clone(b.present.meeting(need))
	for _, o := range b.Offers {
		if o.Snapshot == e.in {
			found = append(found, o.meeting(need)...)
		}
	}

	for _, o := range b.Offers {
		if o.Snapshot != e.in {
			found = append(found, o.meeting(need)...)
		}
	}
	return found
}

// exclude adds that each API has one provider, and each package one bundle.
func (b *builder) exclude() {
	byPackage, byAPI := map[string][]int{}, map[schema.GroupVersionKind][]int{}
	for n, e := range b.entries {
		if e == nil {
			continue
		}
		if e.Package != "" {
			byPackage[e.Package] = append(byPackage[e.Package], n)
		}
		for _, gvk := range e.provides() {
			byAPI[gvk] = append(byAPI[gvk], n)
		}
	}

	for _, name := range sortedBy(byPackage, strings.Compare) {
		b.atMostOne(byPackage[name], "originate from package "+name, "there can be only one operator from package "+name)
	}

	for _, gvk := range sortedBy(byAPI, func(x, y schema.GroupVersionKind) int { return strings.Compare(x.String(), y.String()) }) {
		api := fmt.Sprintf("%s (%s/%s)", gvk.Kind, gvk.Group, gvk.Version)
		b.atMostOne(byAPI[gvk], "provide "+api, "there can be only one provider of "+api)
	}
}

func sortedBy[M ~map[K]V, K comparable, V any](m M, compare func(K, K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}

func (b *builder) atMostOne(members []int, have, summary string) {
	if len(members) < 2 {
		return
	}

	b.groups = append(b.groups, group{
		members: members, summary: summary,
		pair: func(x, y int) string {
			ids := []string{b.entries[x].id(), b.entries[y].id()}
			slices.Sort(ids)
			return ids[0] + " and " + ids[1] + " " + have
		},
	})
}

func (b *builder) solve() ([]Choice, error) {
	given := len(b.rules)
	chosen, contradiction, err := b.choose()
	switch {
	case err != nil:
		return nil, err
	case contradiction != nil:
		return nil, b.explain(contradiction)
	}

	b.rules = b.rules[:given]
	var choices []Choice
	for _, n := range b.leaner(chosen) {
		e := b.entries[n]
		if e == nil || e.in == b.present {
			continue
		}

		replaces, ok := b.replaces[e]
		if !ok {
			replaces = e.Replaces
		}

		choices = append(choices, Choice{Entry: e, Replaces: replaces})
	}

	return choices, nil
}
