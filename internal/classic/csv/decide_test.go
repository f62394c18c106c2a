package csv

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/requirements"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/strategy"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// in returns a ClusterServiceVersion with one Deployment in a phase.
func in(phase v1alpha1.ClusterServiceVersionPhase, reason string) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a.v2"}}
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "a"}}
	csv.Status.Phase, csv.Status.Reason = phase, reason
	at := metav1.NewTime(now)
	csv.Status.LastTransitionTime = &at
	return csv
}

func sibling(name string, phase v1alpha1.ClusterServiceVersionPhase) *v1alpha1.ClusterServiceVersion {
	csv := in(phase, "")
	csv.Name = name
	return csv
}

var met, unmet = &requirements.Result{Met: true}, &requirements.Result{}

// deploymentTrouble returns the error of strategy.Health for a Deployment.
func deploymentTrouble(t *testing.T, trouble strategy.Trouble) error {
	t.Helper()
	labels := map[string]string{csvinfo.LabelDeploymentHash: "1"}
	wanted := []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}}}
	live := map[strategy.Trouble]*appsv1.Deployment{
		strategy.Waiting:  nil,
		strategy.Outdated: {ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{csvinfo.LabelDeploymentHash: "0"}}},
		strategy.Stuck: {ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}, Status: appsv1.DeploymentStatus{
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}},
		}},
	}[trouble]

	err := strategy.Health(wanted, func(string) *appsv1.Deployment { return live })
	if !strategy.HasTrouble(err, trouble) {
		t.Fatalf("got the error %v", err)
	}

	return err
}

func TestDecide(t *testing.T) {
	boom := errors.New("boom")
	fine := Health{APIsInstalled: true, WebhooksInstalled: true}
	with := func(edit func(*Health)) Health {
		h := fine
		edit(&h)
		return h
	}
	waiting := with(func(h *Health) { h.DeploymentsErr = deploymentTrouble(t, strategy.Waiting) })
	outdated := with(func(h *Health) { h.DeploymentsErr = deploymentTrouble(t, strategy.Outdated) })
	stuck := with(func(h *Health) { h.DeploymentsErr = deploymentTrouble(t, strategy.Stuck) })
	const (
		none         = v1alpha1.CSVPhaseNone
		pend         = v1alpha1.CSVPhasePending
		ready        = v1alpha1.CSVPhaseInstallReady
		inst         = v1alpha1.CSVPhaseInstalling
		succ         = v1alpha1.CSVPhaseSucceeded
		fail         = v1alpha1.CSVPhaseFailed
		repl         = v1alpha1.CSVPhaseReplacing
		del          = v1alpha1.CSVPhaseDeleting
		doneMessage  = "install strategy completed with no errors"
		requirements = "requirements not met"
	)
	invalidStrategy := in(ready, v1alpha1.CSVReasonRequirementsMet)
	invalidStrategy.Spec.InstallStrategy.StrategyName = "magic"
	late := in(inst, v1alpha1.CSVReasonInstallWaiting)
	before := metav1.NewTime(now.Add(-installTimeout))
	late.Status.LastTransitionTime = &before

	tests := map[string]struct {
		csv   *v1alpha1.ClusterServiceVersion
		facts Facts
		want  Outcome
	}{
		"new":                                      {in(none, ""), Facts{}, transitionTo(pend, "RequirementsUnknown", "requirements not yet checked")},
		"pending: the update is blocked":           {in(pend, ""), Facts{Replaced: sibling("a.v1", succ), Blocked: "why", Requirements: met}, transitionTo(pend, "OperatorConditionNotUpgradeable", "operator is not upgradeable: why")},
		"pending: no rule":                         {in(pend, ""), Facts{RequirementsErr: boom}, transitionTo(fail, "InvalidInstallStrategy", "install strategy invalid: boom")},
		"pending: requirements":                    {in(pend, ""), Facts{Requirements: unmet}, Outcome{Phase: pend, Reason: "RequirementsNotMet", Message: "one or more requirements couldn't be found", RequeueAfter: requirementsResyncInterval}},
		"pending: webhooks":                        {in(pend, ""), Facts{Requirements: met, WebhooksErr: boom}, transitionTo(fail, "InvalidWebhookDescription", "boom")},
		"pending: another owns the CRD":            {in(pend, ""), Facts{Requirements: met, CRDOwner: "b"}, transitionTo(fail, "OwnerConflict", "conflicting CRD owner in namespace")},
		"pending: another owns the API":            {in(pend, ""), Facts{Requirements: met, NotAdoptable: boom}, transitionTo(fail, "OwnerConflict", "unable to adopt APIService")},
		"pending: the old one is not replaced yet": {in(pend, ""), Facts{Requirements: met, Replaced: sibling("a.v1", succ)}, Outcome{}},
		"pending: the old one is replaced":         {in(pend, ""), Facts{Requirements: met, Replaced: sibling("a.v1", repl)}, transitionTo(ready, "AllRequirementsMet", "all requirements found, attempting install")},
		"pending: the old one has failed": {in(pend, ""), Facts{Requirements: met, Replaced: sibling("a.v1", fail)}, transitionTo(pend, "RequirementsUnknown",
			"waiting for ClusterServiceVersion a.v1, which has failed and is not replaced before it has succeeded: remove the cause, or set spec.upgradeStrategy of the OperatorGroup to TechPreviewUnsafeFailForward")},
		"pending: the old one is not installed yet": {in(pend, ""), Facts{Requirements: met, Replaced: sibling("a.v1", inst)}, transitionTo(pend, "RequirementsUnknown", "waiting for ClusterServiceVersion a.v1, which is replaced when it has succeeded")},
		"pending: a cycle":                          {in(pend, ""), Facts{Requirements: met, Replaced: sibling("a.v1", succ), LastReplacementErr: boom}, transitionTo(pend, "RequirementsUnknown", "boom")},
		"pending: nothing is replaced":              {in(pend, ""), Facts{Requirements: met}, transitionTo(ready, "AllRequirementsMet", "all requirements found, attempting install")},

		"install ready: another strategy": {invalidStrategy, Facts{}, transitionTo(fail, "InvalidInstallStrategy", `install strategy invalid: unsupported install strategy "magic": only "deployment" is known`)},
		"install ready: install":          {in(ready, ""), Facts{}, Outcome{Action: DoInstall}},

		"installing: not computed":           {in(inst, ""), Facts{DeploymentsErr: boom}, transitionTo(pend, "NeedsReinstall", "calculated deployment install is bad")},
		"installing: waits":                  {in(inst, ""), Facts{Health: waiting}, Outcome{Phase: inst, Reason: "InstallWaiting", Message: "installing: missing deployment with name=a", RequeueAfter: installTimeout}},
		"installing: timeout":                {late, Facts{Health: waiting}, transitionTo(fail, "InstallCheckFailed", "install timeout")},
		"installing: healthy at the timeout": {late, Facts{Health: fine}, transitionTo(succ, "InstallSucceeded", doneMessage)},

		"succeeded: replaced":                   {in(succ, ""), Facts{Replacement: sibling("a.v3", none)}, transitionTo(repl, "BeingReplaced", "being replaced by csv: a.v3")},
		"succeeded: replaced in a cycle":        {in(succ, "InstallSucceeded"), Facts{Replacement: sibling("a.v3", none), LastReplacementErr: boom, Requirements: met, Health: fine}, transitionTo(succ, "InstallSucceeded", doneMessage)},
		"succeeded: APIs":                       {in(succ, ""), Facts{APIServiceIssues: []error{boom, boom}}, transitionTo(fail, "APIServiceResourceIssue", "boom\nboom")},
		"succeeded: certificates":               {in(succ, ""), Facts{MustRotate: true}, transitionTo(pend, "NeedsCertRotation", "CSV owns resources that require a cert refresh")},
		"succeeded: requirements invalid":       {in(succ, ""), Facts{RequirementsErr: boom}, transitionTo(fail, "InvalidInstallStrategy", "install strategy invalid: boom")},
		"succeeded: requirements":               {in(succ, ""), Facts{Requirements: unmet}, transitionTo(fail, "RequirementsNotMet", "requirements no longer met")},
		"succeeded: not computed":               {in(succ, ""), Facts{Requirements: met, DeploymentsErr: boom}, transitionTo(pend, "NeedsReinstall", "calculated deployment install is bad")},
		"succeeded: unhealthy":                  {in(succ, ""), Facts{Requirements: met, Health: waiting}, transitionTo(fail, "ComponentUnhealthy", "installing: missing deployment with name=a")},
		"succeeded: healthy":                    {in(succ, "InstallSucceeded"), Facts{Requirements: met, Health: fine}, transitionTo(succ, "InstallSucceeded", doneMessage)},
		"succeeded: healthy, with certificates": {in(succ, "InstallSucceeded"), Facts{Requirements: met, Health: fine, RotateAt: now.Add(time.Hour)}, Outcome{Phase: succ, Reason: "InstallSucceeded", Message: doneMessage, RequeueAfter: time.Hour}},

		"failed: fail forward":                     {in(fail, "InstallCheckFailed"), Facts{FailForward: true, Replacement: sibling("a.v3", none)}, transitionTo(repl, "BeingReplaced", "Fail Forward is enabled, allowing Failed csv to be replaced by csv: a.v3")},
		"failed: fail forward, a cycle":            {in(fail, ""), Facts{FailForward: true, Replacement: sibling("a.v3", none), LastReplacementErr: boom, Requirements: met, Health: fine}, transitionTo(succ, "InstallSucceeded", doneMessage)},
		"failed: not fail forward":                 {in(fail, ""), Facts{Replacement: sibling("a.v3", none), Requirements: met, Health: fine}, transitionTo(succ, "InstallSucceeded", doneMessage)},
		"failed: a group":                          {in(fail, "NoOperatorGroup"), Facts{}, transitionTo(pend, "RequirementsUnknown", "InstallModes now support target namespaces")},
		"failed: one group":                        {in(fail, "TooManyOperatorGroups"), Facts{}, transitionTo(pend, "RequirementsUnknown", "InstallModes now support target namespaces")},
		"failed: targets":                          {in(fail, "NoTargetNamespaces"), Facts{}, transitionTo(pend, "RequirementsUnknown", "InstallModes now support target namespaces")},
		"failed: supported":                        {in(fail, "UnsupportedOperatorGroup"), Facts{}, transitionTo(pend, "RequirementsUnknown", "InstallModes now support target namespaces")},
		"failed: no conflict":                      {in(fail, "InterOperatorGroupOwnerConflict"), Facts{}, transitionTo(pend, "RequirementsUnknown", "OperatorGroup no longer intersecting with conflicting owner")},
		"failed: static":                           {in(fail, "CannotModifyStaticOperatorGroupProvidedAPIs"), Facts{}, transitionTo(pend, "RequirementsUnknown", "static OperatorGroup and intersecting groups now support providedAPIs")},
		"failed: no longer valid":                  {in(fail, ""), Facts{RequirementsErr: boom}, transitionTo(fail, "InvalidInstallStrategy", "install strategy invalid: boom")},
		"failed: still invalid":                    {in(fail, "InvalidInstallStrategy"), Facts{RequirementsErr: boom}, transitionTo(fail, "InvalidInstallStrategy", "install strategy invalid: boom")},
		"failed: requirements":                     {in(fail, ""), Facts{Requirements: unmet}, transitionTo(pend, "RequirementsNotMet", requirements)},
		"failed: API of another":                   {in(fail, ""), Facts{Requirements: met, APIServiceIssues: []error{boom}, NotAdoptable: boom}, Outcome{}},
		"failed: API":                              {in(fail, ""), Facts{Requirements: met, APIServiceIssues: []error{boom}}, transitionTo(pend, "APIServiceResourcesNeedReinstall", "boom")},
		"failed: certificates":                     {in(fail, ""), Facts{Requirements: met, MustRotate: true}, transitionTo(pend, "NeedsCertRotation", "owned APIServices need cert refresh")},
		"failed: not computed":                     {in(fail, ""), Facts{Requirements: met, DeploymentsErr: boom}, transitionTo(pend, "NeedsReinstall", "calculated deployment install is bad")},
		"failed: unhealthy":                        {in(fail, ""), Facts{Requirements: met, Health: waiting}, transitionTo(pend, "NeedsReinstall", "installing: missing deployment with name=a")},
		"failed: healthy":                          {in(fail, ""), Facts{Requirements: met, Health: fine}, transitionTo(succ, "InstallSucceeded", doneMessage)},
		"another still owns the CRD":               {in(fail, "OwnerConflict"), Facts{Requirements: met, CRDOwner: "b", Health: waiting}, Outcome{}},
		"another no longer owns the CRD":           {in(fail, "OwnerConflict"), Facts{Requirements: met, Health: waiting}, transitionTo(pend, "NeedsReinstall", "installing: missing deployment with name=a")},
		"the webhooks are still invalid":           {in(fail, "InvalidWebhookDescription"), Facts{Requirements: met, WebhooksErr: boom, Health: waiting}, transitionTo(fail, "InvalidWebhookDescription", "boom")},
		"replacing: an older one exists":           {in(repl, ""), Facts{Replaced: sibling("a.v1", repl), Replacement: sibling("a.v3", succ)}, Outcome{}},
		"replacing: the next succeeded":            {in(repl, ""), Facts{Replacement: sibling("a.v3", succ)}, transitionTo(del, "Replaced", "has been replaced by a newer ClusterServiceVersion that has successfully installed.")},
		"replacing: fail forward, last succeeded":  {in(repl, ""), Facts{FailForward: true, Replacement: sibling("a.v3", fail), LastReplacement: sibling("a.v4", succ)}, transitionTo(del, "Replaced", "has been replaced by a newer ClusterServiceVersion that has successfully installed.")},
		"replacing: fail forward, a cycle":         {in(repl, ""), Facts{FailForward: true, Replacement: sibling("a.v3", fail), LastReplacementErr: boom}, transitionTo(repl, "BeingReplaced", "boom")},
		"replacing: a cycle":                       {in(repl, ""), Facts{Replaced: sibling("a.v3", succ), Replacement: sibling("a.v3", succ), LastReplacementErr: boom}, transitionTo(repl, "BeingReplaced", "boom")},
		"replacing: by nothing":                    {in(repl, ""), Facts{}, transitionTo(pend, "RequirementsUnknown", "the ClusterServiceVersion that replaced this one no longer exists")},
		"replacing: the next is replaced, too":     {in(repl, ""), Facts{Replacement: sibling("a.v3", repl), LastReplacement: sibling("a.v4", succ)}, transitionTo(del, "Replaced", "has been replaced by a newer ClusterServiceVersion that has successfully installed.")},
		"replacing: fail forward, last installing": {in(repl, ""), Facts{FailForward: true, Replacement: sibling("a.v3", succ), LastReplacement: sibling("a.v4", inst)}, Outcome{}},
		"replacing: the next has not succeeded":    {in(repl, ""), Facts{Replacement: sibling("a.v3", inst)}, Outcome{}},
		"deleting: delete":                         {in(del, ""), Facts{}, Outcome{Action: DoDelete}},
		"an unknown phase":                         {in("Odd", ""), Facts{}, Outcome{}},
		"installing: not readable":                 {in(inst, ""), Facts{Health: with(func(h *Health) { h.UnreachableErr = boom })}, Outcome{Err: boom}},
		"installing: stuck":                        {in(inst, ""), Facts{Health: stuck}, transitionTo(fail, "InstallCheckFailed", `install failed: deployment a not ready before timeout: deployment "a" exceeded its progress deadline`)},
		"succeeded: pods are replaced":             {in(succ, ""), Facts{Requirements: met, Health: with(func(h *Health) { h.APIsInstalled, h.Disrupted = false, "x" })}, Outcome{RequeueAfter: disruptionRetryInterval}},
		"installing: APIs not known":               {in(inst, ""), Facts{Health: with(func(h *Health) { h.APIsErr = boom })}, transitionTo(fail, "APIServiceInstallFailed", "APIService install failed: boom")},
		"succeeded: APIs not installed":            {in(succ, ""), Facts{Requirements: met, Health: with(func(h *Health) { h.APIsInstalled = false })}, transitionTo(fail, "ComponentUnhealthy", "apiServices not installed")},
		"installing: webhooks not known":           {in(inst, ""), Facts{Health: with(func(h *Health) { h.WebhooksErr = boom })}, transitionTo(ready, "InstallWaiting", "Webhook install failed: boom")},
		"succeeded: webhooks not installed":        {in(succ, ""), Facts{Requirements: met, Health: with(func(h *Health) { h.WebhooksInstalled = false })}, transitionTo(fail, "ComponentUnhealthy", "webhooks not installed")},
		"succeeded: outdated":                      {in(succ, ""), Facts{Requirements: met, Health: outdated}, transitionTo(ready, "ComponentUnhealthy", "installing: deployment changed old hash=0, new hash=1")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.facts.Now = now
			got := Decide(tt.csv, &tt.facts)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// The checked requirements are in every outcome of a pending ClusterServiceVersion.
func TestDecideTellsRequirements(t *testing.T) {
	found := []v1alpha1.RequirementStatus{{Kind: "A"}}
	o := Decide(in(v1alpha1.CSVPhasePending, ""), &Facts{Requirements: &requirements.Result{Met: true, Statuses: found}, Replaced: sibling("a.v1", v1alpha1.CSVPhaseSucceeded)})
	if diff := cmp.Diff(found, o.Requirements); diff != "" || o.Phase != "" {
		t.Errorf("phase %q, requirements (-want +got):\n%s", o.Phase, diff)
	}
}

func TestRecord(t *testing.T) {
	status := v1alpha1.ClusterServiceVersionStatus{}
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	if !RecordOutcome(&status, transitionTo("Pending", "A", "one"), at(0)) || !RecordOutcome(&status, transitionTo("Pending", "A", "two"), at(1)) {
		t.Error("a new message: got no change, want one")
	}
	if len(status.Conditions) != 1 || !status.LastTransitionTime.Time.Equal(at(0)) || !status.LastUpdateTime.Time.Equal(at(1)) || status.Message != "two" {
		t.Errorf("another message: got the status %+v", status)
	}
	if RecordOutcome(&status, transitionTo("Pending", "A", "two"), at(2)) || !status.LastUpdateTime.Time.Equal(at(1)) || RecordOutcome(&status, keepPhase(), at(2)) {
		t.Error("an unchanged outcome: got a change, want none")
	}

	for i := range 30 {
		RecordOutcome(&status, transitionTo("Pending", string(rune('B'+i)), "m"), at(3+i))
	}

	if len(status.Conditions) != maxConditions || status.Conditions[maxConditions-1].Reason != string(rune('B'+29)) || status.Conditions[0].Reason != string(rune('B'+10)) {
		t.Errorf("got the conditions %+v", status.Conditions)
	}
}

// Installations that fail repeatedly back off exponentially up to maxInstallRetryInterval.
func TestRemainingInstallBackoff(t *testing.T) {
	status := v1alpha1.ClusterServiceVersionStatus{}
	at := metav1.NewTime(now)
	var waits []time.Duration
	for range 12 {
		status.Conditions = append(status.Conditions, v1alpha1.ClusterServiceVersionCondition{Phase: v1alpha1.CSVPhaseInstallReady, LastTransitionTime: &at})
		waits = append(waits, remainingInstallRetryInterval(&status, now)/time.Second)
	}

	if diff := cmp.Diff([]time.Duration{0, 0, 0, 5, 10, 20, 40, 80, 160, 300, 300, 300}, waits); diff != "" {
		t.Errorf("seconds (-want +got):\n%s", diff)
	}
	if wait := remainingInstallRetryInterval(&status, now.Add(maxInstallRetryInterval)); wait != 0 {
		t.Errorf("after maxInstallRetryInterval: got %s, want 0", wait)
	}
}

func TestFindCRDOwnerConflict(t *testing.T) {
	owns := func(name, replaces string) v1alpha1.ClusterServiceVersion {
		csv := sibling(name, "")
		csv.Spec.Replaces = replaces
		csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "as.example.com"}}
		return *csv
	}

	mine := owns("a.v2", "a.v1")
	if other := findCRDOwnerConflict(&mine, []v1alpha1.ClusterServiceVersion{mine, owns("a.v1", ""), owns("a.v3", "a.v2")}); other != "" {
		t.Errorf("got the conflict with %s, which is another version of the same operator", other)
	}
	if other := findCRDOwnerConflict(&mine, []v1alpha1.ClusterServiceVersion{mine, owns("b.v1", "")}); other != "b.v1" {
		t.Errorf("got the conflict with %q, want b.v1", other)
	}
}
