package updatestatus

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
)

// Refusal is a requested update that the operator does not carry out. It may be tried again.
type Refusal struct {
	// Target is the version that was requested, or the image where no version was.
	Target string `json:"target"`
	// Reason in a word.
	Reason string `json:"reason"`
	// Message for people.
	Message string `json:"message"`
	// Since is when it was refused.
	Since time.Time `json:"since"`
}

// isAt reports whether a release is the one that an update asks for. One that names an architecture
// asks for another image of the same version.
func isAt(release configv1.Release, asked *configv1.Update) bool {
	return (asked.Version == "" || asked.Version == release.Version) && (asked.Image == "" || asked.Image == release.Image) && asked.Architecture == ""
}

// refusalOf returns why the update that the spec asks for is not carried out: the spec is invalid, or
// the release was not accepted. It is nil when no update is asked for, or none was refused.
func refusalOf(cv *configv1.ClusterVersion) *Refusal {
	asked := cv.Spec.DesiredUpdate
	if asked == nil {
		return nil
	}

	target := cmp.Or(asked.Version, asked.Image)
	if target == "" || isAt(cv.Status.Desired, asked) {
		return nil
	}

	for _, refused := range []struct {
		condition string
		status    metav1.ConditionStatus
	}{
		{configv1.ClusterVersionInvalid, metav1.ConditionTrue}, {configv1.ClusterVersionReleaseAccepted, metav1.ConditionFalse},
	} {
		if c := clusterupdate.Condition(cv.Status.Conditions, refused.condition); c != nil && c.Status == refused.status {
			return &Refusal{Target: target, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
		}
	}

	return nil
}
