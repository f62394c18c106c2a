package resolution

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

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
	// Unread are the catalogs that could not be read. ResolveEach does without them; Resolve ignores them.
	Unread []UnreadCatalog
	// InstallsPlan is set while an InstallPlan of the namespace is executed.
	InstallsPlan bool
}

// UnreadCatalog is a catalog that could not be read.
type UnreadCatalog struct {
	Catalog  types.NamespacedName
	Priority int
	Err      error
}

// Choice is a bundle to install.
type Choice struct {
	*Entry
	// Replaces is the name of the CSV that the bundle replaces, or "".
	Replaces string
	// Needs are the names of the other chosen bundles without which the bundle must not be installed.
	Needs []string
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
	// newSubscriptions are those of the Subscriptions that have nothing installed, csvs the installed CSVs that the
	// reasons are about.
	newSubscriptions, csvs []string
	// isProviderMissing is set if a reason is that no catalog meets a dependency.
	isProviderMissing bool
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
	b, chosen, err := solveNamespace(in, isolation{})
	if err != nil {
		return nil, err
	}
	return b.listChoices(chosen), nil
}

// solveNamespace chooses the operators of a namespace without those that are isolated.
func solveNamespace(in Input, isolated isolation) (b *ruleBuilder, chosen []int, err error) {
	csvs, err := selectActiveCSVs(in.CSVs, in.FailForward, in.InstallsPlan)
	if err != nil {
		return nil, nil, err
	}

	subscriptions := slices.SortedFunc(slices.Values(in.Subscriptions), func(a, b *v1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
	present, err := newInstalledSnapshot(in.Namespace, csvs, subscriptions)
	if err != nil {
		return nil, nil, err
	}

	b = newRuleBuilder(in, present, isolated)
	slices.SortFunc(b.Offers, func(x, y Offer) int {
		return compareCatalogs(in.Namespace, x.Catalog, x.Priority, y.Catalog, y.Priority)
	})
	if err := b.buildRules(subscriptions); err != nil {
		return nil, nil, err
	}

	chosen, err = b.rules.Solve()
	if err != nil {
		return nil, nil, b.explainFailure(err)
	}
	return b, chosen, nil
}

// compareCatalogs orders the catalogs that dependencies come from, best first.
func compareCatalogs(own string, x types.NamespacedName, xPriority int, y types.NamespacedName, yPriority int) int {
	return cmp.Or(
		cmp.Compare(yPriority, xPriority),
		compareOwnNamespaceFirst(own, x.Namespace, y.Namespace),
		strings.Compare(x.Name, y.Name),
	)
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
