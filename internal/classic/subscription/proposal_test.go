package subscription

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// Two Subscriptions to channels that hold the same bundle get the same ClusterServiceVersion, from
// one bundle of the plan.
func TestProposalForSubscriptionsToOnePackage(t *testing.T) {
	key := types.NamespacedName{Namespace: "olm", Name: "c"}
	entryIn := func(channel string) *resolution.Entry {
		return &resolution.Entry{Channel: channel, Bundle: &resolution.Bundle{Name: "p.v1.0.0", Package: "p", Version: "1.0.0"}}
	}
	snapshot := resolution.NewSnapshot(key, nil, []*resolution.Entry{entryIn("alpha"), entryIn("stable")})
	var subs []*v1alpha1.Subscription
	for _, channel := range []string{"alpha", "stable"} {
		sub := &v1alpha1.Subscription{Spec: v1alpha1.SubscriptionSpec{CatalogSource: key.Name, CatalogSourceNamespace: key.Namespace, Package: "p", Channel: channel}}
		sub.Name = "to-" + channel
		subs = append(subs, sub)
	}

	choices, err := resolution.Resolve(resolution.Input{Namespace: "ns", Offers: []resolution.Offer{{Snapshot: snapshot}}, Subscriptions: subs})
	if err != nil {
		t.Fatal(err)
	}

	p, err := newProposal(&view{namespace: "ns", subs: subs}, &unit{choices: choices})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.bundles) != 1 || len(p.subscriptions) != 0 {
		t.Errorf("got %d bundles and %d new Subscriptions, want 1 and 0", len(p.bundles), len(p.subscriptions))
	}
	if diff := cmp.Diff(map[string]string{"to-alpha": "p.v1.0.0", "to-stable": "p.v1.0.0"}, p.newCSVs); diff != "" {
		t.Errorf("new CSVs (-want +got)\n%s", diff)
	}
}
