package installplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

func TestServiceAccountFor(t *testing.T) {
	group := func(name, account, found string, namespaces ...string) operatorsv1.OperatorGroup {
		g := operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "tea", Name: name}}
		g.Spec.ServiceAccountName, g.Status.Namespaces = account, namespaces
		if found != "" {
			g.Status.ServiceAccountRef = &corev1.ObjectReference{Namespace: "tea", Name: found}
		}
		return g
	}

	for name, test := range map[string]struct {
		groups     []operatorsv1.OperatorGroup
		want, fail string
	}{
		"none":                   {nil, "", "no operator group found that is managing this namespace"},
		"one without targets":    {[]operatorsv1.OperatorGroup{group("a", "", "")}, "", "no operator group found that is managing this namespace"},
		"one":                    {[]operatorsv1.OperatorGroup{group("a", "", "", "tea")}, "", ""},
		"one for all namespaces": {[]operatorsv1.OperatorGroup{group("a", "", "", "")}, "", ""},
		"one with targets":       {[]operatorsv1.OperatorGroup{group("a", "x", ""), group("b", "", "", "tea")}, "", ""},
		"two":                    {[]operatorsv1.OperatorGroup{group("a", "", "", "tea"), group("b", "", "", "tea")}, "", "more than one operator group(s) are managing this namespace count=2"},
		"account":                {[]operatorsv1.OperatorGroup{group("a", "x", "x", "tea")}, "x", ""},
		"account missing":        {[]operatorsv1.OperatorGroup{group("a", "x", "", "tea")}, "", "please make sure the service account exists. sa=x operatorgroup=tea/a"},
		"account changed":        {[]operatorsv1.OperatorGroup{group("a", "x", "y", "tea")}, "", "please make sure the service account exists. sa=x operatorgroup=tea/a"},
		"account removed":        {[]operatorsv1.OperatorGroup{group("a", "", "y", "tea")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			account, err := serviceAccountFor(test.groups)
			got, fail := "", ""
			if account != nil {
				got = account.Name
			}
			if err != nil {
				fail = err.Error()
			}
			if got != test.want || fail != test.fail {
				t.Errorf("got %q, %q, want %q, %q", got, fail, test.want, test.fail)
			}
		})
	}
}

func TestIsIgnored(t *testing.T) {
	steps := []*v1alpha1.Step{{}}
	missing := []v1alpha1.BundleLookup{{Conditions: []v1alpha1.BundleLookupCondition{{Type: v1alpha1.BundleLookupNotPersisted, Status: "True"}}}}
	for name, test := range map[string]struct {
		status v1alpha1.InstallPlanStatus
		want   bool
	}{
		"new":            {v1alpha1.InstallPlanStatus{}, true},
		"no steps":       {v1alpha1.InstallPlanStatus{Phase: "Installing"}, true},
		"steps":          {v1alpha1.InstallPlanStatus{Phase: "Installing", Plan: steps}, false},
		"needs approval": {v1alpha1.InstallPlanStatus{Phase: "RequiresApproval", Plan: steps}, false},
		"packed bundles": {v1alpha1.InstallPlanStatus{Phase: "Installing", BundleLookups: missing}, true},
		"empty bundles":  {v1alpha1.InstallPlanStatus{Phase: "Installing", BundleLookups: []v1alpha1.BundleLookup{{}}}, false},
		"complete":       {v1alpha1.InstallPlanStatus{Phase: "Complete", Plan: steps}, true},
		"failed":         {v1alpha1.InstallPlanStatus{Phase: "Failed", Plan: steps}, false},
	} {
		if got := isIgnored(&v1alpha1.InstallPlan{Status: test.status}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestIsStepDone(t *testing.T) {
	for _, test := range []struct {
		kind   string
		status v1alpha1.StepStatus
		want   bool
	}{
		{"Role", "Unknown", false},
		{"Role", "NotPresent", false},
		{"Role", "NotCreated", false},
		{"Role", "UnsupportedResource", false},
		{"Role", "Present", true},
		{"Role", "Created", true},
		{"Role", "WaitingForApi", true},
		{"CustomResourceDefinition", "WaitingForApi", false},
		{"CustomResourceDefinition", "Created", true},
	} {
		if got := isStepDone(&v1alpha1.Step{Resource: v1alpha1.StepResource{Kind: test.kind}, Status: test.status}); got != test.want {
			t.Errorf("%s %s: %v", test.kind, test.status, got)
		}
	}
}

func TestIsRetried(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plan := &v1alpha1.InstallPlan{Status: v1alpha1.InstallPlanStatus{StartTime: &metav1.Time{Time: start}}}
	forbidden := fmt.Errorf("error creating role x: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, "x", nil))
	other := errors.New("the API server is tired")
	for name, test := range map[string]struct {
		err   error
		after time.Duration
		want  bool
	}{
		"soon":             {other, 59 * time.Second, true},
		"late":             {other, time.Minute, false},
		"forbidden, soon":  {forbidden, 0, true},
		"forbidden, later": {forbidden, time.Hour, true},
	} {
		if got := isRetried(plan, test.err, start.Add(test.after), time.Minute); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSelectOldPlans(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plan := func(name string, generation, age int) v1alpha1.InstallPlan {
		return v1alpha1.InstallPlan{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(day.AddDate(0, 0, -age))},
			Spec:       v1alpha1.InstallPlanSpec{Generation: generation},
		}
	}

	of := func(owner string, plan v1alpha1.InstallPlan) v1alpha1.InstallPlan {
		plan.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner)}}
		return plan
	}

	plans := []v1alpha1.InstallPlan{plan("f", 9, 0), plan("e", 2, 0), plan("d", 2, 9), plan("c", 1, 0), plan("b", 1, 0), plan("a", 8, 0)}
	for _, test := range []struct {
		plans []v1alpha1.InstallPlan
		want  []string
	}{
		{plans[:5], nil},
		{plans, []string{"b"}},
		{append([]v1alpha1.InstallPlan{plan("g", 7, 0), plan("h", 7, 1)}, plans...), []string{"b", "c", "d"}},
		{append(append([]v1alpha1.InstallPlan{}, plans...), plans...), []string{"b", "b", "c", "c", "d"}},
		// The plans of other Subscriptions do not count.
		{append([]v1alpha1.InstallPlan{of("x", plan("g", 1, 0)), of("y", plan("h", 1, 1))}, plans...), []string{"b"}},
	} {
		var got []string
		for _, p := range selectOldPlans(test.plans) {
			got = append(got, p.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestSetInstalledCondition(t *testing.T) {
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plan := &v1alpha1.InstallPlan{}
	setInstalledCondition(plan, "False", "InstallCheckFailed", "x", first)
	setInstalledCondition(plan, "False", "InstallCheckFailed", "x", first.Add(time.Hour))
	at := metav1.NewTime(first)
	want := []v1alpha1.InstallPlanCondition{{Type: "Installed", Status: "False", Reason: "InstallCheckFailed", Message: "x", LastUpdateTime: &at, LastTransitionTime: &at}}
	if diff := cmp.Diff(want, plan.Status.Conditions); diff != "" {
		t.Error(diff)
	}

	later := metav1.NewTime(first.Add(time.Hour))
	setInstalledCondition(plan, "False", "Unknown", "", later.Time)
	want[0].Reason, want[0].Message, want[0].LastUpdateTime = "Unknown", "", &later
	if diff := cmp.Diff(want, plan.Status.Conditions); diff != "" {
		t.Error(diff)
	}

	setInstalledCondition(plan, "True", "", "", later.Time)
	if got := plan.Status.Conditions[0].LastTransitionTime; !got.Equal(&later) {
		t.Errorf("got the transition at %v", got)
	}
}

func TestMergeObject(t *testing.T) {
	for name, test := range map[string]struct{ live, wanted, want string }{
		"account": {
			`{kind: ServiceAccount, metadata: {name: a, uid: u, resourceVersion: "7", annotations: {mine: kept, x: old}, ownerReferences: [{kind: ClusterServiceVersion, name: one, uid: "1"}]}, secrets: [{name: token}]}`,
			`{kind: ServiceAccount, metadata: {name: a, annotations: {x: new}, ownerReferences: [{kind: ClusterServiceVersion, name: two, uid: "2"}]}}`,
			`{kind: ServiceAccount, metadata: {name: a, uid: u, resourceVersion: "7", annotations: {mine: kept, x: new}, ownerReferences: [{apiVersion: "", kind: ClusterServiceVersion, name: one, uid: "1"}, {apiVersion: "", kind: ClusterServiceVersion, name: two, uid: "2"}]}, secrets: [{name: token}]}`,
		},
		"role loses rights": {
			`{kind: Role, metadata: {name: a, resourceVersion: "7"}, rules: [{verbs: [get]}, {verbs: [list]}]}`,
			`{kind: Role, metadata: {name: a, labels: {olm.managed: "true"}}, rules: [{verbs: [get]}]}`,
			`{kind: Role, metadata: {name: a, resourceVersion: "7", labels: {olm.managed: "true"}}, rules: [{verbs: [get]}]}`,
		},
		"service": {
			`{kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], type: ClusterIP}, status: {loadBalancer: {}}}`,
			`{kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}`,
			`{kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}, status: {loadBalancer: {}}}`,
		},
		"secret": {
			`{kind: Secret, metadata: {name: a}, data: {a: YQ==}}`,
			`{kind: Secret, metadata: {name: a}, stringData: {b: b}}`,
			`{kind: Secret, metadata: {name: a}, stringData: {b: b}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, wanted := builder.FromYAML(test.live), builder.FromYAML(test.wanted)
			before := live.DeepCopy()
			if diff := cmp.Diff(builder.FromYAML(test.want).Object, mergeObject(live, wanted).Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, live); diff != "" {
				t.Errorf("the existing object was changed: %s", diff)
			}
		})
	}
}

// Only those versions of a CRD are validated in which an object may have become invalid.
func TestChangedVersions(t *testing.T) {
	version := func(name string, served bool, kind string) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: served, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: kind}},
		}
	}
	old, updated := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
	old.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version("same", true, "object"), version("changed", true, "object"), version("gone", true, "object"), version("unserved", false, "object"), version("stops", true, "object")}
	updated.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version("same", true, "object"), version("changed", true, "array"), version("new", true, "object"), version("unserved", true, "array"), version("stops", false, "array")}
	var got []string
	for _, v := range changedVersions(old, updated) {
		got = append(got, v.Name)
	}

	if diff := cmp.Diff([]string{"changed"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewValidator(t *testing.T) {
	check, err := newValidator(&apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"spec"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"empty": {Type: "string", Nullable: true}, "port": {XIntOrString: true}, "size": {Type: "integer"},
			"any": {Type: "object", XPreserveUnknownFields: new(bool)},
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if faults := check(builder.FromYAML(`{spec: {empty: null, port: http, size: 3, any: {x: [1]}}}`).Object); len(faults) > 0 {
		t.Errorf("got the problems %q", faults)
	}
	if diff := cmp.Diff([]string{`spec.size must be of type integer: "string"`}, check(builder.FromYAML(`{spec: {port: 80, size: three}}`).Object)); diff != "" {
		t.Error(diff)
	}
	if faults := check(map[string]any{}); len(faults) != 1 {
		t.Errorf("got the problems %q", faults)
	}

	everything, err := newValidator(nil)
	if err != nil || len(everything(map[string]any{"x": 1})) > 0 {
		t.Errorf("%v", err)
	}
}

// The decision for a plan, and the status that is recorded before it is executed.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	newGroup := func(account string) []operatorsv1.OperatorGroup {
		g := operatorsv1.OperatorGroup{}
		g.Spec.ServiceAccountName, g.Status.Namespaces = account, []string{"tea"}
		if account != "" {
			g.Status.ServiceAccountRef = &corev1.ObjectReference{Namespace: "tea", Name: account}
		}
		return []operatorsv1.OperatorGroup{g}
	}
	newSubscription := func(plan types.UID) []v1alpha1.Subscription {
		sub := v1alpha1.Subscription{}
		sub.Status.InstallPlanRef = &corev1.ObjectReference{Namespace: "tea", Name: "plan", UID: plan}
		return []v1alpha1.Subscription{sub}
	}
	others := make([]v1alpha1.InstallPlan, maxKeptPlans)
	for i := range others {
		others[i].Name, others[i].Spec.Generation, others[i].UID = fmt.Sprint("other", i), i+1, types.UID(strconv.Itoa(i))
	}
	for name, c := range map[string]struct {
		phase    v1alpha1.InstallPlanPhase
		approved bool
		account  string
		facts    facts
		want     v1alpha1.InstallPlanPhase
		executes bool
		surplus  int
		failed   string
	}{
		"a new plan":                     {approved: true, facts: facts{groups: newGroup("")}, want: "Installing", executes: true},
		"a new plan to approve":          {facts: facts{groups: newGroup("")}, want: "RequiresApproval"},
		"a plan that was approved":       {phase: "RequiresApproval", approved: true, facts: facts{groups: newGroup("")}, want: "Installing", executes: true},
		"its account is recorded first":  {phase: "Installing", approved: true, facts: facts{groups: newGroup("brewer")}, want: "Installing"},
		"its account is recorded":        {phase: "Installing", approved: true, account: "brewer", facts: facts{groups: newGroup("brewer")}, want: "Installing", executes: true},
		"there is no group":              {phase: "Installing", approved: true, want: "Installing", failed: "no operator group found that is managing this namespace"},
		"a complete plan":                {phase: "Complete", want: "Complete"},
		"a plan of a later version":      {phase: "Paused", approved: true, facts: facts{groups: newGroup("")}, want: "Installing", executes: true},
		"the approval is withdrawn":      {phase: "Installing", facts: facts{groups: newGroup("")}, want: "RequiresApproval"},
		"a failed plan":                  {phase: "Failed", approved: true, facts: facts{groups: newGroup("")}, want: "Failed"},
		"a failed plan that is needed":   {phase: "Failed", approved: true, facts: facts{groups: newGroup(""), subs: newSubscription("this")}, want: "Failed", executes: true},
		"a failed plan with an account":  {phase: "Failed", approved: true, account: "brewer", facts: facts{groups: newGroup("brewer")}, want: "Failed", executes: true},
		"a failed plan to approve":       {phase: "Failed", facts: facts{groups: newGroup(""), subs: newSubscription("this")}, want: "Failed"},
		"a recreated plan":               {phase: "Failed", approved: true, facts: facts{groups: newGroup(""), subs: newSubscription("that")}, want: "Failed"},
		"a plan with too many others":    {phase: "Installing", approved: true, facts: facts{groups: newGroup(""), plans: others}, want: "Installing", surplus: 1},
		"a plan that has newer siblings": {phase: "Installing", approved: true, facts: facts{groups: newGroup(""), plans: others[1:]}, want: "Installing", executes: true},
	} {
		t.Run(name, func(t *testing.T) {
			plan := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "tea", Name: "plan", UID: "this"}}
			plan.Spec.Approved, plan.Status.Phase, plan.Status.Plan = c.approved, c.phase, []*v1alpha1.Step{{}}
			if c.account != "" {
				plan.Status.AttenuatedServiceAccountRef = &corev1.ObjectReference{Namespace: "tea", Name: c.account}
			}
			c.facts.now, c.facts.plans = now, append(c.facts.plans, *plan)
			d := decide(plan, &c.facts)
			failed := ""
			if d.accountErr != nil {
				failed = d.accountErr.Error()
			}
			if d.plan.Status.Phase != c.want || d.executes != c.executes || len(d.surplus) != c.surplus || failed != c.failed {
				t.Errorf("phase %q, executes %t, deletes %d, fails with %q; want %q, %t, %d and %q",
					d.plan.Status.Phase, d.executes, len(d.surplus), failed, c.want, c.executes, c.surplus, c.failed)
			}
			if (d.plan.Status.StartTime != nil) != c.executes || d.plan.Status.Message != c.failed {
				t.Errorf("start time %v, message %q", d.plan.Status.StartTime, d.plan.Status.Message)
			}
			if plan.Status.Phase != c.phase {
				t.Error("the plan itself was changed")
			}
		})
	}
}

func TestConcludeExecution(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	failure, forbidden := errors.New("no water"), apierrors.NewForbidden(schema.GroupResource{Resource: "kettles"}, "kettle", errors.New("no rights"))
	for name, c := range map[string]struct {
		before      v1alpha1.InstallPlanPhase
		err         error
		running     time.Duration
		waitsForAPI bool
		phase       v1alpha1.InstallPlanPhase
		condition   string
		message     string
		waits       bool
	}{
		"success":                      {before: "Installing", phase: "Complete", condition: "True"},
		"a definition is not served":   {before: "Installing", waitsForAPI: true, phase: "Installing", message: "before", waits: true},
		"a failed step":                {before: "Installing", err: failure, phase: "Installing", message: "retrying execution due to error: no water", waits: true},
		"a step that failed too long":  {before: "Installing", err: failure, running: time.Hour, phase: "Failed", condition: "False", message: "no water", waits: true},
		"missing rights":               {before: "Installing", err: forbidden, phase: "Installing", message: "retrying execution due to error: " + forbidden.Error(), waits: true},
		"rights missing for long":      {before: "Installing", err: forbidden, running: time.Hour, phase: "Installing", condition: "False", message: "retrying execution due to error: " + forbidden.Error()},
		"a failed plan that succeeds":  {before: "Failed", running: time.Hour, phase: "Complete", condition: "True"},
		"a failed plan that waits":     {before: "Failed", running: time.Hour, waitsForAPI: true, phase: "Failed", message: "before", waits: true},
		"a failed plan that fails":     {before: "Failed", err: failure, running: time.Hour, phase: "Failed", condition: "False", message: "no water", waits: true},
		"a failed plan without rights": {before: "Failed", err: forbidden, running: time.Hour, phase: "Failed", condition: "False", message: forbidden.Error(), waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			begun := metav1.NewTime(now.Add(-c.running))
			plan := &v1alpha1.InstallPlan{Status: v1alpha1.InstallPlanStatus{Phase: c.before, Message: "before", StartTime: &begun}}
			if c.waitsForAPI {
				plan.Status.Plan = []*v1alpha1.Step{{Status: v1alpha1.StepStatusWaitingForAPI}}
			}
			err := concludeExecution(plan, c.err, time.Time{}, now, time.Minute)
			condition := ""
			if installed := installedCondition(plan); installed != nil {
				condition = string(installed.Status)
			}
			if plan.Status.Phase != c.phase || condition != c.condition || plan.Status.Message != c.message || reconcile.IsWait(err) != c.waits {
				t.Errorf("got phase %q, condition %q, message %q, error %v", plan.Status.Phase, condition, plan.Status.Message, err)
			}
		})
	}
}

// The time between two attempts of a failed plan doubles, also after a restart.
func TestFailedRetryInterval(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plan := &v1alpha1.InstallPlan{Status: v1alpha1.InstallPlanStatus{StartTime: &metav1.Time{Time: start}}}
	for elapsed, want := range map[time.Duration]time.Duration{
		-time.Hour: 5 * time.Second, 0: 5 * time.Second, 20 * time.Second: 20 * time.Second, time.Minute: time.Minute, time.Hour: 5 * time.Minute,
	} {
		if got := failedRetryInterval(plan, time.Time{}, start.Add(elapsed)); got != want {
			t.Errorf("after %v: got %v, want %v", elapsed, got, want)
		}
	}

	if got := failedRetryInterval(plan, start.Add(time.Hour), start.Add(time.Hour+20*time.Second)); got != 20*time.Second {
		t.Errorf("20 s after a change of the CRDs: got %s, want 20s", got)
	}
	if got := failedRetryInterval(&v1alpha1.InstallPlan{}, time.Time{}, start); got != minFailedRetryInterval {
		t.Errorf("without a start: got %v, want %v", got, minFailedRetryInterval)
	}
}

// A plan is superseded by a newer one that installs an object which it has not installed yet.
func TestIsSuperseded(t *testing.T) {
	newPlan := func(generation int, status v1alpha1.StepStatus, names ...string) v1alpha1.InstallPlan {
		plan := v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{Generation: generation}, Status: v1alpha1.InstallPlanStatus{Plan: []*v1alpha1.Step{nil}}}
		for _, name := range names {
			plan.Status.Plan = append(plan.Status.Plan, &v1alpha1.Step{Status: status, Resource: v1alpha1.StepResource{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: name}})
		}
		return plan
	}
	for name, test := range map[string]struct {
		plan, other v1alpha1.InstallPlan
		want        bool
	}{
		"a newer plan with the CRD":    {newPlan(1, "Unknown", "cups", "mugs"), newPlan(2, "Unknown", "mugs"), true},
		"a newer plan with other CRDs": {newPlan(1, "Unknown", "cups", "mugs"), newPlan(2, "Created", "spoons"), false},
		"the CRD is installed":         {newPlan(1, "Present", "mugs"), newPlan(2, "Unknown", "mugs"), false},
		"an older plan":                {newPlan(2, "Unknown", "mugs"), newPlan(1, "Created", "mugs"), false},
		"the plan itself":              {newPlan(2, "Unknown", "mugs"), newPlan(2, "Unknown", "mugs"), false},
	} {
		if got := isSuperseded(&test.plan, []v1alpha1.InstallPlan{test.other}); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// Every optional kind of a bundle can be installed, and no other.
func TestKindsOfBundles(t *testing.T) {
	for kind, owned := range map[string]bool{
		"ClusterRole": true, "ClusterRoleBinding": true, "ConfigMap": true, "ConsoleCLIDownload": true, "ConsoleLink": true,
		"ConsoleQuickStart": true, "ConsoleYAMLSample": true, "PodDisruptionBudget": true, "PodMonitor": true, "PriorityClass": true, "PrometheusRule": true,
		"Role": false, "RoleBinding": false, "BundleSecret": true, "Service": true, "ServiceAccount": false, "ServiceMonitor": true,
		"VerticalPodAutoscaler": true, "CredentialsRequest": false, "Deployment": false,
	} {
		handling, isInstalled := kinds[kind]
		if want := kind != "CredentialsRequest" && kind != "Deployment"; isInstalled != want || handling.owned != owned {
			t.Errorf("%s: installed %t, want %t; owned %t, want %t", kind, isInstalled, want, handling.owned, owned)
		}
	}
}

func TestDisruptionOf(t *testing.T) {
	for name, test := range map[string]struct{ manifest, want string }{
		"a budget for one pod":            {`{"kind":"PodDisruptionBudget","spec":{"maxUnavailable":1}}`, ""},
		"a budget for a part of the pods": {`{"kind":"PodDisruptionBudget","spec":{"minAvailable":"50%"}}`, ""},
		"a budget for no pod":             {`{"kind":"PodDisruptionBudget","spec":{"maxUnavailable":0}}`, "spec.maxUnavailable is 0: nodes"},
		"a budget for no percent":         {`{"kind":"PodDisruptionBudget","spec":{"maxUnavailable":"0%"}}`, "spec.maxUnavailable is 0%: nodes"},
		"a budget that needs all pods":    {`{"kind":"PodDisruptionBudget","spec":{"minAvailable":"100%"}}`, "spec.minAvailable is 100%: nodes"},
		"a priority":                      {`{"kind":"PriorityClass","value":1000}`, ""},
		"the default priority":            {`{"kind":"PriorityClass","value":1000,"globalDefault":true}`, "globalDefault is true: this priority"},
		"another kind":                    {`{"kind":"ConfigMap","spec":{"maxUnavailable":0},"globalDefault":true}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(test.manifest), &object.Object); err != nil {
				t.Fatal(err)
			}
			got := disruptionOf(object)
			if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
