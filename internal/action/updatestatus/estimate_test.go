package updatestatus

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// took is a release of the history that was completed after a time, or given up after it.
func took(state configv1.UpdateState, d time.Duration) configv1.UpdateHistory {
	ended := metav1.NewTime(noon.Add(d))
	return configv1.UpdateHistory{State: state, StartedTime: metav1.NewTime(noon), CompletionTime: &ended}
}

func TestBaseline(t *testing.T) {
	running := configv1.UpdateHistory{State: configv1.PartialUpdate, StartedTime: metav1.NewTime(noon)}
	installed := took(configv1.CompletedUpdate, 40*time.Minute)
	for name, test := range map[string]struct {
		history []configv1.UpdateHistory
		want    time.Duration
	}{
		"installing":                        {[]configv1.UpdateHistory{running}, time.Hour},
		"the first update":                  {[]configv1.UpdateHistory{running, installed}, time.Hour},
		"the second":                        {[]configv1.UpdateHistory{running, took(configv1.CompletedUpdate, 90*time.Minute), installed}, 90 * time.Minute},
		"one in between was given up":       {[]configv1.UpdateHistory{running, took(configv1.PartialUpdate, 5*time.Minute), took(configv1.CompletedUpdate, 70*time.Minute), installed}, 70 * time.Minute},
		"all in between were given up":      {[]configv1.UpdateHistory{running, took(configv1.PartialUpdate, 5*time.Minute), installed}, time.Hour},
		"the newest complete one is chosen": {[]configv1.UpdateHistory{running, took(configv1.CompletedUpdate, 30*time.Minute), took(configv1.CompletedUpdate, 70*time.Minute), installed}, 30 * time.Minute},
	} {
		if got := baseline(test.history); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// The last operators take longest: with 97 of 100 updated, two thirds of the time are over.
func TestEstimate(t *testing.T) {
	for _, test := range []struct {
		observed   time.Duration
		completion float64
		want       time.Duration
	}{
		{4 * time.Minute, 0.97, time.Hour},
		{30 * time.Minute, 0, time.Hour},
		{30 * time.Minute, 1, 30 * time.Minute},
		{40 * time.Minute, 0.97, time.Hour},
	} {
		got := estimate(time.Hour, test.observed, test.completion)
		if math.Abs(float64(got-test.want)) > float64(time.Minute) {
			t.Errorf("%s with %.0f%% updated: got %s, want about %s", test.observed, 100*test.completion, got, test.want)
		}
	}
	for percent := range 100 {
		if a, b := timeCompletion(float64(percent)/100), timeCompletion(float64(percent+1)/100); a >= b || a < 0 || b > 1 {
			t.Errorf("from %d to %d percent of the operators the time goes from %f to %f", percent, percent+1, a, b)
		}
	}
}

func TestAssessment(t *testing.T) {
	for _, test := range []struct {
		left      time.Duration
		remaining time.Duration
		want      Assessment
	}{
		{time.Hour, 72 * time.Minute, Progressing},
		{5 * time.Minute, 6 * time.Minute, Progressing},
		{0, 0, Progressing},
		{-6 * time.Minute, -5 * time.Minute, Slow},
		{-12 * time.Minute, -10 * time.Minute, Slow},
		{-24 * time.Minute, -20 * time.Minute, Stalled},
	} {
		remaining := generous(test.left)
		if got := assessmentOf(remaining); got != test.want || remaining != test.remaining {
			t.Errorf("%s left: %s, %s; want %s, %s", test.left, remaining, got, test.remaining, test.want)
		}
	}
}
