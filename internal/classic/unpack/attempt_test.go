package unpack

import (
	"errors"
	"fmt"
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
	network, content := errors.New("no route to host"), &invalidContentError{errors.New("manifests: file does not exist")}
	limits := Limits{Timeout: 10 * time.Minute}
	for name, test := range map[string]struct {
		attempt    pullAttempt
		limits     Limits
		due, retry bool
		want       string
		again      time.Duration
	}{
		"new":              {pullAttempt{startedAt: now}, limits, true, false, "BundleLookupPending JobNotStarted: unpack job not yet started", time.Second},
		"running":          {pullAttempt{startedAt: now, running: true}, limits, false, false, "BundleLookupPending JobIncomplete: unpack job not completed", time.Second},
		"running for long": {pullAttempt{startedAt: ago(time.Minute), running: true}, limits, false, false, "BundleLookupPending JobIncomplete: unpack job not completed", PendingRequeueInterval},
		"failed once": {
			pullAttempt{startedAt: ago(5 * time.Second), failures: 1, lastFailedAt: ago(4 * time.Second), lastErr: network}, limits, false, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", time.Second,
		},
		"not stored": {
			pullAttempt{startedAt: ago(time.Minute), failures: 1, lastFailedAt: ago(4 * time.Second), lastErr: &storeError{errors.New("no space left")}}, limits, false, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: no space left", PendingRequeueInterval,
		},
		"due again": {
			pullAttempt{startedAt: ago(time.Minute), failures: 1, lastFailedAt: ago(5 * time.Second), lastErr: network}, limits, true, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", PendingRequeueInterval,
		},
		"failed often": {
			pullAttempt{startedAt: ago(9 * time.Minute), failures: 30, lastFailedAt: ago(119 * time.Second), lastErr: network}, limits, false, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", PendingRequeueInterval,
		},
		"too late": {
			pullAttempt{startedAt: ago(11 * time.Minute), failures: 4, lastFailedAt: ago(time.Minute), lastErr: network}, limits, false, false,
			"BundleLookupFailed DeadlineExceeded: Job was active longer than specified deadline: no route to host", 4 * time.Minute,
		},
		"without end": {
			pullAttempt{startedAt: ago(11 * time.Hour), failures: 4, lastFailedAt: ago(time.Hour), lastErr: network}, Limits{}, true, false,
			"BundleLookupPending JobIncomplete: unpack job not completed: Reason: ErrImagePull, Message: no route to host", PendingRequeueInterval,
		},
		"no bundle": {
			pullAttempt{startedAt: ago(time.Minute), failures: 1, lastFailedAt: ago(time.Minute), lastErr: content}, limits, false, false,
			"BundleLookupFailed BackoffLimitExceeded: Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist", 4 * time.Minute,
		},
		"no bundle, rested": {
			pullAttempt{startedAt: ago(time.Minute), failures: 1, lastFailedAt: ago(time.Minute), lastErr: content}, Limits{Timeout: time.Hour, MinRetryInterval: time.Minute}, false, true,
			"BundleLookupFailed BackoffLimitExceeded: Job has reached the specified backoff limit: reading the bundle: manifests: file does not exist", time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.attempt.isPullDue(test.limits, now); got != test.due {
				t.Errorf("due: got %v, want %v", got, test.due)
			}
			if got := test.attempt.isRetryDue(test.limits, now); got != test.retry {
				t.Errorf("retried: got %v, want %v", got, test.retry)
			}

			var r Result
			test.attempt.reportProgressTo(&r, test.limits, now)
			c := r.Lookup.Conditions[0]
			if got := fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message); got != test.want || len(r.Lookup.Conditions) != 1 {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
			if r.RequeueAfter != test.again {
				t.Errorf("again: got %v, want %v", r.RequeueAfter, test.again)
			}
		})
	}
}

// Pulls of a tenant's namespace that never end do not block those of others. Catalogs in trusted namespaces are
// limited only by the slots of each registry.
func TestSlots(t *testing.T) {
	i := NewInline(InlineOptions{})
	of := func(namespace string, trusted bool) unpackRequest {
		return unpackRequest{catalog: &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, trusted: trusted}
	}
	i.pulling["tenant"], i.pulling["olm"] = maxPullsPerNamespace, 10*maxPullsPerNamespace
	for _, test := range []struct {
		namespace     string
		trusted, want bool
	}{{"tenant", false, false}, {"another", false, true}, {"olm", true, true}} {
		if got := i.hasPullSlot(of(test.namespace, test.trusted)); got != test.want {
			t.Errorf("%s: got %v, want %v", test.namespace, got, test.want)
		}
	}

	i.releasePullSlot("tenant")
	if !i.hasPullSlot(of("tenant", false)) {
		t.Error("tenant: got no slot after the end of a pull")
	}
}

func TestSelectUnneededContent(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	content := func(name, catalog string, age time.Duration) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "olm", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)), Labels: map[string]string{LabelCatalogUID: catalog},
		}}
	}
	step := &v1alpha1.Step{}
	if err := steps.ReplaceManifests([]*v1alpha1.Step{step}, steps.Reference{Name: "referred", Namespace: "olm"}); err != nil {
		t.Fatal(err)
	}

	plans := []v1alpha1.InstallPlan{{Status: v1alpha1.InstallPlanStatus{Plan: []*v1alpha1.Step{nil, {}, step}}}}
	catalogs := []v1alpha1.CatalogSource{{ObjectMeta: metav1.ObjectMeta{UID: types.UID("there")}}}
	all := []metav1.PartialObjectMetadata{
		content("new", "there", time.Minute), content("referred", "there", 10*time.Hour),
		content("old", "there", 2*time.Hour), content("orphan", "gone", time.Second),
	}
	var got []string
	for _, c := range selectUnneededContent(all, catalogs, plans, now) {
		got = append(got, c.Name)
	}

	if diff := cmp.Diff([]string{"old", "orphan"}, got); diff != "" {
		t.Errorf("deleted (-want +got)\n%s", diff)
	}
}
