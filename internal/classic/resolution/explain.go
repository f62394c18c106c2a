package resolution

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/resolve/solve"
)

// maxAdvice limits the sentences of advice in an explanation.
const maxAdvice = 5

// errSearchAborted is returned when the solver reaches its limit of work.
var errSearchAborted = errors.New("resolution was aborted because too many operators conflict with each other: " +
	"set the channels of the Subscriptions, or remove Subscriptions")

// reason is why a rule exists.
type reason struct {
	kind reasonKind
	// target is the index of the Subscription's target.
	target int
	// entry is the entry that the rule is about; for onePerPackage, any one of the package.
	entry *Entry
	// other is the installed entry that replacesInstalled is about.
	other *Entry
	// dependency is the dependency that bundleRequires is about.
	dependency *dependency
	// isUnmet is set if no catalog meets the dependency.
	isUnmet bool
	// api is the API that oneProvider is about.
	api *schema.GroupVersionKind
	// subscription is the Subscription that packageHeld is about.
	subscription string
	// err is the error that bundleInvalid is about.
	err error
}

type reasonKind int

const (
	csvExists reasonKind = iota
	subscriptionExists
	subscriptionUnsatisfiable
	subscriptionRequires
	replacesInstalled
	bundleDeprecated
	bundleRequires
	onePerPackage
	oneProvider
	packageHeld
	bundleInvalid
)

// explainFailure returns the error for an error of the solver: an UnsatisfiableError if there is
// no choice.
func (b *ruleBuilder) explainFailure(err error) error {
	var contradiction *solve.Contradiction
	if !errors.As(err, &contradiction) {
		return errSearchAborted
	}

	pairs := map[int]int{}
	for _, r := range contradiction.Reasons {
		pairs[r.Number]++
	}

	e := &UnsatisfiableError{}
	for _, r := range contradiction.Reasons {
		e.Reasons = append(e.Reasons, b.describeReason(r, pairs[r.Number]))
		if advice := b.adviceForReason(&b.reasons[r.Number]); advice != "" && !slices.Contains(e.advice, advice) && len(e.advice) < maxAdvice {
			e.advice = append(e.advice, advice)
		}
		e.attributeReason(&b.reasons[r.Number], b.targets)
	}

	e.Reasons = joinNames(e.Reasons)
	return e
}

// attributeReason adds the Subscription or the CSV that a reason is about.
func (e *UnsatisfiableError) attributeReason(r *reason, targets []target) {
	e.isProviderMissing = e.isProviderMissing || r.isUnmet
	switch r.kind {
	case csvExists:
		e.csvs = joinNames(e.csvs, r.entry.Name)
	case subscriptionExists, subscriptionUnsatisfiable, subscriptionRequires:
		t := &targets[r.target]
		e.Subscriptions = joinNames(e.Subscriptions, t.subscription.Name)
		if t.current == nil {
			e.newSubscriptions = joinNames(e.newSubscriptions, t.subscription.Name)
		}
	}
}

// describeReason returns the text of a reason. A reason that is about several pairs of bundles is
// summarized.
func (b *ruleBuilder) describeReason(in solve.Reason, pairs int) string {
	r := &b.reasons[in.Number]
	switch r.kind {
	case packageHeld:
		return fmt.Sprintf("bundle %s is not chosen because subscription %s cannot be resolved", r.entry.displayID(), r.subscription)
	case bundleInvalid:
		return r.err.Error()
	case csvExists:
		if name := b.isolated.subscriptionTo(r.entry.Name, b.Subscriptions); name != "" {
			return fmt.Sprintf("clusterserviceversion %s is kept because subscription %s cannot be resolved", r.entry.Name, name)
		}
		return "clusterserviceversion " + r.entry.Name + " exists and is not referenced by a subscription"
	case subscriptionExists:
		return "subscription " + b.targets[r.target].subscription.Name + " exists"
	case subscriptionUnsatisfiable:
		return b.targets[r.target].unsatisfiableReason
	case subscriptionRequires:
		return b.targets[r.target].describeOptions()
	case replacesInstalled:
		return r.entry.displayID() + " conflicts with " + r.other.displayID()
	case bundleDeprecated:
		return "bundle " + r.entry.displayID() + " is deprecated"
	case bundleRequires:
		return "bundle " + r.entry.Name + " requires an operator " + r.dependency.text
	}

	pkg := r.entry.Package
	have, summary := "originate from package "+pkg, "there can be only one operator from package "+pkg
	if r.kind == oneProvider {
		api := fmt.Sprintf("%s (%s/%s)", r.api.Kind, r.api.Group, r.api.Version)
		have, summary = "provide "+api, "there can be only one provider of "+api
	}
	if pairs > 1 {
		return summary
	}

	ids := []string{b.entries[in.A].displayID(), b.entries[in.B].displayID()}
	slices.Sort(ids)
	return ids[0] + " and " + ids[1] + " " + have
}

// describeOptions returns the text of the rule that the Subscription requires one of its options.
func (t *target) describeOptions() string {
	var ids []string
	for _, e := range t.options {
		ids = append(ids, e.displayID())
	}
	if t.current != nil {
		ids = append(ids, t.current.displayID())
	}

	last := len(ids) - 1
	if last == 0 {
		return fmt.Sprintf("subscription %s requires %s", t.subscription.Name, ids[0])
	}
	return fmt.Sprintf("subscription %s requires at least one of %s or %s", t.subscription.Name, strings.Join(ids[:last], ", "), ids[last])
}

// adviceForReason returns what an administrator can do about a reason of a contradiction, or "".
func (b *ruleBuilder) adviceForReason(r *reason) string {
	switch {
	case r.kind == packageHeld:
		return fmt.Sprintf("Correct Subscription %q first, whose condition ResolutionFailed contains the reason.", r.subscription)
	case r.kind == csvExists && b.isolated.subscriptionTo(r.entry.Name, b.Subscriptions) != "":
		return fmt.Sprintf("Correct Subscription %q first, whose condition ResolutionFailed contains the reason.", b.isolated.subscriptionTo(r.entry.Name, b.Subscriptions))
	case r.kind == csvExists:
		return fmt.Sprintf("ClusterServiceVersion %q is kept as it is because no Subscription refers to it: create a Subscription to a channel "+
			"of package %q that contains it, or delete it if it is not needed.", r.entry.Name, r.entry.Package)
	case r.kind == bundleRequires && r.isUnmet:
		return fmt.Sprintf("No catalog available to this namespace provides what %q requires: add such a catalog to this namespace "+
			"or to the namespace of global catalogs, or install another version.", r.entry.Name)
	case r.kind == subscriptionUnsatisfiable:
		return b.adviceForSubscription(&b.targets[r.target])
	case r.kind == bundleDeprecated:
		return fmt.Sprintf("The catalog prohibits bundle %q: choose another version with spec.channel or spec.startingCSV, or delete its ClusterServiceVersion if it is installed.", r.entry.Name)
	case r.kind == oneProvider:
		return "Operators that provide the same API cannot be installed in the same namespace: remove one of them, or install it in another namespace."
	}

	return ""
}

// adviceForSubscription returns advice for a Subscription that cannot be satisfied.
func (b *ruleBuilder) adviceForSubscription(t *target) string {
	sub := t.subscription
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
