package resolution

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Outcome is the result of a resolution that carries out what is possible.
type Outcome struct {
	// Choices are the bundles to install, as in Resolve.
	Choices []Choice
	// Failures are the reasons why Subscriptions could not be resolved, by the names of the Subscriptions. What they have
	// installed stays as it is, and so does what depends on another choice for them.
	Failures map[string]error
}

// SubscriptionError is an error of what a single Subscription asks for.
type SubscriptionError struct {
	// Subscription is the name of the Subscription.
	Subscription string
	Err          error
}

// Error implements error.
func (e *SubscriptionError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SubscriptionError) Unwrap() error { return e.Err }

// isolation is what a resolution leaves as it is.
type isolation struct {
	// subscriptions are the names of Subscriptions whose installed operators are kept. No other bundle of their packages
	// is chosen.
	subscriptions map[string]bool
	// csvs are the names of installed CSVs whose own requirements do not count.
	csvs map[string]bool
}

// ResolveEach resolves like Resolve, but a Subscription that cannot be resolved does not prevent others from being
// resolved. If Subscriptions contradict each other, those that have nothing installed fail, or all if all have. A catalog
// that could not be read fails only Subscriptions whose result may depend on it.
func ResolveEach(in Input) *Outcome {
	o := &Outcome{Failures: map[string]error{}}
	isolated := isolation{subscriptions: map[string]bool{}, csvs: map[string]bool{}}
	o.failSubscriptionsToUnread(&in, isolated)
	for {
		b, chosen, err := solveNamespace(in, isolated)
		if err == nil {
			o.Choices = b.listChoices(chosen)
			if linkChoices(b, o.Choices, chosen); !o.failUnsettled(b, chosen, isolated) {
				return o
			}
			continue
		}

		if !o.isolateCause(&in, isolated, err) {
			o.failRest(&in, err)
			return o
		}
	}
}

// failSubscriptionsToUnread fails the Subscriptions to catalogs that could not be read.
func (o *Outcome) failSubscriptionsToUnread(in *Input, isolated isolation) {
	for _, sub := range in.Subscriptions {
		for _, unread := range in.Unread {
			if unread.Catalog == catalogOf(sub) {
				o.Failures[sub.Name], isolated.subscriptions[sub.Name] = unread.Err, true
			}
		}
	}
}

func catalogOf(sub *v1alpha1.Subscription) types.NamespacedName {
	return types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}
}

// failRest fails all Subscriptions that have not failed yet.
func (o *Outcome) failRest(in *Input, err error) {
	o.Choices = nil
	for _, sub := range in.Subscriptions {
		if o.Failures[sub.Name] == nil {
			o.Failures[sub.Name] = err
		}
	}
}

// isolateCause fails the Subscriptions that cause an error. If there are none, it disregards the requirements of the
// installed CSVs that cause it. It returns false if the cause is unknown.
func (o *Outcome) isolateCause(in *Input, isolated isolation, err error) bool {
	var single *SubscriptionError
	var contradiction *UnsatisfiableError
	switch {
	case errors.As(err, &single):
		o.Failures[single.Subscription], isolated.subscriptions[single.Subscription] = err, true
		return true
	case !errors.As(err, &contradiction):
		return false
	}

	culprits := contradiction.newSubscriptions
	if len(culprits) == 0 {
		culprits = contradiction.Subscriptions
	}
	for _, name := range culprits {
		o.Failures[name], isolated.subscriptions[name] = err, true
		if contradiction.isProviderMissing && len(in.Unread) > 0 {
			o.Failures[name] = in.Unread[0].Err
		}
	}

	isolatesCSV := false
	if len(culprits) == 0 {
		for _, name := range contradiction.csvs {
			isolatesCSV = isolatesCSV || !isolated.csvs[name]
			isolated.csvs[name] = true
		}
	}
	return len(culprits) > 0 || isolatesCSV
}

// failUnsettled fails the Subscriptions whose result might be another one if all catalogs could be read: those that did
// not get their best option, and those that need a dependency for which a catalog that could not be read has precedence.
// It returns false if there are none.
func (o *Outcome) failUnsettled(b *ruleBuilder, chosen []int, isolated isolation) bool {
	if len(b.Unread) == 0 {
		return false
	}

	isChosen := map[int]bool{}
	for _, c := range chosen {
		isChosen[c] = true
	}
	unsettled := Dependents(o.Choices, comesAfterUnread(b, o.Choices))
	fails := false
	for i := range b.targets {
		t := &b.targets[i]
		if len(t.options) == 0 {
			continue
		}
		best := b.candidates[t.options[0].first]
		isUnsettled := slices.ContainsFunc(t.options, func(e *Entry) bool { return isChosen[b.candidates[e.first]] && unsettled[e.Name] })
		if isChosen[best] && !isUnsettled {
			continue
		}
		name := t.subscription.Name
		o.Failures[name], isolated.subscriptions[name], fails = b.Unread[0].Err, true, true
	}
	return fails
}

// comesAfterUnread returns a predicate for the choices that are dependencies from a catalog after which a catalog comes
// that could not be read.
func comesAfterUnread(b *ruleBuilder, choices []Choice) func(*Choice) bool {
	requested := map[*Entry]bool{}
	for i := range b.targets {
		for _, e := range b.targets[i].options {
			requested[e.first] = true
		}
	}

	return func(c *Choice) bool {
		if requested[c.first] || isFromCatalogOfDependents(c, choices) {
			return false
		}
		at := slices.IndexFunc(b.Offers, func(o Offer) bool { return o.Catalog == c.Catalog() })
		return at >= 0 && slices.ContainsFunc(b.Unread, func(u UnreadCatalog) bool {
			return compareCatalogs(b.Namespace, u.Catalog, u.Priority, b.Offers[at].Catalog, b.Offers[at].Priority) < 0
		})
	}
}

// isFromCatalogOfDependents reports whether all choices that need a choice are from its catalog, which they prefer.
func isFromCatalogOfDependents(c *Choice, choices []Choice) bool {
	isNeeded := false
	for i := range choices {
		if slices.Contains(choices[i].Needs, c.Name) {
			if isNeeded = true; choices[i].Catalog() != c.Catalog() {
				return false
			}
		}
	}
	return isNeeded
}

// heldPackages returns the packages of isolated Subscriptions, with the names of these, as far as no other Subscription
// asks for them.
func (s isolation) heldPackages(subscriptions []*v1alpha1.Subscription) map[string]string {
	held := map[string]string{}
	for _, sub := range subscriptions {
		if s.subscriptions[sub.Name] {
			held[sub.Spec.Package] = sub.Name
		}
	}
	maps.DeleteFunc(held, func(pkg, _ string) bool {
		return slices.ContainsFunc(subscriptions, func(sub *v1alpha1.Subscription) bool {
			return sub.Spec.Package == pkg && !s.subscriptions[sub.Name]
		})
	})
	return held
}

// subscriptionTo returns the name of the isolated Subscription that has installed a CSV, or "".
func (s isolation) subscriptionTo(csv string, subscriptions []*v1alpha1.Subscription) string {
	for _, sub := range subscriptions {
		if sub.Status.InstalledCSV == csv && s.subscriptions[sub.Name] {
			return sub.Name
		}
	}
	return ""
}

// joinNames appends the names that a list does not have yet, and sorts it.
func joinNames(names []string, more ...string) []string {
	names = slices.DeleteFunc(append(names, more...), func(name string) bool { return name == "" })
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}
