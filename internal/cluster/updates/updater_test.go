package updates

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// fakeService is an update service.
type fakeService struct {
	requests []string
	wrong    *RetrieveError
	risks    []cincinnati.Risk
}

func (s *fakeService) retrieveUpdates(_ context.Context, q Query) (*retrievedUpdates, *RetrieveError) {
	s.requests = append(s.requests, q.Channel)
	if s.wrong != nil {
		return nil, s.wrong
	}

	node := func(version string) cincinnati.Node {
		return cincinnati.Node{Version: version, Payload: "r@sha256:" + version}
	}
	current := node("4.1.0")
	current.Metadata = map[string]string{cincinnati.MetadataURL: "https://example.com/0"}
	found := &retrievedUpdates{current: &current, available: []cincinnati.Node{node("4.1.1")}}
	if s.risks != nil {
		found.conditional = []cincinnati.ConditionalUpdate{{Node: node("4.1.2"), Risks: s.risks}}
	}

	return found, nil
}

// fakeQuerier maps queries to results. Other queries fail.
type fakeQuerier map[string]bool

func (a fakeQuerier) Match(_ context.Context, query string) (bool, error) {
	matches, ok := a[query]
	if !ok {
		return false, errors.New("no answer to " + query)
	}
	return matches, nil
}

const period = 3 * time.Minute

func newTestUpdater(s *fakeService, promql Querier) (*updater, *testclock.FakeClock) {
	clock := testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	u := newUpdater(Options{PromQL: promql, Log: logr.Discard(), Clock: clock, Period: period})
	u.source = s
	return u, clock
}

func formatVersions(releases []configv1.Release) string {
	var all []string
	for _, r := range releases {
		all = append(all, r.Version)
	}
	return strings.Join(all, " ")
}

func TestQueryTimes(t *testing.T) {
	s := &fakeService{}
	u, clock := newTestUpdater(s, nil)
	q := newQuery("https://example.com")
	sync := func(what, available, reason string, requests int) {
		t.Helper()
		result, wait := u.refreshResult(t.Context(), q, nil)
		if got := formatVersions(result.Available); got != available || result.Reason != reason || len(s.requests) != requests {
			t.Errorf("%s: got available %q, reason %q, %d requests; want %q, %q, %d", what, got, result.Reason, len(s.requests), available, reason, requests)
		}
		if wait < 0 || wait > period && s.wrong == nil {
			t.Errorf("%s: got the next request in %s, want at most %s", what, wait, period)
		}
	}

	sync("at first", "4.1.1", "", 1)
	clock.Step(period - time.Second)
	sync("too early", "4.1.1", "", 1)
	clock.Step(time.Second)
	sync("after the period", "4.1.1", "", 2)
	q.Channel = "fast-4.1"
	sync("another channel", "4.1.1", "", 3)
	q.AcceptedRisks = []string{"A"}
	sync("other accepted risks", "4.1.1", "", 3)

	s.wrong = newRetrieveError(ReasonResponseFailed, "unexpected HTTP status: 500")
	clock.Step(period)
	sync("a failure keeps what was known", "4.1.1", ReasonResponseFailed, 4)
	clock.Step(24*time.Hour - 2*period)
	sync("for less than 24 hours", "4.1.1", ReasonResponseFailed, 5)
	clock.Step(period)
	sync("and no longer", "", ReasonResponseFailed, 6)

	s.wrong = nil
	clock.Step(period)
	sync("it answers again", "4.1.1", "", 7)
	s.wrong = newRetrieveError(ReasonVersionNotFound, "not found")
	clock.Step(period)
	sync("an answer that there is nothing", "", ReasonVersionNotFound, 8)

	s.wrong = newRetrieveError(ReasonRemoteFailed, "refused")
	q.Channel = "stable-4.2"
	sync("what is known of another channel is of no use", "", ReasonRemoteFailed, 9)
	s.wrong = &RetrieveError{Reason: ReasonRemoteFailed, Err: errors.New("busy"), RetryAfter: time.Hour}
	clock.Step(period)
	sync("requests a delay", "", ReasonRemoteFailed, 10)
	clock.Step(time.Hour - time.Second)
	sync("is left alone", "", ReasonRemoteFailed, 10)
	clock.Step(time.Second)
	sync("until the hour is over", "", ReasonRemoteFailed, 11)

	s.wrong = nil
	clock.SetTime(clock.Now().Add(-24 * time.Hour))
	sync("the clock was set back", "4.1.1", "", 12)
	clock.Step(period - time.Second)
	sync("too early after the clock was set back", "4.1.1", "", 12)
}

// Clusters that start at the same time have different intervals.
func TestRandomInterval(t *testing.T) {
	for range 100 {
		if p := newUpdater(Options{}).period; p < minServiceInterval || p >= 2*minServiceInterval {
			t.Fatalf("got interval %s, want one from %s to less than twice of it", p, minServiceInterval)
		}
	}
}

func newRisk(name string, queries ...string) cincinnati.Risk {
	r := cincinnati.Risk{Name: name, URL: "https://example.com/" + name, Message: name + " happens."}
	for _, query := range queries {
		rule := cincinnati.Rule{Type: cincinnati.RulePromQL, PromQL: &cincinnati.PromQL{PromQL: query}}
		if query == "Always" {
			rule = cincinnati.Rule{Type: cincinnati.RuleAlways}
		}
		r.MatchingRules = append(r.MatchingRules, rule)
	}

	return r
}

func TestRisks(t *testing.T) {
	const unknownB = "Could not evaluate exposure to update risk B (no answer to lost)\n  B description: B happens.\n  B URL: https://example.com/B"
	for name, c := range map[string]struct {
		risks     []cincinnati.Risk
		accepted  []string
		want      metav1.Condition
		available string
		applies   string
	}{
		"Always": {
			risks:     []cincinnati.Risk{newRisk("A", "Always")},
			want:      metav1.Condition{Status: metav1.ConditionFalse, Reason: "A", Message: "A happens. https://example.com/A"},
			available: "4.1.1", applies: "True/Match",
		},
		"does not match": {
			risks:     []cincinnati.Risk{newRisk("A", "no")},
			want:      metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonNotExposedToRisks, Message: messageNotExposed},
			available: "4.1.2 4.1.1", applies: "False/NotMatch",
		},
		"the first rule that can be evaluated decides": {
			risks:     []cincinnati.Risk{newRisk("A", "lost", "no", "Always")},
			want:      metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonNotExposedToRisks, Message: messageNotExposed},
			available: "4.1.2 4.1.1", applies: "False/NotMatch",
		},
		"none can be evaluated": {
			risks:     []cincinnati.Risk{newRisk("B", "lost")},
			want:      metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonEvaluationFailed, Message: unknownB},
			available: "4.1.1", applies: "Unknown/EvaluationFailed",
		},
		"two match": {
			risks:     []cincinnati.Risk{newRisk("A", "yes"), newRisk("C", "yes")},
			want:      metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonMultipleReasons, Message: "A happens. https://example.com/A\n\nC happens. https://example.com/C"},
			available: "4.1.1", applies: "True/Match True/Match",
		},
		"two with one reason": {
			risks:     []cincinnati.Risk{newRisk("a-1", "yes"), newRisk("a-2", "yes")},
			want:      metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonExposedToRisks, Message: "a-1 happens. https://example.com/a-1\n\na-2 happens. https://example.com/a-2"},
			available: "4.1.1", applies: "True/Match True/Match",
		},
		"False beats Unknown": {
			risks:     []cincinnati.Risk{newRisk("A", "yes"), newRisk("B", "lost"), newRisk("C", "no")},
			want:      metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonMultipleReasons, Message: "A happens. https://example.com/A\n\n" + unknownB},
			available: "4.1.1", applies: "True/Match Unknown/EvaluationFailed False/NotMatch",
		},
		"Unknown before False": {
			risks:     []cincinnati.Risk{newRisk("B", "lost"), newRisk("A", "yes")},
			want:      metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonMultipleReasons, Message: unknownB + "\n\nA happens. https://example.com/A"},
			available: "4.1.1", applies: "Unknown/EvaluationFailed True/Match",
		},
		"Unknown beats True": {
			risks:     []cincinnati.Risk{newRisk("C", "no"), newRisk("B", "lost")},
			want:      metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonEvaluationFailed, Message: unknownB},
			available: "4.1.1", applies: "False/NotMatch Unknown/EvaluationFailed",
		},
		"accepted": {
			risks: []cincinnati.Risk{newRisk("A", "yes"), newRisk("C", "no")}, accepted: []string{"A"},
			want:      metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonAllExposedRisksAccepted, Message: messageAccepted},
			available: "4.1.2 4.1.1", applies: "True/Match False/NotMatch",
		},
		"one of two accepted": {
			risks: []cincinnati.Risk{newRisk("A", "yes"), newRisk("C", "yes")}, accepted: []string{"A"},
			want:      metav1.Condition{Status: metav1.ConditionFalse, Reason: "C", Message: "C happens. https://example.com/C"},
			available: "4.1.1", applies: "True/Match True/Match",
		},
		"accepted though unknown": {
			risks: []cincinnati.Risk{newRisk("B", "lost")}, accepted: []string{"B"},
			want:      metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonAllExposedRisksAccepted, Message: messageAccepted},
			available: "4.1.2 4.1.1", applies: "Unknown/EvaluationFailed",
		},
		"accepted and not needed": {
			risks: []cincinnati.Risk{newRisk("A", "no")}, accepted: []string{"A"},
			want:      metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonNotExposedToRisks, Message: messageNotExposed},
			available: "4.1.2 4.1.1", applies: "False/NotMatch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, clock := newTestUpdater(&fakeService{risks: c.risks}, fakeQuerier{"yes": true, "no": false})
			q := newQuery("https://example.com")
			q.Image, q.AcceptedRisks = "elsewhere@sha256:4.1.0", c.accepted
			result, wait := u.refreshResult(t.Context(), q, nil)
			if got := formatVersions(result.Available); got != c.available {
				t.Errorf("got available %q, want %q", got, c.available)
			}
			c.want.Type, c.want.LastTransitionTime = configv1.ConditionalUpdateRecommended, metav1.NewTime(clock.Now())
			if diff := cmp.Diff([]metav1.Condition{c.want}, result.Conditional[0].Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			var applies []string
			unknown := false
			for _, risk := range result.Conditional[0].Risks {
				applies = append(applies, string(risk.Conditions[0].Status)+"/"+risk.Conditions[0].Reason)
				unknown = unknown || risk.Conditions[0].Status == metav1.ConditionUnknown
			}
			if got := strings.Join(applies, " "); got != c.applies {
				t.Errorf("got risks that apply %s, want %s", got, c.applies)
			}
			if unknown && wait != unknownRiskRetryInterval || !unknown && wait != period {
				t.Errorf("got the next evaluation in %s, want %s, or %s if a risk is unknown", wait, period, unknownRiskRetryInterval)
			}
			if result.Current == nil || result.Current.URL != "https://example.com/0" {
				t.Errorf("got current release %v, want one with a URL", result.Current)
			}
		})
	}
}

// The state of the cluster may change between two queries of the update service.
func TestRisksChange(t *testing.T) {
	s, promql := &fakeService{risks: []cincinnati.Risk{newRisk("A", "a")}}, fakeQuerier{"a": true}
	u, clock := newTestUpdater(s, promql)
	q := newQuery("https://example.com")
	began := metav1.NewTime(clock.Now().Add(-time.Hour))
	known := []configv1.ConditionalUpdate{{
		Release:    configv1.Release{Version: "4.1.2", Image: "r@sha256:4.1.2"},
		Conditions: []metav1.Condition{{Type: configv1.ConditionalUpdateRecommended, Status: metav1.ConditionFalse, LastTransitionTime: began}},
		Risks: []configv1.ConditionalUpdateRisk{{Name: "A", Conditions: []metav1.Condition{
			{Type: configv1.ConditionalUpdateRiskApplies, Status: metav1.ConditionTrue, LastTransitionTime: began},
		}}},
	}}

	result, _ := u.refreshResult(t.Context(), q, known)
	update := result.Conditional[0]
	if !update.Conditions[0].LastTransitionTime.Equal(&began) || !update.Risks[0].Conditions[0].LastTransitionTime.Equal(&began) {
		t.Errorf("after a restart got transition times %v and %v, want %v",
			update.Conditions[0].LastTransitionTime, update.Risks[0].Conditions[0].LastTransitionTime, began)
	}

	promql["a"] = false
	clock.Step(time.Second)
	result, _ = u.refreshResult(t.Context(), q, known)
	now := metav1.NewTime(clock.Now())
	if condition := result.Conditional[0].Conditions[0]; condition.Status != metav1.ConditionTrue || !condition.LastTransitionTime.Equal(&now) {
		t.Errorf("got %+v, want a transition to True now", condition)
	}
	if len(s.requests) != 1 {
		t.Errorf("the update service received %d requests, want 1", len(s.requests))
	}

	// This also holds while the service requests a delay.
	s.wrong = &RetrieveError{Reason: ReasonRemoteFailed, Err: errors.New("busy"), RetryAfter: time.Hour}
	for _, applies := range []bool{true, false} {
		clock.Step(period)
		promql["a"] = applies
		result, wait := u.refreshResult(t.Context(), q, known)
		if condition := result.Conditional[0].Conditions[0]; (condition.Status == metav1.ConditionFalse) != applies || wait > period {
			t.Errorf("got %+v and the next evaluation in %s, want risks that apply: %v, within %s", condition, wait, applies, period)
		}
	}

	if len(s.requests) != 2 {
		t.Errorf("the update service received %d requests, want 2", len(s.requests))
	}
}

func TestMaxConditionalUpdates(t *testing.T) {
	var found retrievedUpdates
	for range maxConditionalUpdates + 1 {
		found.conditional = append(found.conditional, cincinnati.ConditionalUpdate{Risks: []cincinnati.Risk{newRisk("A", "Always")}})
	}

	u, _ := newTestUpdater(nil, nil)
	u.source = fixedService{&found}
	result, _ := u.refreshResult(t.Context(), newQuery("https://example.com"), nil)
	if len(result.Conditional) != maxConditionalUpdates {
		t.Errorf("got %d conditional updates, want %d", len(result.Conditional), maxConditionalUpdates)
	}
}

type fixedService struct{ found *retrievedUpdates }

func (f fixedService) retrieveUpdates(context.Context, Query) (*retrievedUpdates, *RetrieveError) {
	return f.found, nil
}

// A watcher signals changes, and queries at once when the query changes.
func TestWatcher(t *testing.T) {
	w := NewWatcher(Options{Log: logr.Discard(), Period: time.Hour})
	s := &blockingService{seen: make(chan string, 10)}
	w.updater.source = s
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()

	q := newQuery("https://example.com")
	w.Set(q, nil)
	<-w.Changed()
	if result := w.Result(); result.Query.Channel != q.Channel || result.Status != metav1.ConditionTrue {
		t.Errorf("got result %+v, want status True for channel %s", result, q.Channel)
	}

	q.Channel = "slow"
	w.Set(q, nil)
	for channel := range s.seen {
		if channel == "slow" {
			break
		}
	}

	// A service that does not respond does not delay the next query.
	q.Channel = "fast-4.1"
	w.Set(q, nil)
	<-w.Changed()
	if result := w.Result(); result.Query.Channel != "fast-4.1" {
		t.Errorf("got the result of channel %q, want fast-4.1", result.Query.Channel)
	}

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// blockingService is an update service that does not respond for one channel.
type blockingService struct{ seen chan string }

func (c *blockingService) retrieveUpdates(ctx context.Context, q Query) (*retrievedUpdates, *RetrieveError) {
	c.seen <- q.Channel
	if q.Channel == "slow" {
		<-ctx.Done()
		return nil, newRetrieveError(ReasonRemoteFailed, "%w", ctx.Err())
	}
	return &retrievedUpdates{}, nil
}
