package resolution

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

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

// IsIn reports whether a channel contains the bundle.
func (c *Choice) IsIn(channel string) bool {
	return c.Channel == channel || c.snapshot.Find(c.Package, channel, c.Name) != nil
}

// UnsatisfiableError reports that no choice is possible.
type UnsatisfiableError struct {
	// Reasons contradict each other. Without any one of them a choice would be possible.
	Reasons []string
	// Subscriptions are the names of the Subscriptions that the reasons are about.
	Subscriptions []string

	advice []string
}

// Error implements error. It lists the reasons.
func (e *UnsatisfiableError) Error() string {
	return "constraints not satisfiable: " + strings.Join(e.Reasons, ", ")
}

// Advice returns sentences that name the Subscriptions and tell an administrator what to do.
func (e *UnsatisfiableError) Advice() string {
	advice := strings.Join(e.advice, " ")
	if advice == "" {
		advice = "Change spec.channel or spec.startingCSV of a Subscription, or install one of the operators in another namespace."
	}

	quoted := make([]string, len(e.Subscriptions))
	isNamed := true
	for i, name := range e.Subscriptions {
		quoted[i] = strconv.Quote(name)
		isNamed = isNamed && strings.Contains(advice, "Subscription "+quoted[i])
	}

	switch {
	case isNamed:
		return advice
	case len(quoted) == 1:
		return "Subscription " + quoted[0] + " cannot be satisfied. " + advice
	}
	return "The Subscriptions " + strings.Join(quoted, " and ") + " cannot be satisfied together. " + advice
}

// Resolve chooses the operators of a namespace and returns those that are not installed yet.
// Bundles that Subscriptions ask for come before their dependencies. The result is empty if
// nothing has to be installed.
//
// The preferences of Subscriptions, in the order of their names, come before those of dependencies. An UnsatisfiableError persists until the input changes.
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

	b := newRuleBuilder(in, present)
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

	chosen, err := b.rules.Solve()
	if err != nil {
		return nil, b.explainFailure(err)
	}
	return b.listChoices(chosen), nil
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
