package subscription

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

var (
	yesterday = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	today     = metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
)

func catalogAt(name, address, reason string) v1alpha1.CatalogSource {
	return v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "olm", Name: name},
		Spec:       v1alpha1.CatalogSourceSpec{Address: address}, Status: v1alpha1.CatalogSourceStatus{Reason: reason},
	}
}

func TestUpdateCatalogHealth(t *testing.T) {
	good, other := catalogAt("c", "c:1", ""), catalogAt("d", "d:1", "")
	unhealthy, otherUnhealthy, none := catalogAt("c", "c:1", "RegistryServerError"), catalogAt("d", "d:1", "ConfigMapError"), catalogAt("d", "", "")
	unsound := catalogAt("c", "c:1", "InvalidIntervalError")
	const allWell = "all available catalogsources are healthy"
	tests := []struct {
		name          string
		before, after []v1alpha1.CatalogSource
		status        corev1.ConditionStatus
		reason        string
		message       string
	}{
		{"the first ones", nil, []v1alpha1.CatalogSource{good}, "False", "AllCatalogSourcesHealthy", allWell},
		{"the first one is unhealthy", nil, []v1alpha1.CatalogSource{unhealthy}, "True", "UnhealthyCatalogSourceFound", "targeted catalogsource olm/c unhealthy"},
		{"all are healthy", []v1alpha1.CatalogSource{good}, []v1alpha1.CatalogSource{good}, "False", "AllCatalogSourcesHealthy", allWell},
		{"an invalid interval", []v1alpha1.CatalogSource{unsound}, []v1alpha1.CatalogSource{unsound}, "False", "AllCatalogSourcesHealthy", allWell},
		{"one was added", []v1alpha1.CatalogSource{good}, []v1alpha1.CatalogSource{good, other}, "False", "CatalogSourcesAdded", allWell},
		{"one was deleted", []v1alpha1.CatalogSource{good, other}, []v1alpha1.CatalogSource{good}, "False", "CatalogSourcesDeleted", allWell},
		{"the targeted one was deleted", []v1alpha1.CatalogSource{good, other}, []v1alpha1.CatalogSource{other}, "True", "CatalogSourcesDeleted", "targeted catalogsource olm/c missing"},
		{"it is still missing", []v1alpha1.CatalogSource{other}, []v1alpha1.CatalogSource{other}, "True", "UnhealthyCatalogSourceFound", "targeted catalogsource olm/c missing"},
		{"it becomes unhealthy", []v1alpha1.CatalogSource{good}, []v1alpha1.CatalogSource{unhealthy}, "True", "CatalogSourcesUpdated", "targeted catalogsource olm/c unhealthy"},
		{"it is unhealthy", []v1alpha1.CatalogSource{unhealthy}, []v1alpha1.CatalogSource{unhealthy}, "True", "UnhealthyCatalogSourceFound", "targeted catalogsource olm/c unhealthy"},
		{"another is unhealthy", []v1alpha1.CatalogSource{good, otherUnhealthy}, []v1alpha1.CatalogSource{good, otherUnhealthy}, "True", "UnhealthyCatalogSourceFound", "catalogsource olm/d, which dependencies may come from, is unhealthy: see its status"},
		{"another is missing", []v1alpha1.CatalogSource{good, none}, []v1alpha1.CatalogSource{good, none}, "True", "UnhealthyCatalogSourceFound", "catalogsource olm/d, which dependencies may come from, is unhealthy: see its status"},
		{"there is none", nil, nil, "True", "NoCatalogSourcesFound", "dependency resolution requires at least one catalogsource"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sub := &v1alpha1.Subscription{Spec: v1alpha1.SubscriptionSpec{CatalogSource: "c", CatalogSourceNamespace: "olm"}}
			updateCatalogHealth(sub, test.before, yesterday)
			updateCatalogHealth(sub, test.after, today)
			got := findCondition(&sub.Status, v1alpha1.SubscriptionCatalogSourcesUnhealthy)
			if got.Status != test.status || got.Reason != test.reason || got.Message != test.message {
				t.Errorf("condition %+v", *got)
			}

			for _, h := range sub.Status.CatalogHealth {
				isNew := true
				for i := range test.before {
					isNew = isNew && (test.before[i].Name != h.CatalogSourceRef.Name || isCatalogHealthy(&test.before[i]) != h.Healthy)
				}
				if want := map[bool]metav1.Time{true: today, false: yesterday}[isNew]; !h.LastUpdated.Equal(&want) {
					t.Errorf("%s was last updated %s, want %s", h.CatalogSourceRef.Name, h.LastUpdated, want)
				}
			}
		})
	}
}

func planIn(phase v1alpha1.InstallPlanPhase) *v1alpha1.InstallPlan {
	return &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "install-x"}, Status: v1alpha1.InstallPlanStatus{Phase: phase}}
}

func TestRecordInstallPlan(t *testing.T) {
	failed := planIn(v1alpha1.InstallPlanPhaseFailed)
	failed.Status.Conditions = []v1alpha1.InstallPlanCondition{{Type: "Installed", Status: "False", Reason: "InstallComponentFailed", Message: "because"}}
	const retried = "Remove the cause: InstallPlan install-x is retried at least every 5 minutes. To have another plan created, delete it."
	tests := []struct {
		name          string
		plan          *v1alpha1.InstallPlan
		state         v1alpha1.SubscriptionState
		kind, reason  string
		message       string
		wantStartOver bool
	}{
		{"new", planIn(""), "UpgradePending", "InstallPlanPending", "InstallPlanNotYetReconciled", "", false},
		{"planning", planIn("Planning"), "UpgradePending", "InstallPlanPending", "Planning", "", false},
		{"installing", planIn("Installing"), "UpgradePending", "InstallPlanPending", "Installing", "", false},
		{"waiting for a user", planIn("RequiresApproval"), "UpgradePending", "InstallPlanPending", "RequiresApproval", "", false},
		{"complete", planIn("Complete"), "AtLatestKnown", "", "", "", false},
		{"failed", failed, "UpgradePending", "InstallPlanFailed", "InstallComponentFailed", "because. " + retried, false},
		{"failed without a message", planIn("Failed"), "UpgradePending", "InstallPlanFailed", "InstallPlanFailed", "the InstallPlan failed. " + retried, false},
		{"deleted", nil, "UpgradePending", "InstallPlanMissing", "ReferencedInstallPlanNotFound", "", true},
		{"deleted when it was complete", nil, "AtLatestKnown", "InstallPlanMissing", "ReferencedInstallPlanNotFound", "", false},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status := &v1alpha1.SubscriptionStatus{State: test.state, CurrentCSV: "a.v1", InstallPlanRef: &corev1.ObjectReference{Name: "install-x"}}
			for _, kind := range []string{"InstallPlanPending", "InstallPlanFailed", "InstallPlanMissing"} {
				setConditionTrue(status, yesterday, kind, "Old", "")
			}

			if got := recordInstallPlan(status, test.plan, today); got != test.wantStartOver || (status.InstallPlanRef == nil) != test.wantStartOver || (status.CurrentCSV == "") != test.wantStartOver {
				t.Errorf("got started over %t: %+v", got, status)
			}

			var want []v1alpha1.SubscriptionCondition
			if test.kind != "" {
				want = []v1alpha1.SubscriptionCondition{{Type: test.kind, Status: "True", Reason: test.reason, Message: test.message, LastTransitionTime: &today}}
			}
			if diff := cmp.Diff(want, status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got)\n%s", diff)
			}
		})
	}
}

func TestRecordInstalledCSV(t *testing.T) {
	tests := []struct {
		name        string
		isThere     bool
		phase       v1alpha1.InstallPlanPhase
		failForward bool
		want        v1alpha1.SubscriptionState
		installed   string
	}{
		{"it exists", true, "Complete", false, "AtLatestKnown", "a.v2"},
		{"it does not exist yet", false, "Installing", false, "UpgradePending", "a.v1"},
		{"its plan has failed", false, "Failed", false, "UpgradePending", "a.v1"},
		{"its plan has failed and may be replaced", false, "Failed", true, "UpgradeFailed", "a.v1"},
		{"it was deleted", false, "Complete", true, "UpgradePending", "a.v1"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status := &v1alpha1.SubscriptionStatus{CurrentCSV: "a.v2", InstalledCSV: "a.v1"}
			isThere := func(name string) bool { return test.isThere && name == "a.v2" }
			if !recordInstalledCSV(status, planIn(test.phase), isThere, test.failForward) || status.State != test.want || status.InstalledCSV != test.installed {
				t.Errorf("status %+v", status)
			}
			if recordInstalledCSV(status, planIn(test.phase), isThere, test.failForward) {
				t.Error("got a change, want none")
			}
		})
	}

	sub := &v1alpha1.Subscription{Spec: v1alpha1.SubscriptionSpec{StartingCSV: "a.v1"}}
	if !adoptInstallPlan(sub, planIn("Failed"), true) || sub.Status.State != v1alpha1.SubscriptionStateFailed || sub.Status.CurrentCSV != "a.v1" || sub.Status.InstallPlanRef.Name != "install-x" {
		t.Errorf("a Subscription that a plan has created: got %+v", sub.Status)
	}
}

func TestNewInstallPlan(t *testing.T) {
	named := func(name string, approval v1alpha1.Approval, generation int) *v1alpha1.Subscription {
		return &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubscriptionSpec{InstallPlanApproval: approval},
			Status: v1alpha1.SubscriptionStatus{InstallPlanGeneration: generation},
		}
	}

	with := func(generation int) v1alpha1.InstallPlan {
		return v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{Generation: generation}}
	}
	tests := []struct {
		name          string
		subs          []*v1alpha1.Subscription
		plans         []v1alpha1.InstallPlan
		needsApproval bool
		want          v1alpha1.InstallPlanSpec
	}{
		{"the first", []*v1alpha1.Subscription{named("a", "", 0)}, nil, false, v1alpha1.InstallPlanSpec{Approval: "Automatic", Approved: true, Generation: 1}},
		{"another", []*v1alpha1.Subscription{named("a", "Automatic", 1)}, []v1alpha1.InstallPlan{with(1), with(3)}, false, v1alpha1.InstallPlanSpec{Approval: "Automatic", Approved: true, Generation: 4}},
		{"all plans were deleted", []*v1alpha1.Subscription{named("a", "something", 7)}, nil, false, v1alpha1.InstallPlanSpec{Approval: "Automatic", Approved: true, Generation: 8}},
		{"one wants approval", []*v1alpha1.Subscription{named("a", "Automatic", 0), named("b", "Manual", 0)}, nil, true, v1alpha1.InstallPlanSpec{Approval: "Manual", Generation: 1}},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := &view{namespace: "ns", subs: append([]*v1alpha1.Subscription{named("other", "Manual", 0)}, test.subs...), plans: test.plans}
			plan := newInstallPlan(v, &unit{owners: test.subs, needsApproval: test.needsApproval}, []*v1alpha1.Step{
				{Resource: v1alpha1.StepResource{Kind: "ClusterServiceVersion", Name: "a.v1"}}, {Resource: v1alpha1.StepResource{Kind: "Role", Name: "r"}},
			})
			test.want.ClusterServiceVersionNames = []string{"a.v1"}
			if diff := cmp.Diff(test.want, plan.Spec); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(plan.OwnerReferences) != len(test.subs) {
				t.Errorf("owners %+v", plan.OwnerReferences)
			}
		})
	}
}

func TestSyncMetrics(t *testing.T) {
	in := func(namespace, installed string) *v1alpha1.Subscription {
		return &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "counted"},
			Spec:       v1alpha1.SubscriptionSpec{Channel: "ch", Package: "p", InstallPlanApproval: "Manual"}, Status: v1alpha1.SubscriptionStatus{InstalledCSV: installed},
		}
	}

	labels := func(installed string) []string { return []string{"counted", installed, "ch", "p", "Manual"} }
	var c syncMetrics
	defer c.recordSync("x", nil) // The metrics are those of the process.
	c.recordSync("x", []*v1alpha1.Subscription{in("x", "p.v1")})
	c.recordSync("y", []*v1alpha1.Subscription{in("y", "p.v1")})
	if n := testutil.ToFloat64(syncCounter.WithLabelValues(labels("p.v1")...)); n != 2 {
		t.Errorf("got a count of %v", n)
	}
	if n := testutil.ToFloat64(subscriptionGauge); n != 2 {
		t.Errorf("got %v Subscriptions", n)
	}

	c.recordSync("x", []*v1alpha1.Subscription{in("x", "p.v2")})
	c.recordSync("y", nil)
	if syncCounter.DeleteLabelValues(labels("p.v1")...) {
		t.Error("the metric of the former version still exists")
	}
	if n := testutil.ToFloat64(syncCounter.WithLabelValues(labels("p.v2")...)); n != 1 {
		t.Errorf("got a count of %v", n)
	}
	if n := testutil.ToFloat64(subscriptionGauge); n != 1 {
		t.Errorf("got %v Subscriptions", n)
	}
}

// While an operator is replaced by one whose requirements are not met, the update is in progress until its InstallPlan has
// been complete for a minute: olm-operator may not have checked the requirements again.
func TestDecideAfterInstallPlan(t *testing.T) {
	old := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "p.v1"}}
	old.Status.Phase = v1alpha1.CSVPhaseReplacing
	newer := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "p.v2"}}
	newer.Spec.Replaces = old.Name
	newer.Status.Phase, newer.Status.Reason = v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

	for name, test := range map[string]struct {
		complete         time.Duration // ago; 0 means that the plan is not complete
		wantUpdating     bool
		wantRequeueAfter time.Duration
	}{
		"the plan has failed":                {0, false, 0},
		"the plan has just been complete":    {20 * time.Second, true, 40 * time.Second},
		"the plan is complete for a minute":  {time.Minute, false, 0},
		"the plan is complete for some days": {48 * time.Hour, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			plan := v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "plan"}}
			condition := v1alpha1.InstallPlanCondition{Type: v1alpha1.InstallPlanInstalled, Status: corev1.ConditionFalse}
			plan.Status.Phase = v1alpha1.InstallPlanPhaseFailed
			if test.complete > 0 {
				plan.Status.Phase, condition.Status = v1alpha1.InstallPlanPhaseComplete, corev1.ConditionTrue
			}
			condition.LastTransitionTime = new(metav1.NewTime(now.Add(-test.complete)))
			plan.Status.Conditions = []v1alpha1.InstallPlanCondition{condition}

			sub := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "sub"}, Spec: v1alpha1.SubscriptionSpec{Package: "p"}}
			sub.Status = v1alpha1.SubscriptionStatus{CurrentCSV: newer.Name, InstalledCSV: newer.Name, State: v1alpha1.SubscriptionStateAtLatest}
			d := decide(&view{
				now: metav1.NewTime(now), before: []*v1alpha1.Subscription{sub}, groups: make([]operatorsv1.OperatorGroup, 1),
				csvs: []v1alpha1.ClusterServiceVersion{old, newer}, plans: []v1alpha1.InstallPlan{plan}, related: map[string]related{"sub": {}},
			})
			isUpdating := resolution.IsUpdateInProgress(d.csvs, d.isInstalling())
			if isUpdating != test.wantUpdating || d.requeueAfter != test.wantRequeueAfter {
				t.Errorf("updating %t, requeued after %s; want %t, %s", isUpdating, d.requeueAfter, test.wantUpdating, test.wantRequeueAfter)
			}
		})
	}
}

// While every Subscription waits for a new InstallPlan that is executed, the statuses stay as they are.
func TestDecideDuringExecution(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		age   time.Duration
		phase v1alpha1.InstallPlanPhase
		// hasOther is true when there is a Subscription that does not wait.
		hasOther         bool
		wantState        v1alpha1.SubscriptionState
		wantRequeueAfter time.Duration
	}{
		"a new plan":                     {time.Second, v1alpha1.InstallPlanPhaseInstalling, false, v1alpha1.SubscriptionStateUpgradePending, time.Second},
		"a plan that takes longer":       {2 * time.Second, v1alpha1.InstallPlanPhaseInstalling, false, v1alpha1.SubscriptionStateAtLatest, 0},
		"a plan of another clock":        {-time.Hour, v1alpha1.InstallPlanPhaseInstalling, false, v1alpha1.SubscriptionStateAtLatest, 0},
		"a complete plan":                {time.Second, v1alpha1.InstallPlanPhaseComplete, false, v1alpha1.SubscriptionStateAtLatest, 0},
		"a failed plan":                  {time.Second, v1alpha1.InstallPlanPhaseFailed, false, v1alpha1.SubscriptionStateAtLatest, 0},
		"a new plan, and another is new": {time.Second, v1alpha1.InstallPlanPhaseInstalling, true, v1alpha1.SubscriptionStateAtLatest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planIn(test.phase)
			plan.CreationTimestamp, plan.Status.Plan = metav1.NewTime(now.Add(-test.age)), []*v1alpha1.Step{{}}
			sub := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "sub"}, Status: v1alpha1.SubscriptionStatus{
				CurrentCSV: "p.v1", State: v1alpha1.SubscriptionStateUpgradePending, InstallPlanRef: &corev1.ObjectReference{Name: plan.Name},
			}}
			v := &view{
				now: metav1.NewTime(now), before: []*v1alpha1.Subscription{sub}, groups: make([]operatorsv1.OperatorGroup, 1),
				csvs: []v1alpha1.ClusterServiceVersion{{ObjectMeta: metav1.ObjectMeta{Name: "p.v1"}}}, related: map[string]related{"sub": {plan: plan}},
			}
			if test.hasOther {
				v.before = append(v.before, &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
			}

			d := decide(v)
			if got := d.subs[0].Status.State; got != test.wantState || d.requeueAfter != test.wantRequeueAfter || d.resolves {
				t.Errorf("state %s, requeued after %s, resolves %t; want %s, %s, false", got, d.requeueAfter, d.resolves, test.wantState, test.wantRequeueAfter)
			}
		})
	}
}

// The next step for the Subscriptions of a namespace. Facts are not changed.
func TestDecide(t *testing.T) {
	groups := []operatorsv1.OperatorGroup{{ObjectMeta: metav1.ObjectMeta{Name: "first"}}, {ObjectMeta: metav1.ObjectMeta{Name: "second"}}}
	installed := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "p.v1"}}
	installed.Status.Phase = v1alpha1.CSVPhaseSucceeded
	atLatest := v1alpha1.SubscriptionStatus{CurrentCSV: "p.v1", InstalledCSV: "p.v1", State: v1alpha1.SubscriptionStateAtLatest}
	waiting := v1alpha1.SubscriptionStatus{
		CurrentCSV: "p.v2", State: v1alpha1.SubscriptionStateUpgradePending, InstallPlanRef: &corev1.ObjectReference{Name: "plan"},
	}
	unfinished := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "plan"}}
	pending := unfinished.DeepCopy()
	pending.Status.Phase, pending.Status.Plan = v1alpha1.InstallPlanPhaseRequiresApproval, []*v1alpha1.Step{{}}
	executing := pending.DeepCopy()
	executing.Status.Phase = v1alpha1.InstallPlanPhaseInstalling
	newer := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "p.v2"}}
	newer.Spec.Replaces, newer.Status.Phase = "p.v1", v1alpha1.CSVPhaseInstalling
	for name, c := range map[string]struct {
		status   v1alpha1.SubscriptionStatus
		related  related
		groups   int
		csvs     []v1alpha1.ClusterServiceVersion
		resolves bool
		obsolete int
		failed   string
		requeue  time.Duration
	}{
		"a new Subscription is resolved":           {groups: 1, resolves: true},
		"an installed operator is resolved":        {status: atLatest, groups: 1, resolves: true},
		"without an OperatorGroup":                 {status: atLatest, failed: "found 0 operatorGroups, expected 1. Create an OperatorGroup in namespace ns."},
		"with two OperatorGroups":                  {status: atLatest, groups: 2, failed: "found 2 operatorGroups, expected 1. Delete all but one of the OperatorGroups first, second in namespace ns."},
		"while an operator is being replaced":      {status: atLatest, groups: 1, csvs: []v1alpha1.ClusterServiceVersion{newer}, resolves: true},
		"while its plan waits for approval":        {status: waiting, related: related{plan: pending}, groups: 1, resolves: true},
		"while its plan is executed":               {status: waiting, related: related{plan: executing}, groups: 1, requeue: 2 * time.Second},
		"while the steps of its plan are awaited":  {status: waiting, related: related{awaitsSteps: time.Second}, groups: 1, requeue: time.Second},
		"its plan is missing, the status is reset": {status: waiting, groups: 1},
		"its plan is obsolete":                     {status: waiting, related: related{obsolete: unfinished}, groups: 1, obsolete: 1},
		"a changed status is patched first":        {status: v1alpha1.SubscriptionStatus{CurrentCSV: "p.v1"}, groups: 1},
	} {
		t.Run(name, func(t *testing.T) {
			sub := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "sub"}, Spec: v1alpha1.SubscriptionSpec{Package: "p"}, Status: *c.status.DeepCopy()}
			v := &view{
				namespace: "ns", before: []*v1alpha1.Subscription{sub}, csvs: append(c.csvs, installed),
				related: map[string]related{"sub": c.related}, groups: groups[:c.groups],
			}
			d := decide(v)
			failed := ""
			if condition := findCondition(&d.subs[0].Status, v1alpha1.SubscriptionResolutionFailed); condition != nil {
				failed = condition.Message
			}
			if d.resolves != c.resolves || len(d.obsolete) != c.obsolete || failed != c.failed {
				t.Errorf("resolves %t, deletes %d plans, fails with %q; want %t, %d and %q", d.resolves, len(d.obsolete), failed, c.resolves, c.obsolete, c.failed)
			}
			if d.requeueAfter != c.requeue {
				t.Errorf("got a reconcile after %s, want %s", d.requeueAfter, c.requeue)
			}
			if diff := cmp.Diff(c.status, sub.Status); diff != "" {
				t.Errorf("the facts were changed (-want +got):\n%s", diff)
			}
		})
	}
}
