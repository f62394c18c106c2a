package clusteroperator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

var now = metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))

var errPass = errors.New("the API server does not answer")

// see records passes: + is a success, and - a failure.
func see(s *Syncs, passes string) {
	for _, p := range passes {
		if p == '+' {
			s.Record(nil)
		} else {
			s.Record(errPass)
		}
	}
}

func TestEvaluateHealth(t *testing.T) {
	olm, catalog := syncThresholds{1, 1}, syncThresholds{10, 5}
	for name, c := range map[string]struct {
		rule   syncThresholds
		passes string
		isOver bool
		want   health
	}{
		"nothing yet":                            {olm, "", false, healthUnknown},
		"nothing to do":                          {olm, "", true, healthUp},
		"one success":                            {olm, "+", false, healthUp},
		"a success after failures":               {olm, "--+", false, healthUp},
		"failures within the time of grace":      {olm, "---", false, healthUnknown},
		"failures":                               {olm, "---", true, healthDown},
		"none of the last ten":                   {olm, "+----------", true, healthDown},
		"one of the last ten":                    {olm, "+---------", true, healthUp},
		"catalogs: nine passes":                  {catalog, "+++++++++", false, healthUnknown},
		"catalogs: ten passes, five successes":   {catalog, "-----+++++", false, healthUp},
		"catalogs: ten passes, four successes":   {catalog, "------++++", false, healthUnknown},
		"catalogs: four successes after grace":   {catalog, "------++++", true, healthUp},
		"catalogs: no success":                   {catalog, "----------", true, healthDown},
		"catalogs: successes, and then failures": {catalog, "++++++++++----------", false, healthDown},
		"catalogs: nothing to do":                {catalog, "", true, healthUp},
	} {
		t.Run(name, func(t *testing.T) {
			var s Syncs
			see(&s, c.passes)
			if got := s.currentCounts().evaluateHealth(c.rule, c.isOver); got != c.want {
				t.Errorf("judged %d, want %d: %+v", got, c.want, s.currentCounts())
			}
		})
	}
}

// Only results that can change the report enqueue the reporter.
func TestChangeEvents(t *testing.T) {
	var none *Syncs
	none.Record(errPass) // counts nothing
	var s Syncs
	isNews := func() bool {
		select {
		case <-s.changeEvents():
			return true
		default:
			return false
		}
	}

	for i, want := range strings.Split("y y y y y y y y y y n n n", " ") {
		s.Record(nil)
		if got := isNews(); got != (want == "y") {
			t.Errorf("success %d: got a change event: %v", i+1, got)
		}
	}

	for i, want := range strings.Split("n n n n n n n n n y n n", " ") {
		s.Record(errPass)
		if got := isNews(); got != (want == "y") {
			t.Errorf("failure %d: got a change event: %v", i+1, got)
		}
	}

	s.Record(nil)
	if !isNews() {
		t.Error("got no change event for the first success after failures")
	}
}

func TestJudgeTimeout(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now.Time)
	j := &healthEvaluator{thresholds: syncThresholds{1, 1}, syncs: &Syncs{}, clock: clock}
	if v, again := j.currentHealth(); v != healthUnknown || again != judgeTimeout {
		t.Errorf("at first: got %d, requeue after %s", v, again)
	}

	j.syncs.Record(errPass)
	clock.SetTime(now.Add(judgeTimeout - time.Second))
	if v, again := j.currentHealth(); v != healthUnknown || again != time.Second {
		t.Errorf("before the timeout: got %d, requeue after %s", v, again)
	}

	clock.SetTime(now.Add(judgeTimeout))
	if v, again := j.currentHealth(); v != healthDown || again != 0 {
		t.Errorf("at the timeout: got %d, requeue after %s", v, again)
	}

	j.syncs.Record(nil)
	if v, again := j.currentHealth(); v != healthUp || again != 0 {
		t.Errorf("after a success: got %d, requeue after %s", v, again)
	}
}

// formatStatus returns a status as lines.
func formatStatus(status *configv1.ClusterOperatorStatus) string {
	var out strings.Builder
	for _, v := range status.Versions {
		fmt.Fprintf(&out, "version %s %s\n", v.Name, v.Version)
	}

	for _, c := range status.Conditions {
		fmt.Fprintf(&out, "%s=%s [%s] %s\n", c.Type, c.Status, c.Reason, c.Message)
	}

	for _, r := range status.RelatedObjects {
		fmt.Fprintf(&out, "related %s %s/%s\n", r.Resource, r.Namespace, r.Name)
	}

	return out.String()
}

func TestReport(t *testing.T) {
	var status configv1.ClusterOperatorStatus
	said := componentReport{name: "operator-lifecycle-manager", release: "4.18.3", program: "v1.2.3", now: now, upgradeable: newUpgradeableCondition(nil, "4.18.3")}
	for _, step := range []struct {
		up   bool
		want string
	}{
		{false, `Progressing=True [UpdateNotInEffect] Waiting to see update v1.2.3 succeed
Available=False [UpdateNotInEffect] No reconciliation succeeds; see the log of the program for the reason
Degraded=True [UpdateNotInEffect] Waiting for updates to take effect
Upgradeable=False [UpdateNotInEffect] Waiting for updates to take effect
`},
		{true, `version operator 4.18.3
version operator-lifecycle-manager v1.2.3
Progressing=False [AsExpected] Deployed v1.2.3
Available=True [AsExpected] The controllers work
Degraded=False [AsExpected] The controllers work
Upgradeable=True [AsExpected] No installed ClusterServiceVersion declares that it does not support the next minor version of the cluster
`},
		// A reached version stays reported.
		{false, `version operator 4.18.3
version operator-lifecycle-manager v1.2.3
Progressing=True [UpdateNotInEffect] Waiting to see update v1.2.3 succeed
Available=False [UpdateNotInEffect] No reconciliation succeeds; see the log of the program for the reason
Degraded=True [UpdateNotInEffect] Waiting for updates to take effect
Upgradeable=False [UpdateNotInEffect] Waiting for updates to take effect
`},
	} {
		said.isUp = step.up
		said.applyToStatus(&status)
		if diff := cmp.Diff(step.want, formatStatus(&status)); diff != "" {
			t.Errorf("the status (-want +got):\n%s", diff)
		}
	}

	// The same report again changes nothing, including the transition times.
	before := status.DeepCopy()
	said.now = metav1.NewTime(now.Add(time.Minute))
	said.applyToStatus(&status)
	if diff := cmp.Diff(before, &status); diff != "" {
		t.Errorf("a second report (-first +second):\n%s", diff)
	}
	if c := configv1.FindCondition(status.Conditions, configv1.OperatorAvailable); !c.LastTransitionTime.Equal(&now) {
		t.Errorf("Available changed at %s", c.LastTransitionTime)
	}
}
