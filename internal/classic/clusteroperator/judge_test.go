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
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

var now = metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))

var errPass = errors.New("the API server does not answer")

// see counts passes: + is one that succeeded, - one that failed.
func see(s *Syncs, passes string) {
	for _, p := range passes {
		if p == '+' {
			s.Seen(nil)
		} else {
			s.Seen(errPass)
		}
	}
}

func TestJudge(t *testing.T) {
	olm, catalog := rule{1, 1}, rule{10, 5}
	for name, c := range map[string]struct {
		rule   rule
		passes string
		isOver bool
		want   verdict
	}{
		"nothing yet":                            {olm, "", false, unknown},
		"nothing to do":                          {olm, "", true, up},
		"one success":                            {olm, "+", false, up},
		"a success after failures":               {olm, "--+", false, up},
		"failures within the time of grace":      {olm, "---", false, unknown},
		"failures":                               {olm, "---", true, down},
		"none of the last ten":                   {olm, "+----------", true, down},
		"one of the last ten":                    {olm, "+---------", true, up},
		"catalogs: nine passes":                  {catalog, "+++++++++", false, unknown},
		"catalogs: ten passes, five successes":   {catalog, "-----+++++", false, up},
		"catalogs: ten passes, four successes":   {catalog, "------++++", false, unknown},
		"catalogs: four successes after grace":   {catalog, "------++++", true, up},
		"catalogs: no success":                   {catalog, "----------", true, down},
		"catalogs: successes, and then failures": {catalog, "++++++++++----------", false, down},
		"catalogs: nothing to do":                {catalog, "", true, up},
	} {
		t.Run(name, func(t *testing.T) {
			var s Syncs
			see(&s, c.passes)
			if got := s.counted().judge(c.rule, c.isOver); got != c.want {
				t.Errorf("judged %d, want %d: %+v", got, c.want, s.counted())
			}
		})
	}
}

// A reporter is woken when what was counted may change its report, and by nothing else.
func TestNews(t *testing.T) {
	var none *Syncs
	none.Seen(errPass) // counts nothing
	var s Syncs
	isNews := func() bool {
		select {
		case <-s.news():
			return true
		default:
			return false
		}
	}

	for i, want := range strings.Split("y y y y y y y y y y n n n", " ") {
		s.Seen(nil)
		if got := isNews(); got != (want == "y") {
			t.Errorf("success %d: news is %v", i+1, got)
		}
	}

	for i, want := range strings.Split("n n n n n n n n n y n n", " ") {
		s.Seen(errPass)
		if got := isNews(); got != (want == "y") {
			t.Errorf("failure %d: news is %v", i+1, got)
		}
	}

	s.Seen(nil)
	if !isNews() {
		t.Error("the first success after failures is no news")
	}
}

func TestTimeOfGrace(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now.Time)
	j := &judgement{rule: rule{1, 1}, syncs: &Syncs{}, clock: clock}
	if v, again := j.now(); v != unknown || again != grace {
		t.Errorf("at first: %d, again after %s", v, again)
	}

	j.syncs.Seen(errPass)
	clock.SetTime(now.Add(grace - time.Second))
	if v, again := j.now(); v != unknown || again != time.Second {
		t.Errorf("before its end: %d, again after %s", v, again)
	}

	clock.SetTime(now.Add(grace))
	if v, again := j.now(); v != down || again != 0 {
		t.Errorf("at its end: %d, again after %s", v, again)
	}

	j.syncs.Seen(nil)
	if v, again := j.now(); v != up || again != 0 {
		t.Errorf("after a success: %d, again after %s", v, again)
	}
}

// told is a status as lines.
func told(status *configv1.ClusterOperatorStatus) string {
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
	said := report{name: "operator-lifecycle-manager", release: "4.18.3", program: "v1.2.3", now: now, upgradeable: upgradeable(nil, "4.18.3")}
	for _, step := range []struct {
		up   bool
		want string
	}{
		{false, `Progressing=True [UpdateNotInEffect] Waiting to see update v1.2.3 succeed
Available=False [UpdateNotInEffect] No reconciliation succeeds; the log of the program says why
Degraded=True [UpdateNotInEffect] Waiting for updates to take effect
Upgradeable=False [UpdateNotInEffect] Waiting for updates to take effect
`},
		{true, `version operator 4.18.3
version operator-lifecycle-manager v1.2.3
Progressing=False [AsExpected] Deployed v1.2.3
Available=True [AsExpected] The controllers work
Degraded=False [AsExpected] The controllers work
Upgradeable=True [AsExpected] Every installed ClusterServiceVersion works on the next minor version of the cluster, as far as it says
`},
		// What was reached stays reported.
		{false, `version operator 4.18.3
version operator-lifecycle-manager v1.2.3
Progressing=True [UpdateNotInEffect] Waiting to see update v1.2.3 succeed
Available=False [UpdateNotInEffect] No reconciliation succeeds; the log of the program says why
Degraded=True [UpdateNotInEffect] Waiting for updates to take effect
Upgradeable=False [UpdateNotInEffect] Waiting for updates to take effect
`},
	} {
		said.up = step.up
		said.fill(&status)
		if diff := cmp.Diff(step.want, told(&status)); diff != "" {
			t.Errorf("the status (-want +got):\n%s", diff)
		}
	}

	// The same again changes nothing, times included.
	before := status.DeepCopy()
	said.now = metav1.NewTime(now.Add(time.Minute))
	said.fill(&status)
	if diff := cmp.Diff(before, &status); diff != "" {
		t.Errorf("a second report (-first +second):\n%s", diff)
	}
	if c := operatorstatus.Find(status.Conditions, configv1.OperatorAvailable); !c.LastTransitionTime.Equal(&now) {
		t.Errorf("Available changed at %s", c.LastTransitionTime)
	}
}
