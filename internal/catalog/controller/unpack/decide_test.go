package unpack

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

func TestIsPollDue(t *testing.T) {
	confirmed := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	stored := &catalogstore.Info{Source: catalogstore.Source{Ref: "r:v1"}, Confirmed: confirmed}
	for name, test := range map[string]struct {
		ref    string
		poll   *int32
		stored *catalogstore.Info
		after  time.Duration
		share  float64
		want   bool
	}{
		"nothing stored":       {"r:v1", nil, nil, 0, 0, true},
		"stored, no polling":   {"r:v1", nil, stored, 1000 * time.Hour, 0, false},
		"another reference":    {"r:v2", nil, stored, 0, 0, true},
		"before the interval":  {"r:v1", ptr.To(int32(10)), stored, 9 * time.Minute, 0, false},
		"at the interval":      {"r:v1", ptr.To(int32(10)), stored, 10 * time.Minute, 0, true},
		"within the spread":    {"r:v1", ptr.To(int32(10)), stored, 10 * time.Minute, 0.5, false},
		"after the spread":     {"r:v1", ptr.To(int32(10)), stored, 10*time.Minute + 30*time.Second, 0.5, true},
		"a clock a bit behind": {"r:v1", ptr.To(int32(10)), stored, -30 * time.Second, 0, false},
		"a clock set back":     {"r:v1", ptr.To(int32(10)), stored, -1000 * time.Hour, 0, true},
		"set back, no polling": {"r:v1", nil, stored, -1000 * time.Hour, 0, false},
		"the longest interval": {"r:v1", ptr.To(int32(1<<31 - 1)), stored, 1000 * time.Hour, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			image := olmv1.ImageSource{Ref: test.ref, PollIntervalMinutes: test.poll}
			if got := isPollDue(image, test.stored, confirmed.Add(test.after), test.share); got != test.want {
				t.Errorf("due is %v, want %v", got, test.want)
			}
		})
	}
}

func TestDecideContent(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	stored := &catalogstore.Info{Source: catalogstore.Source{Ref: "r:v1"}, Confirmed: now}
	retrieved := catalogstore.Info{Source: catalogstore.Source{Ref: "r:v1", Resolved: "r@new"}, Confirmed: now}
	invalid := &fbc.Error{Err: errors.New("invalid")}
	isWaiting := func(err error) bool { return errors.Is(err, pull.ErrRetrieving) && reconcile.IsWait(err) }
	for name, test := range map[string]struct {
		change func(*olmv1.ClusterCatalog)
		facts  facts
		want   decision
		// isErr checks the error of the decision. Nil means that there must be none.
		isErr func(error) bool
	}{
		"unavailable": {
			change: func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable },
			want:   decision{action: actionRemove},
		},
		"a source of another type": {
			change: func(c *olmv1.ClusterCatalog) { c.Spec.Source = olmv1.CatalogSource{Type: "Git"} },
			isErr:  reconcile.IsStop,
		},
		"nothing stored":         {want: decision{action: actionRetrieve}, isErr: isWaiting},
		"a retrieval is running": {facts: facts{retrieval: pull.Running}, isErr: isWaiting},
		"stored":                 {facts: facts{stored: stored}, want: decision{content: stored}},
		"a refresh is requested": {
			change: func(c *olmv1.ClusterCatalog) {
				c.Annotations = map[string]string{olmv1.AnnotationRefresh: now.Add(time.Minute).Format(time.RFC3339)}
			},
			facts: facts{stored: stored}, want: decision{action: actionRetrieve}, isErr: isWaiting,
		},
		"retrieved": {
			facts: facts{retrieval: pull.Ended, retrieved: retrieved},
			want:  decision{completesRefresh: true, content: &retrieved},
		},
		"a temporary failure": {
			facts: facts{stored: stored, retrieval: pull.Ended, retrievalError: errors.New("down")},
			isErr: func(err error) bool { return err != nil && !reconcile.IsStop(err) && !reconcile.IsWait(err) },
		},
		"invalid content": {
			facts: facts{stored: stored, retrieval: pull.Ended, retrievalError: invalid},
			want:  decision{completesRefresh: true}, isErr: reconcile.IsStop,
		},
		"invalid content and a poll": {
			change: func(c *olmv1.ClusterCatalog) { c.Spec.Source.Image.PollIntervalMinutes = ptr.To(int32(1)) },
			facts:  facts{stored: stored, retrieval: pull.Ended, retrievalError: invalid},
			want:   decision{completesRefresh: true}, isErr: reconcile.IsWait,
		},
	} {
		t.Run(name, func(t *testing.T) {
			catalog := &olmv1.ClusterCatalog{Spec: olmv1.ClusterCatalogSpec{Source: olmv1.CatalogSource{
				Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "r:v1"},
			}}}
			if test.change != nil {
				test.change(catalog)
			}

			test.facts.now = now
			got := decideContent(catalog, test.facts)
			if (test.isErr == nil && got.err != nil) || (test.isErr != nil && !test.isErr(got.err)) {
				t.Errorf("got unexpected error %v", got.err)
			}

			got.err = nil
			if diff := cmp.Diff(&test.want, got, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("the decision differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJitterIsTheCatalogsOwn(t *testing.T) {
	a, b := jitterFraction("1"), jitterFraction("2")
	if a == b || a != jitterFraction("1") || a < 0 || a >= 1 || b < 0 || b >= 1 {
		t.Errorf("got fractions %v and %v, want different, repeatable ones from 0 to 1", a, b)
	}

	// The documented maximum delay of a poll is a tenth of the interval.
	for _, share := range []float64{0, a, b, 0.999999} {
		if got := pollJitter(10*time.Minute, share); got < 0 || got >= time.Minute {
			t.Errorf("fraction %v of 10 minutes: got jitter %v, want less than a minute", share, got)
		}
	}
}

func TestPinnedImage(t *testing.T) {
	done := func(change func(*olmv1.ClusterCatalog)) *olmv1.ClusterCatalog {
		catalog := &olmv1.ClusterCatalog{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Spec:       olmv1.ClusterCatalogSpec{Source: olmv1.CatalogSource{Image: &olmv1.ImageSource{Ref: "r:v1"}}},
			Status: olmv1.ClusterCatalogStatus{
				ResolvedSource: &olmv1.ResolvedCatalogSource{Image: &olmv1.ResolvedImageSource{Ref: "r@sha256:1"}},
				Conditions:     []metav1.Condition{{Type: "Progressing", Reason: "Succeeded", ObservedGeneration: 2}},
			},
		}
		change(catalog)
		return catalog
	}

	for name, test := range map[string]struct {
		catalog *olmv1.ClusterCatalog
		want    string
	}{
		"resolved":       {done(func(*olmv1.ClusterCatalog) {}), "r@sha256:1"},
		"polling":        {done(func(c *olmv1.ClusterCatalog) { c.Spec.Source.Image.PollIntervalMinutes = ptr.To(int32(1)) }), ""},
		"never resolved": {done(func(c *olmv1.ClusterCatalog) { c.Status.ResolvedSource = nil }), ""},
		"other spec":     {done(func(c *olmv1.ClusterCatalog) { c.Generation = 3 }), ""},
		"failed":         {done(func(c *olmv1.ClusterCatalog) { c.Status.Conditions[0].Reason = "Retrying" }), ""},
		"no conditions":  {done(func(c *olmv1.ClusterCatalog) { c.Status.Conditions = nil }), ""},
	} {
		if got := pinnedImage(test.catalog); got != test.want {
			t.Errorf("%s: pinned is %q, want %q", name, got, test.want)
		}
	}
}

func TestConditions(t *testing.T) {
	failure := errors.New("it failed")
	for name, test := range map[string]struct {
		mode   olmv1.AvailabilityMode
		err    error
		serves bool
		want   [2]string
	}{
		"good":                  {"Available", nil, true, [2]string{"True Succeeded " + messageUnpacked, "True Available " + messageServing}},
		"blocked, nothing":      {"Available", reconcile.Stop("Blocked", failure), false, [2]string{"False Blocked it failed", "False Unavailable " + messageNothing}},
		"blocked, until polled": {"Available", reconcile.Wait("Blocked", time.Minute, failure), true, [2]string{"False Blocked it failed", "True Available " + messageServing}},
		"retrying":              {"Available", reconcile.Retry("Retrying", failure), true, [2]string{"True Retrying it failed", "True Available " + messageServing}},
		"plain error":           {"", failure, false, [2]string{"True Retrying it failed", "False Unavailable " + messageNothing}},
		"unavailable":           {"Unavailable", nil, false, [2]string{"True Succeeded " + messageUnavailable, "False UserSpecifiedUnavailable " + messageUnavailable}},
		"unavailable, failed":   {"Unavailable", reconcile.Retry("Retrying", failure), true, [2]string{"True Retrying it failed", "False UserSpecifiedUnavailable " + messageUnavailable}},
	} {
		t.Run(name, func(t *testing.T) {
			catalog := &olmv1.ClusterCatalog{Spec: olmv1.ClusterCatalogSpec{AvailabilityMode: test.mode}}
			var got [2]string
			for i, c := range []metav1.Condition{newProgressingCondition(catalog, test.err), newServingCondition(catalog, test.serves)} {
				got[i] = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
