package install

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/former"
)

// Until a takeover is recorded, only the status reports that another implementation has fulfilled the spec. An error in the
// meantime is retried, and does not replace the report.
func TestErrorBeforeTakeoverIsRecorded(t *testing.T) {
	past := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	failure := errors.New("the Secrets of releases cannot be read")
	kept := &olmv1.ClusterObjectSet{}
	for name, test := range map[string]struct {
		facts      *facts
		decision   *decision
		err        error
		generation int64
		want       string
	}{
		"nothing is read":              {nil, nil, failure, 1, olmv1.ReasonRetrying},
		"the installation is not read": {&facts{}, nil, failure, 1, olmv1.ReasonSucceeded},
		"not taken over":               {&facts{}, &decision{takeover: takeoverDecision{create: &former.Installation{}}}, failure, 1, olmv1.ReasonSucceeded},
		"not marked":                   {&facts{kept: kept}, &decision{}, failure, 1, olmv1.ReasonSucceeded},
		"marked":                       {&facts{}, &decision{}, failure, 1, olmv1.ReasonRetrying},
		"another spec":                 {&facts{}, nil, failure, 2, olmv1.ReasonRetrying},
	} {
		ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "ext", Generation: test.generation}}
		ext.Status.Conditions = []metav1.Condition{{
			Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded, ObservedGeneration: 1, LastTransitionTime: past,
		}}
		(&Controller{}).reportOutcome(ext, test.facts, test.decision, test.err)
		if got := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing); got.Reason != test.want {
			t.Errorf("%s: got the reason %s, want %s", name, got.Reason, test.want)
		}
	}
}
