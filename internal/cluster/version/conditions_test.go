package version

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// TestProgress shows the conditions for each state of the worker.
func TestProgress(t *testing.T) {
	now := start.Time
	release := configv1.Release{Version: "1.2.4", Image: "image"}
	awaiting := func(reason, message string, effect worker.Effect, names ...string) error {
		return &worker.Error{Reason: reason, Effect: effect, Message: message, Names: names}
	}
	updating := awaiting("ClusterOperatorsUpdating", "Cluster operators etcd, olm are updating versions", worker.EffectNone, "etcd", "olm")
	degraded := awaiting("ClusterOperatorDegraded", "Cluster operator olm is degraded", worker.EffectFailAfterInterval, "olm")
	down := awaiting("ClusterOperatorNotAvailable", "Cluster operator olm is not available", worker.EffectFail, "olm")
	since := func(ago time.Duration) map[string]time.Time {
		return map[string]time.Time{"etcd": now.Add(-ago), "olm": now.Add(-ago), "machine-config": now.Add(-ago)}
	}
	at := func(change func(*worker.Status)) worker.Status {
		status := worker.Status{Actual: release, Done: 669, Total: 1000}
		change(&status)
		return status
	}
	cases := []struct {
		name      string
		status    worker.Status
		isInvalid bool
		// complete is true if the cluster was complete before.
		complete bool
	}{
		{name: "an installation begins", status: at(func(s *worker.Status) { s.Initial, s.Done, s.Total = true, 0, 0 })},
		{name: "an installation goes on", status: at(func(s *worker.Status) { s.Initial = true })},
		{name: "an update begins", complete: true, status: at(func(s *worker.Status) { s.Done = 0 })},
		{name: "an update goes on", complete: true, status: at(func(*worker.Status) {})},
		{name: "a version that is not known", complete: true, status: at(func(s *worker.Status) { s.Actual.Version = "" })},
		{name: "operators are awaited", complete: true, status: at(func(s *worker.Status) { s.Failure, s.Waiting = updating, since(time.Minute) })},
		{name: "operators are awaited for 31 minutes", complete: true, status: at(func(s *worker.Status) { s.Failure, s.Waiting = updating, since(31*time.Minute) })},
		{name: "an operator is degraded for 39 minutes", complete: true, status: at(func(s *worker.Status) { s.Failure, s.Waiting = degraded, since(39*time.Minute) })},
		{name: "an operator is degraded for 41 minutes", complete: true, status: at(func(s *worker.Status) { s.Failure, s.Waiting = degraded, since(41*time.Minute) })},
		{name: "an operator is not available", complete: true, status: at(func(s *worker.Status) { s.Failure = down })},
		{name: "steady", complete: true, status: at(func(s *worker.Status) { s.Reconciling, s.Completed, s.Done = true, 3, 1000 })},
		{name: "steady after a new start", complete: true, status: at(func(s *worker.Status) { s.Reconciling, s.Done = true, 0 })},
		{name: "steady, and something fails", complete: true, status: at(func(s *worker.Status) { s.Reconciling, s.Completed, s.Failure = true, 3, down })},
		{name: "steady, and the spec is invalid", complete: true, isInvalid: true, status: at(func(s *worker.Status) { s.Reconciling, s.Completed = true, 3 })},
		{name: "an update, and the spec is invalid", complete: true, isInvalid: true, status: at(func(*worker.Status) {})},
	}

	var out strings.Builder
	for _, c := range cases {
		conditions := &conditionSet{now: start}
		if c.complete {
			conditions.set(configv1.OperatorAvailable, metav1.ConditionTrue, "", "Done applying 1.2.3")
		}
		conditions.setProgress(c.status, c.isInvalid, now)
		fmt.Fprintf(&out, "# %s\n%s\n", c.name, formatConditions(conditions.sorted()))
	}

	golden.Check(t, "progress.txt", []byte(out.String()))
}

func formatConditions(all []condition) string {
	var out strings.Builder
	for _, c := range all {
		fmt.Fprintf(&out, "%s=%s [%s] %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return out.String()
}

// TestOtherConditions shows the conditions about acceptance and everything else.
func TestOtherConditions(t *testing.T) {
	applied := configv1.Release{Version: "1.2.3", Image: "registry.example/release@sha256:01"}
	target := configv1.Release{Version: "1.2.4", Image: "registry.example/release@sha256:02"}
	failure := func(reason, message string) *acceptance.State {
		return &acceptance.State{Target: target, Failure: &acceptance.Failure{Reason: reason, Message: message}}
	}
	cases := []struct {
		name string
		set  func(*conditionSet)
	}{
		{"nothing is applied", func(c *conditionSet) { c.setReleaseAccepted(nil, configv1.Release{}, "amd64") }},
		{"nothing else is wanted", func(c *conditionSet) { c.setReleaseAccepted(nil, applied, "amd64") }},
		{"a release is judged", func(c *conditionSet) { c.setReleaseAccepted(&acceptance.State{Target: target}, applied, "amd64") }},
		{"it failed", func(c *conditionSet) {
			c.setReleaseAccepted(failure(acceptance.ReasonVersion, "Verifying payload failed"), applied, "amd64")
		}},
		{"it is accepted", func(c *conditionSet) {
			c.setReleaseAccepted(&acceptance.State{Target: target, Accepted: &acceptance.Accepted{Release: target}}, applied, "amd64")
		}},
		{"capabilities are as wanted", func(c *conditionSet) { c.setImplicitCapabilities(nil) }},
		{"capabilities are not", func(c *conditionSet) { c.setImplicitCapabilities([]string{"Console", "marketplace"}) }},
		{"the update service was not asked", func(c *conditionSet) { c.setRetrievedUpdates(updates.Result{}) }},
		{"the update service answered", func(c *conditionSet) { c.setRetrievedUpdates(updates.Result{Status: metav1.ConditionTrue}) }},
		{"the update service failed", func(c *conditionSet) {
			c.setRetrievedUpdates(updates.Result{Status: metav1.ConditionFalse, Reason: "NoChannel", Message: "The update channel has not been configured."})
		}},
		{"the spec is invalid", func(c *conditionSet) {
			c.setInvalidSpec(field.ErrorList{field.Required(field.NewPath("spec"), "is empty")})
		}},
		{"there is no release", func(c *conditionSet) { c.setNoDesiredImage() }},
		{"the ClusterVersion cannot be looked after", func(c *conditionSet) {
			c.set(configv1.OperatorProgressing, metav1.ConditionTrue, "Before", "before")
			c.setSyncFailed(errors.New("etcd away"))
		}},
	}

	var out strings.Builder
	for _, c := range cases {
		conditions := &conditionSet{now: start}
		c.set(conditions)
		fmt.Fprintf(&out, "# %s\n%s\n", c.name, formatConditions(conditions.sorted()))
	}

	golden.Check(t, "conditions.txt", []byte(out.String()))
}

func TestTransitionTimes(t *testing.T) {
	later := metav1.NewTime(start.Add(time.Hour))
	c := &conditionSet{now: start}
	c.set("A", metav1.ConditionTrue, "One", "one")
	c.now = later
	c.set("A", metav1.ConditionTrue, "Two", "two")
	if got := c.all[0]; !got.LastTransitionTime.Equal(&start) || got.Message != "two" || got.Reason != "Two" {
		t.Errorf("with the same status: got condition %+v, want reason Two with the previous transition time", got)
	}

	c.set("A", metav1.ConditionFalse, "Two", "two")
	if got := c.all[0]; !got.LastTransitionTime.Equal(&later) {
		t.Errorf("with another status: got condition %+v, want the transition time %s", got, later)
	}
}

func TestOrderOfConditions(t *testing.T) {
	c := &conditionSet{now: start}
	for _, kind := range append([]string{"Foreign", "Invalid", "Progressing", "Available"}, obsoleteConditions...) {
		c.set(kind, metav1.ConditionTrue, "", "")
	}

	c.setInvalidSpec(nil) // The spec is valid again.
	var kinds []string
	for _, condition := range c.sorted() {
		kinds = append(kinds, condition.Type)
	}

	if got := strings.Join(kinds, " "); got != "Available Progressing Foreign" {
		t.Errorf("got conditions %s, want Available Progressing Foreign", got)
	}
}
