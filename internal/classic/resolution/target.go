package resolution

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// target is what a Subscription can install.
type target struct {
	subscription *v1alpha1.Subscription
	candidate    int
	// current is the installed entry, or nil.
	current *Entry
	// options are the entries that can be installed next, best first.
	options []*Entry
	// unsatisfiableReason is set if nothing can be installed.
	unsatisfiableReason string
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

	// An installed bundle that was deleted is preferred, because its version is that of the stored data.
	if current == nil && sub.Status.InstalledCSV != "" && !b.installed.hasBundle(sub.Status.InstalledCSV) {
		options = offered.findEntriesByName(sub.Status.InstalledCSV, channels)
	}

	if current == nil && len(options) == 0 && spec.StartingCSV != "" {
		options = offered.findEntriesByName(spec.StartingCSV, channels)
		if len(options) == 0 {
			reason = fmt.Sprintf("no operators found with name %s in channel %s of package %s in the catalog referenced by subscription %s",
				spec.StartingCSV, spec.Channel, spec.Package, sub.Name)
		}
		return options, reason, nil
	}

	if options, err = appendUpdates(options, channels, current); err != nil {
		return nil, "", &SubscriptionError{Subscription: sub.Name, Err: fmt.Errorf("subscription %s/%s: %w", sub.Namespace, sub.Name, err)}
	}
	return options, "", nil
}

// appendUpdates appends the entries of channels that update an entry, or all if it is nil, without those that are
// options already.
func appendUpdates(options []*Entry, channels []*channel, current *Entry) ([]*Entry, error) {
	isOption := sets.New(options...)
	for _, c := range channels {
		if c.orderErr != nil {
			return nil, c.orderErr
		}
		for _, e := range c.entries {
			if (current == nil || e.isUpdateOf(current)) && !isOption.Has(e) {
				isOption.Insert(e)
				options = append(options, e)
			}
		}
	}
	return options, nil
}

// findEntriesByName returns the entries with a bundle name, in the order of the channels.
func (p *packageEntries) findEntriesByName(name string, channels []*channel) []*Entry {
	order := make(map[string]int, len(channels))
	for i, c := range channels {
		order[c.name] = i
	}

	var found []*Entry
	for _, e := range p.all {
		if _, ok := order[e.Channel]; ok && e.Name == name {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(x, y *Entry) int { return cmp.Compare(order[x.Channel], order[y.Channel]) })

	return found
}
