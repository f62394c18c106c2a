package subscription

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
)

// newFacts returns the facts of an operator that runs, with the changes of a test.
func newFacts(edit func(*Facts)) *Facts {
	sub := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "kettles", Name: "kettle"}}
	sub.Spec = v1alpha1.SubscriptionSpec{CatalogSource: "home", CatalogSourceNamespace: "olm", Package: "kettle", Channel: "stable"}
	sub.Status = v1alpha1.SubscriptionStatus{CurrentCSV: "kettle.v1.0.0", InstalledCSV: "kettle.v1.0.0", State: v1alpha1.SubscriptionStateAtLatest}
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "kettles", Name: "kettle.v1.0.0"}}
	csv.Status.Phase = v1alpha1.CSVPhaseSucceeded
	plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "kettles", Name: "install-abcde"}}
	plan.Spec.ClusterServiceVersionNames = []string{"kettle.v1.0.0"}
	plan.Status.Phase = v1alpha1.InstallPlanPhaseComplete

	f := &Facts{
		Subscription: sub, CSV: csv, Plan: plan, Groups: make([]operatorsv1.OperatorGroup, 1),
		Catalog: &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "olm", Name: "home"}, Status: v1alpha1.CatalogSourceStatus{GRPCConnectionState: &v1alpha1.GRPCConnectionState{LastObservedState: "READY"}}},
		Package: &packagesv1.PackageManifest{Status: packagesv1.PackageManifestStatus{PackageStatus: packagesv1.PackageStatus{
			DefaultChannel: "stable", Channels: []packagesv1.PackageChannel{{Name: "stable"}, {Name: "beta"}},
		}}},
	}
	if edit != nil {
		edit(f)
	}
	return f
}

// addCondition adds a condition that is True.
func addCondition(f *Facts, kind, message string) {
	f.Subscription.Status.Conditions = append(f.Subscription.Status.Conditions, v1alpha1.SubscriptionCondition{Type: kind, Status: corev1.ConditionTrue, Message: message})
}

// notInstalled removes the operator from the facts.
func notInstalled(f *Facts) {
	f.CSV, f.Plan = nil, nil
	f.Subscription.Status = v1alpha1.SubscriptionStatus{}
}

func TestExplain(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Facts)
		want State
		// text is part of the explanation, advice part of the first advice.
		text, advice string
	}{
		{name: "runs", want: StateReady, text: "kettle.v1.0.0 runs, and is the newest version of its channel"},
		{name: "runs as the head", edit: func(f *Facts) {
			f.Package.Status.Channels[0] = packagesv1.PackageChannel{Name: "stable", CurrentCSV: "kettle.v1.0.0", Entries: []packagesv1.ChannelEntry{{Name: "kettle.v1.0.0"}}}
		}, want: StateReady, text: "kettle.v1.0.0 runs, and is the newest version of its channel"},
		{name: "update not planned yet", edit: func(f *Facts) {
			f.Package.Status.Channels[0] = packagesv1.PackageChannel{Name: "stable", CurrentCSV: "kettle.v1.1.0", Entries: []packagesv1.ChannelEntry{{Name: "kettle.v1.1.0"}, {Name: "kettle.v1.0.0"}}}
		}, want: StateReady, text: "kettle.v1.0.0 runs\nThe newest version of its channel is kettle.v1.1.0, and OLM has not planned the update yet."},
		{name: "update not planned yet in the default channel", edit: func(f *Facts) {
			f.Subscription.Spec.Channel = ""
			f.Package.Status.Channels[0] = packagesv1.PackageChannel{Name: "stable", CurrentCSV: "kettle.v1.1.0", Entries: []packagesv1.ChannelEntry{{Name: "kettle.v1.1.0"}, {Name: "kettle.v1.0.0"}}}
		}, want: StateReady, text: "The newest version of its channel is kettle.v1.1.0"},
		{name: "package server with an older catalog", edit: func(f *Facts) {
			f.Package.Status.Channels[0] = packagesv1.PackageChannel{Name: "stable", CurrentCSV: "kettle.v0.9.0", Entries: []packagesv1.ChannelEntry{{Name: "kettle.v0.9.0"}}}
		}, want: StateReady, text: "kettle.v1.0.0 runs, and is the newest version of its channel"},
		{name: "deprecated", edit: func(f *Facts) { addCondition(f, v1alpha1.SubscriptionChannelDeprecated, "use beta") }, want: StateReady, text: "Deprecated: use beta."},
		{name: "removed", edit: func(f *Facts) { f.Subscription.DeletionTimestamp = new(metav1.Now()) }, want: StateRemoving},
		{name: "not reconciled", edit: notInstalled, want: StateUnknown, advice: "catalog-operator"},
		{name: "no group", edit: func(f *Facts) { f.Groups = nil }, want: StateFailed, text: "has no OperatorGroup", advice: "Create an OperatorGroup"},
		{name: "two groups", edit: func(f *Facts) {
			f.Groups = []operatorsv1.OperatorGroup{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
		}, want: StateFailed, text: "2 OperatorGroups (a, b)", advice: "kubectl delete operatorgroup NAME -n kettles"},
		{name: "no catalog", edit: func(f *Facts) { notInstalled(f); f.Catalog = nil }, want: StateFailed, text: "no CatalogSource olm/home", advice: "kubectl get catalogsources"},
		{name: "catalog was deleted", edit: func(f *Facts) { f.Catalog = nil }, want: StateDegraded, text: "no CatalogSource olm/home"},
		{name: "catalog not read", edit: func(f *Facts) { f.Catalog, f.isCatalogUnread = nil, true }, want: StateReady},
		{name: "catalog down", edit: func(f *Facts) { notInstalled(f); f.Catalog.Status.GRPCConnectionState = nil }, want: StateFailed, text: "not connected", advice: "kubectl get pods -n olm -l olm.catalogSource=home"},
		{name: "unsatisfiable", edit: func(f *Facts) {
			notInstalled(f)
			addCondition(f, v1alpha1.SubscriptionResolutionFailed, "constraints not satisfiable")
			f.Siblings = make([]v1alpha1.Subscription, 2)
		}, want: StateFailed, text: "The 3 Subscriptions of namespace kettles are resolved together", advice: "Change or remove"},
		{name: "unknown channel", edit: func(f *Facts) {
			notInstalled(f)
			f.Subscription.Spec.Channel = "stabel"
			addCondition(f, v1alpha1.SubscriptionResolutionFailed, "no operators found in channel stabel")
		}, want: StateFailed, advice: "mainstay subscription upgrade kettle -n kettles --channel stable"},
		{name: "unknown package", edit: func(f *Facts) {
			notInstalled(f)
			f.Package = nil
			addCondition(f, v1alpha1.SubscriptionResolutionFailed, "no operators found in package kettle")
		}, want: StateFailed, advice: `catalog olm/home has no package "kettle"`},
		{name: "unpack failed", edit: func(f *Facts) {
			notInstalled(f)
			addCondition(f, v1alpha1.SubscriptionBundleUnpackFailed, "pull failed")
		}, want: StateFailed, text: "Pull failed.", advice: "pull the image"},
		{name: "unpacking", edit: func(f *Facts) { notInstalled(f); addCondition(f, v1alpha1.SubscriptionBundleUnpacking, "job runs") }, want: StateInstalling},
		{name: "approval", edit: func(f *Facts) {
			f.Plan.Status.Phase = v1alpha1.InstallPlanPhaseRequiresApproval
			f.Plan.Spec.ClusterServiceVersionNames = []string{"kettle.v1.1.0", "cup.v2.0.0"}
		}, want: StateAwaitingApproval, text: "the approval covers all of them", advice: "mainstay subscription approve kettle -n kettles"},
		{name: "plan failed", edit: func(f *Facts) {
			f.CSV = nil
			f.Subscription.Status.InstalledCSV = ""
			f.Plan.Status.Phase = v1alpha1.InstallPlanPhaseFailed
			f.Plan.Status.Conditions = []v1alpha1.InstallPlanCondition{{Type: v1alpha1.InstallPlanInstalled, Status: corev1.ConditionFalse, Message: "forbidden"}}
		}, want: StateFailed, text: "InstallPlan install-abcde: forbidden", advice: "To have another plan created instead: kubectl delete installplan install-abcde -n kettles"},
		{name: "plan runs", edit: func(f *Facts) { f.Plan.Status.Phase = v1alpha1.InstallPlanPhaseInstalling }, want: StateUpdating},
		{name: "operator removed", edit: func(f *Facts) { f.CSV = nil }, want: StateFailed, text: "ClusterServiceVersion kettle.v1.0.0 does not exist", advice: "mainstay subscription uninstall"},
		{name: "operator removed and reinstalled", edit: func(f *Facts) {
			f.CSV = nil
			addCondition(f, v1alpha1.SubscriptionCSVMissing, "kettle.v1.0.0 was deleted")
		}, want: StateInstalling, text: "Kettle.v1.0.0 was deleted.", advice: "To uninstall it instead: mainstay subscription uninstall"},
		{name: "older channel", edit: func(f *Facts) {
			addCondition(f, v1alpha1.SubscriptionUpdatePathMissing, "set spec.channel to fast")
		}, want: StateReady, text: "kettle.v1.0.0 runs, but its channel cannot update it\nSet spec.channel to fast."},
		{name: "being replaced, and marked so", edit: func(f *Facts) {
			f.Subscription.Status.CurrentCSV, f.CSV.Status.Phase = "kettle.v1.1.0", v1alpha1.CSVPhaseReplacing
		}, want: StateUpdating, text: "kettle.v1.0.0 is being replaced by kettle.v1.1.0"},
		{name: "being replaced", edit: func(f *Facts) { f.Subscription.Status.CurrentCSV = "kettle.v1.1.0" }, want: StateUpdating},
		{name: "requirements", edit: func(f *Facts) {
			f.Subscription.Status.InstalledCSV = ""
			f.CSV.Status.Phase, f.CSV.Status.Message = v1alpha1.CSVPhasePending, "one or more requirements couldn't be found"
			f.CSV.Status.RequirementStatus = []v1alpha1.RequirementStatus{{Kind: "CustomResourceDefinition", Name: "cups.example.com", Status: v1alpha1.RequirementNotPresent, Message: "CRD is not present"}}
		}, want: StateInstalling, text: "CustomResourceDefinition cups.example.com: NotPresent CRD is not present."},
		{name: "crash loop", edit: func(f *Facts) {
			f.CSV.Status.Phase, f.CSV.Status.Message = v1alpha1.CSVPhaseFailed, "deployment kettle not ready"
		}, want: StateDegraded, text: "Deployment kettle not ready.", advice: "mainstay subscription status kettle -n kettles"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFacts(tc.edit)
			v := assessFacts(f)
			e := ExplainFacts(*f)
			var text strings.Builder
			text.WriteString(e.Summary)
			for _, why := range e.Why {
				text.WriteString("\n" + why.Text)
			}
			if v.state != tc.want {
				t.Errorf("state %s, want %s: %s", v.state, tc.want, text.String())
			}
			if !strings.Contains(text.String(), tc.text) {
				t.Errorf("got no %q in the explanation:\n%s", tc.text, text.String())
			}
			if tc.advice != "" && (len(e.Do) == 0 || !strings.Contains(e.Do[0], tc.advice)) {
				t.Errorf("got no %q in the advice: %q", tc.advice, e.Do)
			}
			if v.state == StateReady && v.oneLineMessage() != "" {
				t.Errorf("got the message %q of a ready operator, want none", v.oneLineMessage())
			}
		})
	}
}
