package unpack

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
)

func TestAttempt(t *testing.T) {
	now := time.Unix(10_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	network, content := errors.New("no route to host"), &contentError{errors.New("manifests: file does not exist")}
	limits := Limits{Timeout: 10 * time.Minute}
	for name, test := range map[string]struct {
		attempt    attempt
		limits     Limits
		due, retry bool
		want       string
		again      time.Duration
	}{
		"new":              {attempt{began: now}, limits, true, false, "BundleLookupPending JobNotStarted: unpack job not yet started", time.Second},
		"running":          {attempt{began: now, running: true}, limits, false, false, "BundleLookupPending JobIncomplete: unpack job not completed", time.Second},
		"running for long": {attempt{began: ago(time.Minute), running: true}, limits, false, false, "BundleLookupPending JobIncomplete: unpack job not completed", AskAgain},
		"failed once": {
			attempt{began: ago(5 * time.Second), tries: 1, ended: ago(4 * time.Second), err: network}, limits, false, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", time.Second,
		},
		"due again": {
			attempt{began: ago(time.Minute), tries: 1, ended: ago(5 * time.Second), err: network}, limits, true, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", AskAgain,
		},
		"failed often": {
			attempt{began: ago(9 * time.Minute), tries: 30, ended: ago(119 * time.Second), err: network}, limits, false, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", AskAgain,
		},
		"too late": {
			attempt{began: ago(11 * time.Minute), tries: 4, ended: ago(time.Minute), err: network}, limits, false, false,
			"BundleLookupFailed DeadlineExceeded: Job was active longer than specified deadline: no route to host", 4 * time.Minute,
		},
		"without end": {
			attempt{began: ago(11 * time.Hour), tries: 4, ended: ago(time.Hour), err: network}, Limits{}, true, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", AskAgain,
		},
		"no bundle": {
			attempt{began: ago(time.Minute), tries: 1, ended: ago(time.Minute), err: content}, limits, false, false,
			"BundleLookupFailed BackoffLimitExceeded: Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist", 4 * time.Minute,
		},
		"no bundle, rested": {
			attempt{began: ago(time.Minute), tries: 1, ended: ago(time.Minute), err: content}, Limits{Timeout: time.Hour, MinRetryInterval: time.Minute}, false, true,
			"BundleLookupFailed BackoffLimitExceeded: Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist", time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.attempt.isDue(test.limits, now); got != test.due {
				t.Errorf("due: got %v, want %v", got, test.due)
			}
			if got := test.attempt.isRetried(test.limits, now); got != test.retry {
				t.Errorf("retried: got %v, want %v", got, test.retry)
			}

			var r Result
			test.attempt.report(&r, test.limits, now)
			c := r.Lookup.Conditions[0]
			if got := fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message); got != test.want || len(r.Lookup.Conditions) != 1 {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
			if r.Again != test.again {
				t.Errorf("again: got %v, want %v", r.Again, test.again)
			}
		})
	}
}

// A namespace whose images are never pulled leaves room for the others.
func TestSlots(t *testing.T) {
	i := NewInline(InlineOptions{})
	for n := range maxPulls {
		namespace := fmt.Sprintf("tenant-%d", n/maxPullsOfNamespace)
		if !i.hasSlot(namespace) {
			t.Fatalf("pull %d: there is no slot", n)
		}
		i.attempts[strconv.Itoa(n)] = &attempt{namespace: namespace, running: true}
		if n%maxPullsOfNamespace == maxPullsOfNamespace-1 && i.hasSlot(namespace) {
			t.Errorf("namespace %s has more than %d slots", namespace, maxPullsOfNamespace)
		}
	}

	if i.hasSlot("another") {
		t.Errorf("there are more than %d slots", maxPulls)
	}

	delete(i.attempts, "0")
	if !i.hasSlot("another") {
		t.Error("a slot that is free is not given")
	}
}

func TestUnneeded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	content := func(name, catalog string, age time.Duration) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "olm", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)), Labels: map[string]string{LabelCatalogUID: catalog},
		}}
	}
	step := &v1alpha1.Step{}
	if err := steps.Refer([]*v1alpha1.Step{step}, steps.Reference{Name: "referred", Namespace: "olm"}); err != nil {
		t.Fatal(err)
	}

	plans := []v1alpha1.InstallPlan{{Status: v1alpha1.InstallPlanStatus{Plan: []*v1alpha1.Step{nil, {}, step}}}}
	catalogs := []v1alpha1.CatalogSource{{ObjectMeta: metav1.ObjectMeta{UID: types.UID("there")}}}
	all := []metav1.PartialObjectMetadata{
		content("new", "there", time.Minute), content("referred", "there", 10*time.Hour),
		content("old", "there", 2*time.Hour), content("orphan", "gone", time.Second),
	}
	var got []string
	for _, c := range unneeded(all, catalogs, plans, now) {
		got = append(got, c.Name)
	}

	if diff := cmp.Diff([]string{"old", "orphan"}, got); diff != "" {
		t.Errorf("deleted (-want +got)\n%s", diff)
	}
}
